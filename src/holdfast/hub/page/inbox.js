// The inbox: what needs a person first, then what died, what waits, what runs and what has finished.
import * as api from "./api.js";
import { activity } from "./activity.js";
import { h, icon, put } from "./dom.js";
import { withoutCommands } from "./hints.js";
import { ImportOffer } from "./import-offer.js";
import { announce, toast, trouble } from "./notify.js";
import { stopTask, taskName } from "./open-tasks.js";
import { askingCard } from "./permission-card.js";
import { projectNames, projectOf } from "./projects.js";
import { isStalled, needsPerson, waitText } from "./status.js";
import { ago, full, lasting, many, ms, usageText } from "./time.js";

const TICK_MS = 15_000; // ages and running times
const SHOWN = 20; // rows of a section before "Show all"

/** The first view. */
export class Inbox {
  #timer = 0;
  #all = new Set(); // sections that are shown whole
  #shown = "";

  constructor() {
    this.element = h("div", { class: "view inbox" }, h("p", { class: "loading" }, "Loading…"));
    this.changed = () => this.#draw();
    this.offer = new ImportOffer();
    this.result = h("div"); // of the last "Send all again"
  }

  async open() {
    activity.addEventListener("change", this.changed);
    activity.soon(0);
    this.#timer = setInterval(() => this.#draw(true), TICK_MS);
    if (activity.loaded) this.#draw();
    this.offer.look();
  }

  close() {
    clearInterval(this.#timer);
    activity.removeEventListener("change", this.changed);
    this.offer.close();
  }

  #draw(again = false) {
    const { inbox } = activity;
    const key = JSON.stringify([inbox, [...this.#all]]);
    if (!again && key === this.#shown) return;
    this.#shown = key;
    const paths = [...new Set(Object.values(inbox.sessions).map(projectOf))];
    const names = projectNames(paths);
    this.names = new Map(paths.map((path, index) => [path, names[index]]));
    const open = inbox.open.filter((task) => inbox.sessions[task.session]?.state !== "deleted");
    const asking = new Set(inbox.permissions.map((one) => one.task));
    const stalled = new Set(open.filter((task) => isStalled(task, inbox.sessions[task.session]) && !asking.has(task.id)));
    const persons = open.filter((task) => needsPerson(task) || stalled.has(task));
    const waiting = open.filter((task) => (task.status === "waiting" && !needsPerson(task)) || task.status === "queued");
    const running = open.filter((task) => ["running", "unreachable"].includes(task.status) && !asking.has(task.id) && !stalled.has(task));
    const nothing = !open.length && !inbox.failed.length && !inbox.finished.length;
    const focused = this.element.contains(document.activeElement) ? document.activeElement.dataset.focus : null;
    put(
      this.element,
      h("h1", { tabindex: "-1" }, "Inbox"),
      this.offer.element,
      this.result,
      this.#section("Needs you", inbox.permissions.length + persons.length, [...inbox.permissions.map((ask) => this.#permission(ask)), ...persons.map((task) => this.#row(task, this.#link(task, "Open")))], "needs"),
      this.#section("Died or failed", inbox.failed.length, inbox.failed.map((task) => this.#row(task, this.#again(task))), "failed", inbox.failed.some((task) => task.status === "interrupted") ? h("button", { type: "button", onclick: (event) => this.#sendAll(event) }, "Send all again") : null),
      this.#section("Waiting", waiting.length, waiting.map((task) => this.#row(task, this.#stop(task, "Remove")))),
      this.#section("Running", running.length, running.map((task) => this.#row(task, this.#stop(task, "Stop")))),
      this.#section("Finished since you last looked", inbox.finished.length, inbox.finished.map((task) => this.#row(task, this.#link(task, "Read"))), "finished", h("button", { type: "button", onclick: () => activity.look() }, "Mark as seen")),
      inbox.more?.length ? h("p", { class: "faint" }, "Not every task is listed here. ", h("a", { href: "#/tasks" }, "Show all tasks")) : null,
      nothing ? this.#invitation() : null,
    );
    if (focused) this.element.querySelector(`[data-focus="${CSS.escape(focused)}"]`)?.focus();
  }

  #section(title, number, rows, kind = "", extra = null) {
    if (!number) return null;
    const cut = rows.length > SHOWN && !this.#all.has(title);
    const all = () => {
      this.#all.add(title);
      this.#draw(true);
    };
    return h(
      "section",
      { class: `inbox-section ${kind}`, "aria-label": title },
      h("div", { class: "section-head" }, h("h2", null, title, h("small", null, many(number, "task"))), extra),
      h("ul", { class: "inbox-list" }, cut ? rows.slice(0, SHOWN) : rows),
      cut ? h("button", { type: "button", class: "more", onclick: all }, `Show all ${number}`) : null,
    );
  }

  #permission(ask) {
    const session = activity.inbox.sessions[ask.session];
    return h("li", { class: "inbox-row asks" }, h("div", { class: "what" }, this.#title(ask.session, session?.title ?? ask.session), this.#facts(session, [h("time", { datetime: ask.at, title: full(ask.at) }, ago(ask.at))])), askingCard(ask));
  }

  #title(id, words) {
    return h("a", { class: "title", href: `#/s/${id}`, "data-focus": `title ${id}` }, h("bdi", null, words));
  }

  #facts(session, more) {
    const path = session ? projectOf(session) : "";
    return h("p", { class: "row-facts" }, session ? h("span", { title: path || null }, this.names.get(path) ?? "") : null, session ? h("span", null, session.agent) : null, session?.worktree ? h("span", { class: "branch" }, session.worktree.branch) : null, session?.key ? h("code", null, session.key) : null, more);
  }

  #row(task, action) {
    const session = activity.inbox.sessions[task.session];
    const at = task.ended_at ?? task.started_at ?? task.queued_at;
    const running = task.status === "running" && task.started_at ? lasting(Date.now() - ms(task.started_at)) : "";
    const usage = usageText(task.usage);
    const note = task.status === "waiting" ? withoutCommands(task.waiting_for?.text) : ["failed", "interrupted", "cancelled"].includes(task.status) ? withoutCommands(task.reason) : task.answer;
    const name = session?.title ?? taskName(task);
    const quiet = isStalled(task, session) ? `nothing happened for ${lasting(Date.now() - ms(session.updated_at))}` : "";
    return h(
      "li",
      { class: `inbox-row ${task.status}`, "data-task": task.id },
      h("span", { class: `status ${task.status}` }, waitText(task)),
      h("div", { class: "what" }, this.#title(task.session, name), task.prompt && taskName(task) !== name ? h("p", { class: "prompt" }, taskName(task, 160)) : null, note || quiet ? h("p", { class: "faint note-line" }, quiet || note) : null, this.#facts(session, [running ? h("span", null, running) : h("time", { datetime: at, title: full(at) }, ago(at)), usage ? h("span", null, usage) : null])),
      action,
    );
  }

  #link(task, words) {
    return h("a", { class: "button", href: `#/s/${task.session}`, "aria-label": `${words}: ${taskName(task, 60)}` }, words);
  }

  #stop(task, words) {
    return h("button", { type: "button", class: "danger", "data-focus": `stop ${task.id}`, "aria-label": `${words}: ${taskName(task, 60)}`, onclick: () => stopTask(task) }, words);
  }

