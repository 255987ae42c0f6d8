// What happened lately, at a glance; every figure leads to its list.
import * as api from "./api.js";
import { asked } from "./permissions.js";
import { bars, columns, OUTCOMES, ring } from "./charts.js";
import { h, icon, put } from "./dom.js";
import { doneList } from "./recovery-banner.js";
import { quietly, toast, trouble } from "./notify.js";
import { covered, judgeLive } from "./verdict-list.js";
import { ago, clock, count, full, many } from "./time.js";

const DAYS = 14;
const COUNTED = new Set(["task", "session"]); // records that change a figure
const MANY = 200; // sessions: to judge more takes so long that it is told, and not done again by itself
const VERDICTS = [["resume", "safe to resume"], ["fresh", "start fresh"], ["fork", "fork"], ["wait", "wait"], ["unknown", "not judged"]];

/** The view of everything. */
export class Overview {
  #closed = false;
  #later = 0;

  constructor(stream) {
    this.stream = stream;
    this.element = h("div", { class: "view overview" }, h("p", { class: "loading" }, "Loading…"));
    this.heard = (message) => (message.type !== "event" || COUNTED.has(message.detail.event.kind)) && this.#soon();
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
      this.#draw().then(() => this.judged > MANY || this.#verdicts(), quietly);
    }, 1500);
  }

  async #draw() {
    const told = await api.overview(DAYS);
    if (this.#closed) return;
    const sum = (name) => told.days.reduce((total, day) => total + (day[name] ?? 0), 0);
    const waiting = told.interrupted;
    this.live = told.sessions.live;
    put(
      this.element,
      h("h1", { tabindex: "-1" }, "Overview"),
      this.adopt,
      told.sessions.live + told.sessions.archived + told.sessions.deleted ? null : welcome(),
      h(
        "ul",
        { class: "figures" },
        figure(asked.all.length, "asking you", "#/tasks?asks=1", asked.all.length ? "asks" : ""),
        figure(told.running, "running", "#/tasks?status=running", "running"),
        figure(told.queued, "queued", "#/tasks?status=queued", "queued"),
        told.held ? figure(told.held, "waiting", "#/tasks?status=waiting", "waiting") : null,
        told.unreachable ? figure(told.unreachable, "unreachable", "#/tasks?status=unreachable") : null,
        figure(told.waiting, "interrupted", "#/tasks?waiting=1", "interrupted"),
        figure(told.sessions.live, "live sessions", "#/list?state=live"),
        figure(told.sessions.archived, "archived", "#/list?state=archived"),
        figure(told.sessions.deleted, "deleted", "#/list?state=deleted"),
      ),
      h(
        "div",
        { class: "panels" },
        panel("Tasks by outcome", `last ${DAYS} days`, [columns(told.days, (day, name) => `#/tasks?status=${name}&day=${day}`), h("ul", { class: "totals" }, OUTCOMES.map((name) => h("li", null, h("a", { href: `#/tasks?status=${name}&since=${told.days[0].day}` }, h("span", { class: `swatch fill-${name}`, "aria-hidden": "true" }), h("b", null, count(sum(name))), ` ${name}`))))], "wide"),
        panel("Interrupted and waiting", told.waiting ? many(told.waiting, "session") : "", this.#waiting(waiting, told.waiting)),
        panel("Sessions by verdict", "", this.verdicts),
        panel("Agents", "", told.agents.length ? bars(told.agents.map((agent) => ({ label: agent.agent, number: agent.sessions, extra: agent.running ? `${agent.running} running` : "", href: `#/list?agent=${encodeURIComponent(agent.agent)}` }))) : h("p", { class: "nothing" }, "None has run yet.")),
        panel("Healed", told.healed?.at ? ago(told.healed.at) : "", told.healed?.done?.length ? [doneList(told.healed.done.slice(0, 6)), h("p", null, h("a", { href: "#/doctor" }, "To the doctor"))] : h("p", { class: "nothing" }, "Nothing had to be healed at the last start. ", h("a", { href: "#/doctor" }, "Look again"))),
      ),
    );
  }

  #waiting(tasks, all) {
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
      h("div", { class: "buttons" }, all > 6 ? h("a", { href: "#/tasks?waiting=1" }, `All ${count(all)}`) : null, h("button", { type: "button", onclick: again }, "Send all again")),
    ];
  }

  async #verdicts() {
    if (this.judging) return;
    this.judging = true;
    try {
      const { counts, judged, more } = await judgeLive((looked) => {
        if (looked > MANY && !this.verdicts.querySelector(".ring")) put(this.verdicts, h("p", { class: "faint" }, `Looking… ${many(looked, "session")} judged`));
        return !this.#closed;
      });
      const parts = VERDICTS.map(([name, label]) => ({ name, label, number: counts[name] ?? 0, href: `#/verdicts?action=${name}` }));
      const shown = parts.filter((part) => part.number || (part.name !== "fork" && part.name !== "unknown"));
      this.judged = judged.length;
      put(this.verdicts, ring(shown, "Sessions by verdict"), more ? covered(judged.length, () => this.#all(), this.live) : this.judged > MANY ? h("p", { class: "faint told" }, `As of ${clock(Date.now())}.`) : null);
    } catch (problem) {
      put(this.verdicts, h("p", { class: "nothing" }, problem.message));
    } finally {
      this.judging = false;
    }
  }

  #all() {
    put(this.verdicts, h("p", { class: "faint" }, "Looking…"));
    this.#verdicts();
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
    if (progress.running) {
      this.importing = true;
      this.polling = setTimeout(() => this.#adoptable(), 1000);
    } else if (this.importing) {
      this.importing = false;
      toast(`Imported ${many(progress.done, "session")} of ${progress.agent}`);
    }
    const offers = told.agents.filter((agent) => agent.sessions);
    put(
      this.adopt,
      progress.running ? h("p", { class: "note", role: "status" }, `Importing ${progress.agent}: ${count(progress.done)} of ${count(progress.of)}`) : null,
      progress.problems.length ? h("details", { class: "note bad" }, h("summary", null, `${many(progress.problems.length, "thing")} of ${progress.agent} could not be imported`), h("ul", { class: "done" }, progress.problems.map((text) => h("li", null, text)))) : null,
      !progress.running && offers.length ? offered(offers, (agent) => this.#import(agent)) : null,
    );
  }

  async #import(agent) {
    try {
      await api.adopt(agent);
      this.importing = true;
    } catch (problem) {
      trouble(problem);
    }
    this.#adoptable();
  }
}

