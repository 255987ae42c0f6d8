// Elements, built one by one: data only ever becomes text, never markup.
import { plain } from "./escape.js";

/** An element; `on…` props are listeners, `style` an object, false and null props are left out. */
export function h(tag, props = null, ...children) {
  return fill(document.createElement(tag), props, children);
}

const SVG = "http://www.w3.org/2000/svg";

/** The same for SVG. */
export function s(tag, props = null, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(element.style, value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : typeof value === "string" ? plain(value) : value);
  }
  add(element, children);
  return element;
}

/** Append children: nodes, lists of them, or text whose hidden characters are made visible. */
export function add(parent, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) add(parent, child);
    else parent.append(child instanceof Node ? child : plain(String(child)));
  }
}

/** Put these in the place of all that the element holds. */
export function put(element, ...children) {
  element.replaceChildren();
  add(element, children);
  return element;
}

const PATHS = {
  menu: "M3 5h14M3 10h14M3 15h14",
  plus: "M10 4v12M4 10h12",
  search: "M13.5 13.5 17 17M9 14.5a5.5 5.5 0 1 0 0-11 5.5 5.5 0 0 0 0 11Z",
  theme: "M10 3a7 7 0 1 0 0 14V3Zm0 0a7 7 0 0 1 0 14",
  more: "M4.5 10h.01M10 10h.01M15.5 10h.01",
  close: "M5 5l10 10M15 5 5 15",
  down: "M10 4v12m-5-5 5 5 5-5",
  right: "M8 5l5 5-5 5",
  check: "M4.5 10.5l3.5 3.5 7.5-8",
  bolt: "M11 2.5 5 11h4.5L9 17.5 15 9h-4.5L11 2.5Z",
  stop: "M6 6h8v8H6z",
  copy: "M7 7h9v9H7zM13 7V4H4v9h3",
  help: "M7.5 7.6a2.5 2.5 0 1 1 3.6 2.2c-.8.4-1.1.9-1.1 1.7m0 2.8h.01",
};

/** A small drawn sign; it says nothing to a screen reader. */
export function icon(name) {
  return s(
    "svg",
    { class: `icon icon-${name}`, viewBox: "0 0 20 20", "aria-hidden": "true", focusable: "false" },
    s("path", { d: PATHS[name] }),
  );
}

/** A button of one sign, named for those who cannot see it. */
export function iconButton(name, label, onclick, props = {}) {
  return h("button", { type: "button", class: "quiet square", "aria-label": label, title: label, onclick, ...props }, icon(name));
}
