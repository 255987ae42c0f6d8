// Numbers of the last days; every figure leads to its list.
import * as api from "./api.js";
import { activity } from "./activity.js";
import { bars, columns, OUTCOMES, ring } from "./charts.js";
import { h, put } from "./dom.js";
import { quietly } from "./notify.js";
import { covered, judgeLive } from "./verdict-list.js";
import { clock, count, many } from "./time.js";

const DAYS = 14;
const COUNTED = new Set(["task", "session"]); // records that change a figure
const MANY = 200; // sessions: to judge more takes so long that it is told, and not done again by itself
const VERDICTS = [["resume", "safe to resume"], ["fresh", "start fresh"], ["fork", "fork"], ["wait", "wait"], ["unknown", "not judged"]];

/** The view of the numbers. */
export class Statistics {
  #closed = false;
  #later = 0;

  constructor(stream) {
    this.stream = stream;
    this.element = h("div", { class: "view statistics" }, h("p", { class: "loading" }, "Loading…"));
    this.heard = (message) => (message.type !== "event" || COUNTED.has(message.detail.event.kind)) && this.#soon();
  }

  async open() {
    for (const name of ["event", "gap", "state"]) this.stream.addEventListener(name, this.heard);
    activity.addEventListener("change", this.heard);
    this.verdicts = h("div", null, h("p", { class: "faint" }, "Looking…"));
    await this.#draw();
    this.#verdicts();
  }

  close() {
    this.#closed = true;
    clearTimeout(this.#later);
    for (const name of ["event", "gap", "state"]) this.stream.removeEventListener(name, this.heard);
    activity.removeEventListener("change", this.heard);
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
    this.live = told.sessions.live;
    put(
      this.element,
      h("h1", { tabindex: "-1" }, "Statistics"),
      h(
        "ul",
        { class: "figures" },
        figure(activity.permissions.length, "asking you", "#/tasks?asks=1", activity.permissions.length ? "asks" : ""),
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
        panel("Sessions by verdict", "", this.verdicts),
        panel("Agents", "", told.agents.length ? bars(told.agents.map((agent) => ({ label: agent.agent, number: agent.sessions, extra: agent.running ? `${agent.running} running` : "", href: `#/list?agent=${encodeURIComponent(agent.agent)}` }))) : h("p", { class: "nothing" }, "None has run yet.")),
      ),
    );
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
}

const figure = (number, label, href, kind = "") => h("li", null, h("a", { href, class: `figure ${number ? kind : "zero"}` }, h("b", null, count(number)), h("span", null, label)));

function panel(title, note, content, className = "") {
  return h("section", { class: `panel ${className}`, "aria-label": title }, h("h2", null, title, note ? h("small", null, note) : null), content);
}
