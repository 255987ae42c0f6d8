// Single keys for those whose hands stay there; they rest while one types.
import { dialog } from "./dialog.js";
import { h } from "./dom.js";

export const ONCE = "once"; // a key that does nothing again while it is held
const TYPING = "input, textarea, select, [contenteditable]";

/** Bind keys to {key: [label, run, ONCE?]}; Ctrl/Cmd-K is always the palette. */
export function bind(keys, openPalette) {
  addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      if (!document.querySelector("dialog[open]")) openPalette();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.target.matches?.(TYPING)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const found = keys[event.key];
    if (!found || (event.repeat && found[2] === ONCE)) return;
    event.preventDefault();
    found[1]();
  });
}

/** Show which keys there are. */
export function showKeys(keys) {
  const rows = Object.entries(keys).map(([key, [label]]) => [key, label]);
  const close = h("button", { type: "button", class: "primary", onclick: () => box.close() }, "Close");
  const box = dialog(
    "Keys",
    h("div", null, h("h2", null, "Keys"), h("dl", { class: "keys" }, [["Ctrl K", "Command palette"], ...rows].flatMap(([key, label]) => [h("dt", null, h("kbd", null, key)), h("dd", null, label)])), h("div", { class: "buttons" }, h("span", { class: "grow" }), close)),
  );
  close.focus();
}
