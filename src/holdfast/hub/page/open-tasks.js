// The tasks of a session that have not ended: what runs, the queue beside it, and a way to stop each by name.
import * as api from "./api.js";
import { confirm } from "./dialog.js";
import { h, icon, put } from "./dom.js";
import { announce, toast, trouble } from "./notify.js";
import { leading, waitText } from "./status.js";
import { withoutCommands } from "./hints.js";

const RUNS = new Set(["running", "unreachable"]);
const ORDER = ["running", "unreachable", "waiting", "queued"];

/** What a task is called on a button or in a question. */
export function taskName(task, length = 80) {
  const line = task.prompt.trim().split("\n", 1)[0];
  return line.length > length ? `${line.slice(0, length - 1)}…` : line;
}

/** Ask once, then stop a task that runs or take one out of the queue. */
export async function stopTask(task) {
  const runs = RUNS.has(task.status);
  const title = runs ? "Stop this task?" : "Take this task out of the queue?";
  const text = runs ? "The agent is asked to stop, then everything that it started is ended." : "It has not started. Its prompt stays in the log.";
  if (!(await confirm(title, [h("blockquote", { class: "quoted" }, taskName(task, 200)), h("p", null, text)], runs ? "Stop it" : "Take it out", runs ? "Keep it running" : "Keep it"))) return;
  try {
    await api.cancel(task.id);
    announce(runs ? "Asked to stop" : "Taken out of the queue");
    if (!runs) toast(`Taken out of the queue: ${taskName(task)}`);
  } catch (problem) {
    trouble(problem);
  }
}

/** The bar; `show(tasks)` draws it again. */
export class OpenTasks {
  #shown = "";

  constructor() {
    this.element = h("ul", { class: "open-tasks", "aria-label": "Running and queued tasks", hidden: true });
  }

  show(tasks, asks) {
    const key = JSON.stringify([asks, tasks.map((task) => [task.id, task.status, task.not_before, task.waiting_for])]);
    if (key === this.#shown) return;
    this.#shown = key;
    const first = leading(tasks);
    const sorted = [...tasks].sort((a, b) => ORDER.indexOf(a.status) - ORDER.indexOf(b.status));
    this.element.hidden = !tasks.length;
    put(this.element, sorted.map((task) => row(task, task === first && asks)));
  }
}

function row(task, asks) {
  const runs = RUNS.has(task.status);
  const status = asks ? "asks" : task.status;
  const detail = task.status === "waiting" ? withoutCommands(task.waiting_for?.text) : "";
  return h(
    "li",
    { class: "open-task", "data-task": task.id },
    h("span", { class: `status ${status}` }, asks ? "asks you" : waitText(task)),
    h("bdi", { class: "title", title: detail || null }, taskName(task, 160), detail ? h("small", { class: "faint" }, ` ${detail}`) : null),
    h("button", { type: "button", class: "danger", "aria-label": `${runs ? "Stop" : "Remove"}: ${taskName(task, 60)}`, onclick: () => stopTask(task) }, runs ? icon("stop") : icon("close"), runs ? "Stop" : "Remove"),
  );
}
