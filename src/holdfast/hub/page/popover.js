// A small box beside what opened it; Escape and a click elsewhere close it.
import { h } from "./dom.js";

let open = null;

/** Open a box with this content beside an element. */
export function popover(anchor, content, label) {
  const again = open?.anchor === anchor;
  close();
  if (again) return;
  const box = h("div", { class: "popover", role: "dialog", "aria-label": label, tabindex: "-1" }, content);
  document.body.append(box);
  anchor.setAttribute("aria-expanded", "true");
  open = { anchor, box };
  place(anchor, box);
  box.focus();
  addEventListener("keydown", onKey, true);
  addEventListener("pointerdown", onPointer, true);
  addEventListener("resize", close);
}

function place(anchor, box) {
  const at = anchor.getBoundingClientRect();
  const room = 8;
  const left = Math.max(room, Math.min(at.left, innerWidth - box.offsetWidth - room));
  const below = at.bottom + 6;
  const fits = below + box.offsetHeight < innerHeight - room;
  const top = fits ? below : Math.max(room, at.top - box.offsetHeight - 6);
  box.style.left = `${left}px`;
  box.style.top = `${Math.min(top, Math.max(room, innerHeight - box.offsetHeight - room))}px`;
}

function onKey(event) {
  if (event.key !== "Escape") return;
  event.stopPropagation();
  event.preventDefault();
  close();
}

function onPointer(event) {
  if (open && !open.box.contains(event.target) && !open.anchor.contains(event.target)) close();
}

/** Close whatever is open; the keyboard goes back to what opened it. */
export function close() {
  if (!open) return;
  const { anchor, box } = open;
  const inside = box.contains(document.activeElement);
  open = null;
  box.remove();
  anchor.setAttribute("aria-expanded", "false");
  if (inside && anchor.isConnected) anchor.focus();
  removeEventListener("keydown", onKey, true);
  removeEventListener("pointerdown", onPointer, true);
  removeEventListener("resize", close);
}

/** A menu of {label, run, danger} beside a button; arrows move in it. */
export function menu(anchor, entries, label) {
  const buttons = entries.map((entry) =>
    h(
      "button",
      {
        type: "button",
        role: "menuitem",
        class: entry.danger ? "danger" : null,
        onclick: () => {
          close();
          entry.run();
        },
      },
      entry.label,
    ),
  );
  const list = h("div", { role: "menu", class: "menu", "aria-label": label }, buttons);
  list.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const at = buttons.indexOf(document.activeElement);
    buttons[(at + step + buttons.length) % buttons.length].focus();
  });
  popover(anchor, list, label);
  buttons[0]?.focus();
}
