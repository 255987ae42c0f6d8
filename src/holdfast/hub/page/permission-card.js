// A permission that an agent waits for, with the answers beside it; used wherever one is shown.
import * as api from "./api.js";
import { h } from "./dom.js";
import { announce, trouble } from "./notify.js";
import { gist } from "./tool.js";

/** Answer a permission; whether that worked. */
export async function answerPermission(ask, decision) {
  try {
    await api.permission(ask.task, decision, String(ask.ask ?? ask.call));
    announce(decision === "allow" ? "Allowed" : "Denied");
    return true;
  } catch (problem) {
    trouble(problem);
    return false;
  }
}

/** The card; `ask` is {task, ask, call, name, input}. */
export function askingCard(ask) {
  const answer = async (decision, event) => {
    const buttons = event.currentTarget.parentElement.querySelectorAll("button");
    for (const button of buttons) button.disabled = true;
    if (!(await answerPermission(ask, decision))) for (const button of buttons) button.disabled = false;
  };
  const name = ask.name ?? "a tool";
  const words = gist(ask.input);
  return h(
    "div",
    { class: "asking", role: "group", "aria-label": `Permission for ${name}` },
    h("p", null, h("strong", null, ask.name ?? "A tool"), " asks for permission", words ? [": ", h("code", null, words)] : "."),
    h(
      "div",
      { class: "buttons" },
      h("button", { type: "button", class: "primary", "data-focus": `allow ${ask.task} ${ask.ask ?? ask.call}`, onclick: (event) => answer("allow", event) }, "Allow"),
      h("button", { type: "button", class: "danger", "data-focus": `deny ${ask.task} ${ask.ask ?? ask.call}`, onclick: (event) => answer("deny", event) }, "Deny"),
    ),
  );
}
