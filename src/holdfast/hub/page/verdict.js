// The verdict: a chip of one word, and its reasons when it is opened.
import * as api from "./api.js";
import { h, put } from "./dom.js";
import { plain } from "./escape.js";
import { popover } from "./popover.js";

export const WORDS = {
  resume: ["safe", "Safe to resume"],
  fork: ["fork", "Continue in a copy"],
  fresh: ["fresh", "Start fresh"],
  wait: ["wait", "Wait"],
};

const PROMISES = {
  resume: "The log, the agent's own history and the process table agree: the conversation is safe to resume.",
  fork: "A copy up to the last complete turn is safe to continue; the conversation itself is not.",
  fresh: "Resuming could lose or repeat work. A fresh run is told what happened so far.",
  wait: "Something still runs. It is refused now, or waits its turn in the queue.",
};

const known = new Map(); // session -> {mark, verdict}: as of which record
const wanted = new Map(); // session -> resolvers
let timer = null;

/** The verdict on a session, asked for together with others'; `mark` changes when it may have changed. */
export function verdictOf(session, mark) {
  const old = known.get(session);
  if (old && old.mark === mark) return Promise.resolve(old.verdict);
  return new Promise((resolve) => {
    wanted.set(session, [...(wanted.get(session) ?? []), { resolve, mark }]);
    timer ??= setTimeout(ask, 60);
  });
}

async function ask() {
  timer = null;
  const batch = [...wanted.keys()].slice(0, 50);
  const waiting = batch.map((session) => [session, wanted.get(session)]);
  for (const session of batch) wanted.delete(session);
  if (wanted.size) timer = setTimeout(ask, 0);
  let told = {};
  try {
    told = (await api.verdicts(batch)).verdicts;
  } catch {
    told = {}; // the chip stays empty until the next look
  }
  for (const [session, asked] of waiting) {
    const verdict = told[session]?.action ? told[session] : null;
    if (verdict) {
      known.set(session, { mark: asked.at(-1).mark, verdict });
      document.dispatchEvent(new CustomEvent("verdict", { detail: { session, verdict } }));
    }
    for (const { resolve } of asked) resolve(verdict);
  }
}

/** A chip that opens its reasons. */
export function chip(verdict, label = "") {
  const button = h("button", { type: "button", class: "chip", "aria-haspopup": "dialog" });
  show(button, verdict, label);
  button.addEventListener("click", (event) => {
    event.preventDefault();
    event.stopPropagation();
    if (button.verdict) popover(button, reasons(button.verdict), `Verdict${label ? ` on ${label}` : ""}`);
  });
  return button;
}

/** Put another verdict on a chip. */
export function show(button, verdict, label = "") {
  button.verdict = verdict;
  button.disabled = !verdict;
  const [word, meaning] = WORDS[verdict?.action] ?? ["…", "Verdict not known yet"];
  button.dataset.verdict = verdict?.action ?? "unknown";
  button.setAttribute("aria-label", plain(`${meaning}${label ? `: ${label}` : ""}${verdict ? ", show reasons" : ""}`));
  button.classList.toggle("usual", verdict?.action === "resume"); // a list shows only what is not
  put(button, word);
}

/** The verdict's meaning, and each reason with its evidence. */
export function reasons(verdict) {
  return h(
    "div",
    { class: "reasons" },
    h("p", { class: "promise" }, h("strong", null, WORDS[verdict.action]?.[1] ?? verdict.action), h("br"), PROMISES[verdict.action] ?? ""),
    h("ul", null, (verdict.reasons ?? []).map(reason)),
    verdict.token ? h("p", { class: "faint" }, "Token ", h("code", null, verdict.token)) : null,
  );
}

function reason(told) {
  const evidence = told.evidence && Object.keys(told.evidence).length ? JSON.stringify(told.evidence, null, 2) : null;
  return h(
    "li",
    null,
    h("code", { class: "code-word" }, told.code),
    h("p", null, told.text),
    evidence ? h("details", null, h("summary", null, "Evidence"), h("pre", { tabindex: "0" }, evidence)) : null,
  );
}
