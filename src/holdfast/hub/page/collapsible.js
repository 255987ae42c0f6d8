// Long text: its beginning, and more of it when one asks.
import { h, put } from "./dom.js";
import { size } from "./time.js";

const LINES = 24;
const FIRST = 4_000;
const STEP = 100_000;

/** Where to cut: after so many lines or characters, whichever comes first; never within a character. */
export function cut(text, lines = LINES, most = FIRST) {
  let at = -1;
  for (let line = 0; line < lines; line += 1) {
    at = text.indexOf("\n", at + 1);
    if (at < 0 || at > most) break;
  }
  let end = at < 0 || at > most ? Math.min(text.length, most) : at;
  if (end < text.length && /[\ud800-\udbff]/.test(text[end - 1])) end -= 1;
  return text.length - end < 400 && text.slice(end).split("\n").length < 6 ? text.length : end;
}

/** A text, folded where it is long; `state` remembers how far it was opened, `draw` shows a part of it. */
export function folded(text, state, draw) {
  const box = h("div", { class: "folded" });
  const start = cut(text);
  const update = () => {
    const end = Math.min(text.length, Math.max(start, state.shown ?? 0));
    put(box, draw(text.slice(0, end)));
    if (end < text.length) box.append(h("button", { type: "button", class: "more", onclick: more }, `Show more · ${size(end)} of ${size(text.length)}`));
    else if (end > start) box.append(h("button", { type: "button", class: "more", onclick: less }, "Show less"));
    if (end < text.length || end > start) {
      box.append(h("button", { type: "button", class: "more", onclick: () => navigator.clipboard?.writeText(text) }, "Copy all"));
    }
  };
  const more = () => {
    state.shown = Math.min(text.length, Math.max(state.shown ?? 0, start) + STEP);
    update();
  };
  const less = () => {
    state.shown = 0;
    update();
  };
  update();
  return box;
}
