// What the page has to say by itself: to the ear, and in a corner with a way back.
import { h, iconButton } from "./dom.js";
import { problemText } from "./hints.js";

const STAY_MS = 12_000;

/** Say something to a screen reader; what was said just before is not taken back. */
export function announce(text) {
  const line = h("p", null, text);
  document.getElementById("ear").append(line);
  setTimeout(() => line.remove(), STAY_MS);
}

/** A note in the corner; `undo` is {label, run}. */
export function toast(text, undo = null, kind = "plain") {
  const corner = document.getElementById("toasts");
  const close = () => note.remove();
  const note = h(
    "div",
    { class: `toast ${kind}` },
    h("span", null, text),
    undo
      ? h(
          "button",
          {
            type: "button",
            onclick: () => {
              close();
              undo.run();
            },
          },
          undo.label,
        )
      : null,
    iconButton("close", "Dismiss", close),
  );
  corner.append(note);
  while (corner.children.length > 4) corner.firstChild.remove();
  setTimeout(close, kind === "bad" ? STAY_MS * 2 : STAY_MS);
}

/** What went wrong with something that nobody asked for: a lost connection is told elsewhere. */
export function quietly(problem) {
  if (problem.code !== "offline") trouble(problem); // an AbortError has nothing to tell either
}

/** What went wrong, with the hub's hint. */
export function trouble(problem) {
  if (problem.name === "AbortError") return;
  toast(problemText(problem), null, "bad");
}
