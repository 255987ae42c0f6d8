// What happened lately, at a glance; every figure leads to its list.
import * as api from "./api.js";
import { asked } from "./asked.js";
import { bars, columns, OUTCOMES, ring } from "./charts.js";
import { h, icon, put } from "./dom.js";
import { doneList } from "./healed.js";
import { toast, trouble } from "./say.js";
import { judgeNewest } from "./judged.js";
import { ago, count, full, many } from "./time.js";

const DAYS = 14;

/** The view of everything. */
export class Overview {
  #closed = false;
  #later = 0;

  constructor(stream) {
    this.stream = stream;
    this.element = h("div", { class: "view overview" }, h("p", { class: "loading" }, "Loading…"));
    this.heard = (message) => (message.detail?.event?.kind === "task" || message.type !== "event") && this.#soon();
  }

  async open() {
    for (const name of ["event", "gap", "state"]) this.stream.addEventListener(name, this.heard);
    asked.addEventListener("change", this.heard);
    this.verdicts = h("div", null, h("p", { class: "faint" }, "Looking…"));
    this.adopt = h("div");
    await this.#draw();
    this.#verdicts();
    this.#adoptable();
  }

  close() {
    this.#closed = true;
    clearTimeout(this.#later);
    clearTimeout(this.polling);
    for (const name of ["event", "gap", "state"]) this.stream.removeEventListener(name, this.heard);
    asked.removeEventListener("change", this.heard);
  }

  #soon() {
    this.#later ||= setTimeout(() => {
      this.#later = 0;
      this.#draw().catch((problem) => problem.code === "offline" || trouble(problem));
    }, 1500);
  }

  async #draw() {
    const told = await api.overview(DAYS);
    if (this.#closed) return;
    const sum = (name) => told.days.reduce((total, day) => total + (day[name] ?? 0), 0);
    const waiting = told.interrupted ?? [];
    put(
      this.element,
      h("h1", { tabindex: "-1" }, "Overview"),
      this.adopt,
      h(
        "ul",
        { class: "figures" },
        figure(asked.all.length, "waiting for you", "#/tasks?asks=1", asked.all.length ? "asks" : ""),
        figure(told.running, "running", "#/tasks?status=running", "running"),
        figure(told.queued, "queued", "#/tasks?status=queued", "queued"),
        figure(waiting.length, "interrupted, waiting", "#/tasks?waiting=1", "interrupted"),
        figure(told.sessions.live, "live sessions", "#/list?state=live"),
        figure(told.sessions.archived, "archived", "#/list?state=archived"),
        figure(told.sessions.deleted, "deleted", "#/list?state=deleted"),
      ),
      h(
        "div",
        { class: "panels" },
        panel("Tasks by outcome", `last ${DAYS} days`, [columns(told.days, (day, name) => `#/tasks?status=${name}&day=${day}`), h("ul", { class: "totals" }, OUTCOMES.map((name) => h("li", null, h("a", { href: `#/tasks?status=${name}` }, h("span", { class: `swatch fill-${name}`, "aria-hidden": "true" }), h("b", null, count(sum(name))), ` ${name}`))))], "wide"),
        panel("Interrupted and waiting", waiting.length ? many(waiting.length, "session") : "", this.#waiting(waiting)),
        panel("Sessions by verdict", "", this.verdicts),
        panel("Agents", "", told.agents.length ? bars(told.agents.map((agent) => ({ label: agent.agent, number: agent.sessions, extra: agent.running ? `${agent.running} running` : "", href: `#/list?agent=${encodeURIComponent(agent.agent)}` }))) : h("p", { class: "nothing" }, "None has run yet.")),
        panel("Healed", told.healed?.at ? ago(told.healed.at) : "", told.healed?.done?.length ? [doneList(told.healed.done.slice(0, 6)), h("p", null, h("a", { href: "#/doctor" }, "To the doctor"))] : h("p", { class: "nothing" }, "Nothing had to be healed at the last start. ", h("a", { href: "#/doctor" }, "Look again"))),
      ),
    );
  }

  #waiting(tasks) {
    if (!tasks.length) return h("p", { class: "nothing" }, icon("check"), "Nothing was cut off.");
    const again = async (event) => {
      event.currentTarget.disabled = true;
      try {
        await api.redispatch();
        toast("Sent again, each as its verdict allows");
      } catch (problem) {
        trouble(problem);
      }
      this.#soon();
    };
    return [
      h("ul", { class: "plain-list" }, tasks.slice(0, 6).map((task) => h("li", null, h("a", { href: `#/s/${task.session}` }, h("span", { class: "dot interrupted", "aria-hidden": "true" }), h("bdi", { class: "title" }, task.title ?? task.prompt.slice(0, 120)), h("time", { datetime: task.ended_at ?? task.queued_at, title: full(task.ended_at ?? task.queued_at) }, ago(task.ended_at ?? task.queued_at)))))),
      h("div", { class: "buttons" }, tasks.length > 6 ? h("a", { href: "#/tasks?waiting=1" }, `All ${count(tasks.length)}`) : null, h("button", { type: "button", onclick: again }, "Send all again")),
    ];
  }

  async #verdicts() {
    try {
      const { counts, looked, more } = await judgeNewest();
      const parts = [["resume", "safe to resume"], ["fresh", "start fresh"], ["fork", "fork"], ["wait", "wait"]].map(([name, label]) => ({ name, label, number: counts[name] ?? 0, href: `#/verdicts?action=${name}` }));
      put(this.verdicts, ring(parts.filter((part) => part.number || part.name !== "fork"), "Sessions by verdict"), more ? h("p", { class: "faint" }, `The newest ${count(looked)} live sessions.`) : null);
    } catch (problem) {
      put(this.verdicts, h("p", { class: "nothing" }, problem.message));
    }
  }

  async #adoptable() {
    let told;
    let progress;
    try {
      [told, progress] = await Promise.all([api.adoptable(), api.adopting()]);
    } catch {
      return; // an offer, not a duty
    }
    if (this.#closed) return;
    if (progress.running) this.polling = setTimeout(() => this.#adoptable(), 1000);
    const offers = told.agents.filter((agent) => agent.sessions);
    put(
      this.adopt,
      progress.running ? h("p", { class: "note", role: "status" }, `Importing ${progress.agent}: ${count(progress.done)} of ${count(progress.of)}`) : null,
      !progress.running && offers.length ? h("div", { class: "note" }, h("p", null, "There are sessions here that agents kept by themselves."), h("div", { class: "buttons" }, offers.map((offer) => h("button", { type: "button", onclick: () => this.#import(offer.agent) }, `Import ${many(offer.sessions, "session")} of ${offer.agent}`)))) : null,
    );
  }

  async #import(agent) {
    try {
      await api.adopt(agent);
    } catch (problem) {
      trouble(problem);
    }
    this.#adoptable();
  }
}

const figure = (number, label, href, kind = "") => h("li", null, h("a", { href, class: `figure ${kind}` }, h("b", null, count(number)), h("span", null, label)));

function panel(title, note, content, className = "") {
  return h("section", { class: `panel ${className}`, "aria-label": title }, h("h2", null, title, note ? h("small", null, note) : null), content);
}