function offered(offers, take) {
  return h(
    "section",
    { class: "note", "aria-label": "Import" },
    h("p", null, "There are sessions here that agents kept by themselves. Importing copies their history; the agents' own files stay as they are."),
    h("div", { class: "buttons" }, offers.map((offer) => h("button", { type: "button", onclick: () => take(offer.agent) }, `Import ${many(offer.sessions, "session")} of ${offer.agent}`))),
  );
}

const figure = (number, label, href, kind = "") => h("li", null, h("a", { href, class: `figure ${number ? kind : "zero"}` }, h("b", null, count(number)), h("span", null, label)));

function welcome() {
  const start = () => document.dispatchEvent(new CustomEvent("newtask"));
  return h(
    "section",
    { class: "note welcome", "aria-label": "Welcome" },
    h("h2", null, "Nothing has run here yet"),
    h("p", null, "Start a task here, or with ", h("code", null, "holdfast run -a AGENT PROMPT"), ". What the agent says and does is on disk as it happens, and stays when something dies."),
    h("div", { class: "buttons" }, h("button", { type: "button", class: "primary", onclick: start }, icon("plus"), "Start a task"), h("span", { class: "faint" }, "No agent at hand? The demo agent needs no model.")),
  );
}

function panel(title, note, content, className = "") {
  return h("section", { class: `panel ${className}`, "aria-label": title }, h("h2", null, title, note ? h("small", null, note) : null), content);
}
