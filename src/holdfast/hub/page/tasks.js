// Tasks as a table: by outcome, by day, or those that were cut off and wait.
import * as api from "./api.js";
import { h, put } from "./dom.js";
import { ago, full, lasting, ms } from "./time.js";
import { go } from "./route.js";
import { gist } from "./tool.js";

const STATUSES = ["running", "queued", "succeeded", "failed", "cancelled", "interrupted"];

/** The list behind a figure: `query` is of the address. */
export class Tasks {
  constructor(query) {
    this.status = query.get("status") ?? "";
    this.day = query.get("day");
    this.waiting = query.get("waiting");
    this.asks = query.get("asks");
    this.body = h("p", { class: "loading" }, "Loading…");
    const title = this.asks ? "Waiting for your answer" : this.waiting ? "Interrupted and waiting" : `Tasks${this.status ? `: ${this.status}` : ""}${this.day ? ` on ${this.day}` : ""}`;
    const choose = h("select", { "aria-label": "Outcome", value: this.status, onchange: () => go(`/tasks${choose.value ? `?status=${choose.value}` : ""}`) }, h("option", { value: "" }, "all"), STATUSES.map((status) => h("option", { value: status }, status)));
    choose.value = this.status;
    this.element = h("div", { class: "view" }, h("div", { class: "title-row" }, h("h1", { tabindex: "-1" }, title), choose), this.body);
  }

  async open() {
    const tasks = this.asks ? await asking() : this.waiting ? (await api.overview(1)).interrupted : (await api.tasks({ status: this.status, day: this.day, limit: 100 })).tasks;
    const mine = this.day ? tasks.filter((task) => (task.ended_at ?? task.queued_at).startsWith(this.day)) : tasks;
    if (!mine.length) {
      put(this.body, "None.");
      return;
    }
    const head = ["Task", "Outcome", "When", "Took"].map((name) => h("th", { scope: "col" }, name));
    this.body.replaceWith(h("div", { class: "table tasks", tabindex: "0", role: "group", "aria-label": "Tasks" }, h("table", null, h("thead", null, h("tr", null, head)), h("tbody", null, mine.map(row)))));
  }

  close() {}
}

/** The tasks that wait for an answer, with what they ask as their reason. */
async function asking() {
  const { permissions } = await api.permissions();
  const tasks = await Promise.all([...new Set(permissions.map((one) => one.task))].map((task) => api.task(task)));
  return tasks.map((task) => ({ ...task, reason: permissions.filter((one) => one.task === task.id).map((one) => `asks for ${one.name ?? "a tool"}: ${gist(one.input)}`).join("; ") }));
}

function row(task) {
  const at = task.ended_at ?? task.started_at ?? task.queued_at;
  const took = task.started_at && task.ended_at ? lasting(ms(task.ended_at) - ms(task.started_at)) : "";
  return h(
    "tr",
    null,
    h("td", null, h("a", { href: `#/s/${task.session}` }, h("bdi", { class: "title" }, task.prompt.slice(0, 200))), task.reason ? h("p", { class: "faint" }, task.reason) : null),
    h("td", null, h("span", { class: `status ${task.status}` }, task.status)),
    h("td", null, h("time", { datetime: at, title: full(at) }, ago(at))),
    h("td", null, took),
  );
}
