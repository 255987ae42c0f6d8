// Tasks as a table: by outcome, by day, or those that were cut off and wait.
import * as api from "./api.js";
import { activity } from "./activity.js";
import { h, put } from "./dom.js";
import { withoutCommands } from "./hints.js";
import { statusWord, waitText } from "./status.js";
import { ago, count, full, lasting, ms } from "./time.js";
import { go } from "./route.js";
import { gist } from "./tool.js";

const STATUSES = ["running", "queued", "waiting", "succeeded", "failed", "cancelled", "interrupted"];
const MOST = 1000;

/** The list behind a figure: `query` is of the address. */
export class Tasks {
  constructor(query) {
    this.status = query.get("status") ?? "";
    this.day = query.get("day");
    this.since = query.get("since");
    this.waiting = query.get("waiting");
    this.asks = query.get("asks");
    this.body = h("p", { class: "loading" }, "Loading…");
    const when = this.day ? ` on ${this.day}` : this.since ? ` since ${this.since}` : "";
    const title = this.asks ? "Waiting for your answer" : this.waiting ? "Interrupted and waiting" : `Tasks${this.status ? `: ${this.status}` : ""}${when}`;
    const choose = h("select", { "aria-label": "Outcome", onchange: () => go(`/tasks${choose.value ? `?status=${choose.value}` : ""}`) }, h("option", { value: "" }, "Any outcome"), STATUSES.concat(STATUSES.includes(this.status) || !this.status ? [] : this.status).map((status) => h("option", { value: status }, status)));
    choose.value = this.waiting ? "interrupted" : this.status;
    this.element = h("div", { class: "view" }, h("div", { class: "title-row" }, h("h1", { tabindex: "-1" }, title), choose), this.body);
  }

  async open() {
    const [tasks, more] = await this.#read();
    if (!tasks.length) {
      put(this.body, "None.");
      return;
    }
    const head = ["Task", "Outcome", "When", "Took"].map((name) => h("th", { scope: "col" }, name));
    this.body.replaceWith(
      h("div", { class: "table tasks", tabindex: "0", role: "group", "aria-label": "Tasks" }, h("table", null, h("thead", null, h("tr", null, head)), h("tbody", null, tasks.map(row)))),
      h("p", { class: "faint told" }, more ? `The latest ${count(tasks.length)}; there may be more.` : `${count(tasks.length)} in all.`),
    );
  }

  /** The tasks, and whether there are more than these. */
  async #read() {
    if (this.asks) return [await asking(), false];
    if (this.waiting) {
      const told = await api.overview(1);
      return [told.interrupted, told.waiting > told.interrupted.length];
    }
    const { tasks } = await api.tasks({ status: this.status, day: this.day, limit: MOST });
    const mine = this.since ? tasks.filter((task) => (task.ended_at ?? task.queued_at) >= this.since) : tasks;
    return [mine, tasks.length === MOST];
  }

  close() {}
}

/** The tasks that wait for an answer, with what they ask as their reason. */
async function asking() {
  const { permissions } = await api.inbox();
  const tasks = await Promise.all([...new Set(permissions.map((one) => one.task))].map((task) => api.task(task)));
  return tasks.map((task) => ({ ...task, reason: permissions.filter((one) => one.task === task.id).map((one) => `asks for ${one.name ?? "a tool"}: ${gist(one.input)}`).join("; ") }));
}

function row(task) {
  const at = task.ended_at ?? task.started_at ?? task.queued_at;
  const asks = activity.permissions.some((one) => one.task === task.id);
  const took = task.started_at && task.ended_at ? lasting(ms(task.ended_at) - ms(task.started_at)) : "";
  return h(
    "tr",
    null,
    h("td", null, h("a", { href: `#/s/${task.session}` }, h("bdi", { class: "title" }, task.prompt.slice(0, 200))), task.reason ? h("p", { class: "faint" }, withoutCommands(task.reason)) : null),
    h("td", null, h("span", { class: `status ${asks ? "asks" : task.status}` }, asks ? statusWord("asks") : waitText(task))),
    h("td", null, h("time", { datetime: at, title: full(at) }, ago(at))),
    h("td", null, took),
  );
}
