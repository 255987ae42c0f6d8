// The command palette: everything by a few letters.
import * as api from "./api.js";
import { dialog } from "./dialog.js";
import { h, put } from "./dom.js";
import { ago } from "./time.js";

/** How well letters fit a text, in their order; -1 if they do not. */
export function fit(letters, text) {
  const wanted = letters.toLowerCase();
  const given = text.toLowerCase();
  const at = given.indexOf(wanted);
  if (at >= 0) return 1000 - at;
  let score = 0;
  let from = 0;
  for (const letter of wanted.replaceAll(" ", "")) {
    const found = given.indexOf(letter, from);
    if (found < 0) return -1;
    score += found === from ? 3 : 0;
    from = found + 1;
  }
  return score;
}

/** Open it over commands [{label, hint, run, danger}] and the sessions at hand. */
export function palette(commands, sessions, open) {
  const field = h("input", { type: "text", role: "combobox", "aria-expanded": "true", "aria-controls": "palette-list", "aria-label": "Command or session", placeholder: "Command or session…", autocomplete: "off", spellcheck: "false" });
  const list = h("ul", { id: "palette-list", role: "listbox", "aria-label": "Matches" });
  const box = dialog("Command palette", h("div", null, field, list), "palette");
  let shown = [];
  let chosen = 0;
  let far = [];
  let timer = 0;

  const run = (entry) => {
    box.close();
    entry.run();
  };
  const sessionEntry = (session) => ({ label: session.title ?? session.id, hint: `${session.agent} · ${session.key ?? ago(session.updated_at)}`, words: `${session.title ?? ""} ${session.key ?? ""} ${session.id} ${session.agent}`, run: () => open(session.id) });
  const draw = () => {
    put(list, shown.map((entry, index) => h("li", { role: "option", id: `palette-${index}`, "aria-selected": index === chosen ? "true" : "false", class: entry.danger ? "danger" : null, onclick: () => run(entry) }, h("bdi", null, entry.label), h("span", { class: "faint" }, entry.hint ?? ""))));
    if (chosen >= 0) field.setAttribute("aria-activedescendant", `palette-${chosen}`);
    else field.removeAttribute("aria-activedescendant");
    list.children[chosen]?.scrollIntoView({ block: "nearest" });
  };
  const match = () => {
    const letters = field.value.trim();
    const known = new Map([...sessions, ...far].map((session) => [session.id, session]));
    const all = [...commands, ...[...known.values()].map(sessionEntry)];
    const scored = all.map((entry) => [letters ? fit(letters, entry.words ?? entry.label) : 0, entry]).filter(([score]) => score >= 0);
    if (letters) scored.sort((a, b) => b[0] - a[0]);
    else scored.sort((a, b) => Boolean(a[1].danger) - Boolean(b[1].danger));
    shown = scored.slice(0, 12).map(([, entry]) => entry);
    chosen = shown.findIndex((entry) => !entry.danger); // what stops or deletes is never preselected
    draw();
  };
  field.addEventListener("input", () => {
    match();
    clearTimeout(timer);
    timer = setTimeout(async () => {
      if (!field.value.trim()) return;
      const text = field.value.trim();
      const page = await api.sessions({ text, state: "all", limit: 10 }).catch(() => ({ sessions: [] }));
      if (field.value.trim() !== text || !box.open) return;
      far = page.sessions;
      match();
    }, 150);
  });
  field.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && shown.length) {
      chosen = chosen < 0 ? (step > 0 ? 0 : shown.length - 1) : (chosen + step + shown.length) % shown.length;
      draw();
    } else if (event.key === "Enter" && shown[chosen]) run(shown[chosen]);
    else return;
    event.preventDefault();
  });
  match();
  field.focus();
}
