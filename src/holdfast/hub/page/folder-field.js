// A field for a folder of the hub's machine: recent folders first, then completions of what is typed.
import * as api from "./api.js";
import { h, put } from "./dom.js";

const WAIT_MS = 120;

/** The field as {element, value}; `changed(entry)` hears which known folder it names, or null. */
export function folderField(id, value, changed) {
  const list = h("ul", { id: `${id}-list`, class: "folder-list", role: "listbox", "aria-label": "Suggestions", hidden: true });
  const field = h("input", { id, value, placeholder: "the hub's own folder", autocomplete: "off", autocapitalize: "off", spellcheck: "false", role: "combobox", "aria-expanded": "false", "aria-controls": `${id}-list`, "aria-autocomplete": "list" });
  let shown = [];
  let recent = [];
  let chosen = -1;
  let timer = 0;
  let number = 0;

  const draw = () => {
    put(list, shown.map((entry, index) => h("li", { role: "option", id: `${id}-${index}`, "aria-selected": index === chosen ? "true" : "false", onpointerdown: (event) => (event.preventDefault(), take(entry)) }, h("bdi", null, entry.path), entry.repository ? h("span", { class: "faint" }, "git") : null)));
    const open = shown.length > 0 && document.activeElement === field;
    list.hidden = !open;
    field.setAttribute("aria-expanded", String(open));
    if (chosen >= 0) field.setAttribute("aria-activedescendant", `${id}-${chosen}`);
    else field.removeAttribute("aria-activedescendant");
    list.children[chosen]?.scrollIntoView({ block: "nearest" });
  };
  const close = () => {
    shown = [];
    chosen = -1;
    draw();
  };
  const take = (entry) => {
    field.value = entry.path;
    changed(entry);
    close();
    look(false);
  };
  const look = async (open = true) => {
    const text = field.value.trim();
    const mine = ++number;
    let found;
    try {
      found = await api.folders(text.startsWith("/") || text.startsWith("~") ? text : "");
    } catch {
      return; // it can still be typed
    }
    if (mine !== number) return;
    recent = found.recent;
    changed([...recent, ...found.matches].find((entry) => entry.path === text.replace(/\/+$/, "")) ?? null);
    if (!open) return;
    const fitting = recent.filter((entry) => entry.path.includes(text));
    const known = new Set(fitting.map((entry) => entry.path));
    shown = [...fitting, ...found.matches.filter((entry) => !known.has(entry.path))].filter((entry) => entry.path !== text);
    chosen = -1;
    draw();
  };
  field.addEventListener("focus", () => look());
  field.addEventListener("blur", close);
  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(look, WAIT_MS);
  });
  field.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && shown.length) {
      chosen = (chosen + step + shown.length + (chosen < 0 && step < 0 ? 1 : 0)) % shown.length;
      draw();
    } else if (event.key === "Enter" && chosen >= 0 && !event.ctrlKey && !event.metaKey) take(shown[chosen]);
    else if (event.key === "Escape" && !list.hidden) close();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  if (value) look(false);
  return {
    element: h("div", { class: "folder-field" }, field, list),
    get value() {
      return field.value.trim();
    },
  };
}