  #again(task) {
    const again = async (event) => {
      const button = event.currentTarget;
      button.disabled = true;
      try {
        const whole = await api.task(task.id);
        await api.resume(task.session, { prompt: whole.prompt, how: "verdict", queue: true });
        announce("Sent again");
        toast(`Sent again: ${taskName(task)}`);
      } catch (problem) {
        trouble(problem);
        button.disabled = false;
      }
    };
    return h("button", { type: "button", "aria-label": `Run again: ${taskName(task, 60)}`, onclick: again }, "Run again");
  }

  async #sendAll(event) {
    const button = event.currentTarget;
    button.disabled = true;
    try {
      const { redispatched, skipped } = await api.redispatch();
      this.#told(redispatched, skipped);
    } catch (problem) {
      trouble(problem);
    }
    button.disabled = false;
    activity.soon(0);
  }

  /** What was sent, what was not and why; it stays until it is dismissed. */
  #told(sent, skipped) {
    const words = sent.length ? `Sent ${many(sent.length, "task")} again` : "Nothing was sent again";
    announce(words);
    const name = (task) => {
      const found = activity.inbox.failed.find((one) => one.id === task);
      return found ? taskName(found) : task;
    };
    const line = (task, session, more) => h("li", null, h("a", { href: `#/s/${session}` }, h("bdi", null, name(task))), more);
    put(
      this.result,
      h(
        "section",
        { class: `note ${sent.length ? "good" : "bad"}`, "aria-label": "Sent again" },
        h("h2", null, words, sent.length && skipped.length ? `, ${many(skipped.length, "task")} not` : ""),
        sent.length ? h("ul", { class: "done" }, sent.map((one) => line(one.of, one.session, one.waits_for ? ` waits: ${withoutCommands(one.waits_for)}` : null))) : null,
        skipped.length ? [h("p", null, h("strong", null, "Not sent:")), h("ul", { class: "done" }, skipped.map((one) => line(one.task, one.session, `: ${withoutCommands(one.message)}`))), h("p", null, "Open a session for the ways out of it.")] : null,
        !sent.length && !skipped.length ? h("p", null, "There is no interrupted task that could be sent again.") : null,
        h("button", { type: "button", onclick: () => put(this.result) }, "Dismiss"),
      ),
    );
  }

  #invitation() {
    const start = () => document.dispatchEvent(new CustomEvent("newtask"));
    return h(
      "section",
      { class: "note welcome", "aria-label": "Welcome" },
      h("h2", null, "Nothing needs you"),
      h("p", null, "Start a task: say what to do, choose an agent and a folder. What the agent says and does is on disk as it happens, and stays when something dies."),
      h("div", { class: "buttons" }, h("button", { type: "button", class: "primary", onclick: start }, icon("plus"), "Start a task"), h("span", { class: "faint" }, "No agent at hand? The demo agent needs no model.")),
    );
  }
}
