// Starting a task: what to do, which agent does it, and where.
import * as api from "./api.js";
import { dialog } from "./dialog.js";
import { h, put } from "./dom.js";
import { keepDraft, keepsDraft } from "./drafts.js";
import { folderField } from "./folder-field.js";
import { hintOf, withoutCommands } from "./hints.js";
import { go } from "./route.js";
import { announce, trouble } from "./notify.js";

const LAST = "holdfast-last-task";
const DRAFT = "new task";
const PERMISSIONS = [
  ["", "As configured", "Whatever the configuration of the agent says."],
  ["ask", "Ask me", "The agent waits for your answer before it uses a tool that needs permission."],
  ["allow", "Allow everything", "The agent may do anything that you may do on that machine. It never waits."],
  ["deny", "Deny everything", "Tools that need permission are refused. It never waits."],
];

function remembered() {
  try {
    return JSON.parse(localStorage.getItem(LAST)) ?? {};
  } catch {
    return {};
  }
}

/** Open the form for a new task; `agents` is the promise of the hub's agents. */
export function startTask(agents) {
  const before = remembered();
  const prompt = keepsDraft(h("textarea", { id: "task-prompt", rows: "5", required: true, placeholder: "What should the agent do?" }), DRAFT);
  const agent = h("select", { id: "task-agent" });
  fillAgents(agent, agents, before.agent);
  const repository = h("span", { class: "faint" }, " (only in a git repository)");
  const worktree = h("input", { type: "checkbox", id: "task-worktree" });
  const folder = folderField("task-cwd", before.cwd ?? "", (entry) => (repository.hidden = Boolean(entry?.repository)));
  const key = h("input", { id: "task-key", placeholder: "none", autocomplete: "off", spellcheck: "false", "aria-describedby": "task-key-help" });
  const meaning = h("p", { class: "faint help", id: "task-permissions-help" });
  const permissions = h("select", { id: "task-permissions", "aria-describedby": "task-permissions-help", onchange: () => explain() }, PERMISSIONS.map(([value, label]) => h("option", { value }, label)));
  const explain = () => put(meaning, PERMISSIONS.find(([value]) => value === permissions.value)[2]);
  permissions.value = before.permissions ?? "";
  explain();
  const wrong = h("div", { class: "refused", role: "alert" });
  const send = h("button", { type: "submit", class: "primary" }, "Start");

  const submit = async (event) => {
    event.preventDefault();
    send.disabled = true;
    put(wrong);
    const task = { prompt: prompt.value.trim(), agent: agent.value };
    if (key.value.trim()) task.key = key.value.trim();
    if (folder.value) task.cwd = folder.value;
    if (permissions.value) task.permissions = permissions.value;
    if (worktree.checked) task.worktree = true;
    try {
      const told = await api.dispatch(task);
      localStorage.setItem(LAST, JSON.stringify({ agent: task.agent, cwd: task.cwd ?? "", permissions: permissions.value }));
      keepDraft(DRAFT, "");
      box.close();
      announce("Task started");
      go(`/s/${told.session}`);
    } catch (problem) {
      put(wrong, h("p", null, h("strong", null, withoutCommands(problem.message)), " ", hintOf(problem)));
      send.disabled = false;
    }
  };
  const form = h(
    "form",
    { class: "task-form", onsubmit: submit, onkeydown: (event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && form.requestSubmit() },
    h("h2", null, "Start a task"),
    h("label", { for: "task-prompt" }, "Prompt"),
    prompt,
    h("div", { class: "pair" }, h("div", null, h("label", { for: "task-agent" }, "Agent"), agent), h("div", null, h("label", { for: "task-permissions" }, "Permissions"), permissions)),
    meaning,
    h("label", { for: "task-cwd" }, "Folder"),
    folder.element,
    h("label", { class: "check", for: "task-worktree" }, worktree, h("span", null, "On a branch of its own, in a new git worktree", repository)),
    h("label", { for: "task-key" }, "Key"),
    key,
    h("p", { class: "faint help", id: "task-key-help" }, "A name for the thread, such as repo:issue-12. The next task with the same key continues where this one ends."),
    wrong,
    h("div", { class: "buttons" }, h("span", { class: "grow" }), h("button", { type: "button", onclick: () => box.close() }, "Close"), send),
  );
  const box = dialog("Start a task", form, "wide");
  prompt.focus();
}

function fillAgents(select, agents, chosen) {
  agents.then((found) => {
    const usable = found.filter((one) => one.path);
    put(select, usable.map((one) => h("option", { value: one.name }, `${one.title ?? one.name}${one.version ? ` ${one.version}` : ""}`)));
    if (usable.some((one) => one.name === chosen)) select.value = chosen;
  }, trouble);
}
