// A dialog in the middle that holds the page until it is answered.
import { h } from "./dom.js";

/** Show content in a modal dialog; it goes when closed. */
export function dialog(title, content, className = "") {
  const box = h("dialog", { class: className, "aria-label": title }, content);
  document.body.append(box);
  box.addEventListener("close", () => box.remove());
  box.addEventListener("click", (event) => event.target === box && box.close());
  box.showModal();
  return box;
}

/** Ask whether to do something that stops or removes; the keyboard is on the harmless answer. */
export function confirm(title, content, yes, no = "Cancel") {
  return new Promise((resolve) => {
    const keep = h("button", { type: "button", onclick: () => box.close() }, no);
    const form = h("form", { method: "dialog", onsubmit: () => resolve(true) }, h("h2", null, title), content, h("div", { class: "buttons" }, h("span", { class: "grow" }), keep, h("button", { type: "submit", class: "danger" }, yes)));
    const box = dialog(title, form);
    box.addEventListener("close", () => resolve(false));
    keep.focus();
  });
}

/** Ask for one line of text, or only show something; null if it was dismissed. */
export function ask(title, label, value, done, extra = null) {
  return new Promise((resolve) => {
    const field = label === null ? null : h("input", { id: "ask-field", value, required: true, autocomplete: "off" });
    const form = h(
      "form",
      {
        method: "dialog",
        onsubmit: () => resolve(field ? field.value.trim() : null),
      },
      h("h2", null, title),
      field ? h("label", { for: "ask-field" }, label) : null,
      field,
      extra,
      h("div", { class: "buttons" }, h("span", { class: "grow" }), field ? h("button", { type: "button", onclick: () => box.close() }, "Cancel") : null, h("button", { type: "submit", class: "primary" }, done)),
    );
    const box = dialog(title, form, extra ? "wide" : "");
    box.addEventListener("close", () => resolve(null));
    field?.focus();
  });
}
