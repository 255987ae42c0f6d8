// Sessions that agents kept by themselves: offered, and imported when a person asks.
import * as api from "./api.js";
import { h, put } from "./dom.js";
import { toast, trouble } from "./notify.js";
import { count, many } from "./time.js";

const POLL_MS = 1000;

/** The offer; it keeps itself up to date until it is closed. */
export class ImportOffer {
  #closed = false;
  #importing = false;
  #polling = 0;

  constructor() {
    this.element = h("div");
  }

  close() {
    this.#closed = true;
    clearTimeout(this.#polling);
  }

  async look() {
    let found;
    let progress;
    try {
      [found, progress] = await Promise.all([api.adoptable(), api.adopting()]);
    } catch {
      return; // an offer, not a duty
    }
    if (this.#closed) return;
    if (progress.running) {
      this.#importing = true;
      this.#polling = setTimeout(() => this.look(), POLL_MS);
    } else if (this.#importing) {
      this.#importing = false;
      toast(`Imported ${many(progress.done, "session")} of ${progress.agent}`);
    }
    const offers = found.agents.filter((agent) => agent.sessions);
    put(
      this.element,
      progress.running ? h("p", { class: "note", role: "status" }, `Importing ${progress.agent}: ${count(progress.done)} of ${count(progress.of)}`) : null,
      progress.problems.length ? h("details", { class: "note bad" }, h("summary", null, `${many(progress.problems.length, "thing")} of ${progress.agent} could not be imported`), h("ul", { class: "done" }, progress.problems.map((text) => h("li", null, text)))) : null,
      !progress.running && offers.length ? this.#offer(offers) : null,
    );
  }

  #offer(offers) {
    return h(
      "section",
      { class: "note", "aria-label": "Import" },
      h("p", null, "Agents on this machine have sessions of their own. Importing copies their history; the agents' files stay as they are."),
      h("div", { class: "buttons" }, offers.map((offer) => h("button", { type: "button", onclick: () => this.#import(offer.agent) }, `Import ${many(offer.sessions, "session")} of ${offer.agent}`))),
    );
  }

  async #import(agent) {
    try {
      await api.adopt(agent);
      this.#importing = true;
    } catch (problem) {
      trouble(problem);
    }
    this.look();
  }
}
