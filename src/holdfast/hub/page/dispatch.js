// Starting a task: what to do, who does it, where.
import * as api from "./api.js";
import { dialog } from "./dialog.js";
import { h, put } from "./dom.js";
import { go } from "./route.js";
import { announce, trouble } from "./notify.js";

const LAST = "holdfast-last-task";

function remembered() {
  try {
    return JSON.parse(localStorage.getItem(LAST)) ?? {};
  } catch {
    return {};
  }
}

/** Open the form for a new task; `agents` is the promise of what the hub tells of them. */
export function startTask(agents, given = {}) {
  const before = { ...remembered(), ...given };
  const agent = h("select", { id: "task-agent" });
  agents.then((found) => {
    const usable = found.filter((one) => one.path);
    put(agent, usable.map((one) => h("option", { value: one.name }, `${one.title ?? one.name}${one.version ? ` ${one.version}` : ""}`)));
    if (usable.some((one) => one.name === before.agent)) agent.value = before.agent;
  }, trouble);
  const prompt = h("textarea", { id: "task-prompt", rows: "6", required: true, placeholder: "What is to be done?", value: before.prompt ?? "" });
  const cwd = h("input", { id: "task-cwd", value: before.cwd ?? "", placeholder: "the hub's own", autocomplete: "off", spellcheck: "false" });
  const key = h("input", { id: "task-key", value: "", placeholder: "none", autocomplete: "off", spellcheck: "false" });
  const permissions = h("select", { id: "task-permissions" }, [["", "as configured"], ["ask", "ask me"], ["allow", "allow all"], ["deny", "deny all"]].map(([value, label]) => h("option", { value }, label)));
  permissions.value = before.permissions ?? "";
  const worktree = h("input", { type: "checkbox", id: "task-worktree" });
  const wrong = h("div", { class: "refused", role: "alert" });
  const send = h("button", { type: "submit", class: "primary" }, "Start");

  const submit = async (event) => {
    event.preventDefault();
    send.disabled = true;
    put(wrong);
    const task = { prompt: prompt.value.trim(), agent: agent.value };
    if (key.value.trim()) task.key = key.value.trim();
    if (cwd.value.trim()) task.cwd = cwd.value.trim();
    if (permissions.value) task.permissions = permissions.value;
    if (worktree.checked) task.worktree = true;
    try {
      const told = await api.dispatch(task);
      localStorage.setItem(LAST, JSON.stringify({ agent: task.agent, cwd: task.cwd ?? "", permissions: permissions.value }));
      box.close();
      announce("Task started");
      go(`/s/${typeof told.session === "string" ? told.session : told.session.id}`);
    } catch (problem) {
      put(wrong, h("p", null, h("strong", null, problem.message), problem.hint ? ` ${problem.hint}` : ""));
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
    h("div", { class: "pair" }, h("div", null, h("label", { for: "task-cwd" }, "Folder"), cwd), h("div", null, h("label", { for: "task-key" }, "Key"), key)),
    h("label", { class: "check", for: "task-worktree" }, worktree, "in a git worktree of its own"),
    wrong,
    h("div", { class: "buttons" }, h("span", { class: "grow" }), h("button", { type: "button", onclick: () => box.close() }, "Close"), send),
  );
  const box = dialog("Start a task", form, "wide");
  prompt.focus();
}
