// The composer at the foot of a session: one text, and one button whose label says what will happen.
import * as api from "./api.js";
import { h, iconButton, put } from "./dom.js";
import { keepDraft, keepsDraft } from "./drafts.js";
import { hintOf, withoutCommands } from "./hints.js";
import { announce, trouble } from "./notify.js";
import { menu } from "./popover.js";
import { reasons } from "./verdict.js";

const BRIEFED = new Set(["last_interrupted", "last_cancelled", "last_failed", "crashed_elsewhere", "last_unrecorded", "store_unfinished", "dangling_call", "memory_gap", "cut_gap", "interrupted_on_purpose"]);

// Ways to send, by name: {label of the button, words in the menu, what the hub is asked}.
const WAYS = {
  verdict: { words: "As the verdict says", ask: { how: "verdict", queue: true } },
  brief: { label: "Start fresh with a brief", words: "Start fresh with a brief", ask: { how: "fresh" } },
  fresh: { label: "Start fresh", words: "Start fresh without a brief", ask: { how: "fresh", brief: false } },
  fork: { label: "Fork and send", words: "Fork: continue in a copy", ask: { how: "fork" } },
  anyway: { label: "Resume anyway", words: "Resume anyway, against the verdict", ask: { how: "anyway" } },
};
const PERMISSIONS = [["", "as configured"], ["ask", "ask me"], ["allow", "allow everything"], ["deny", "deny everything"]];

/** What the button says: pure, from the way that was chosen, the verdict and what runs. */
export function sendLabel(way, verdict, { running = false, archived = false } = {}) {
  if (way !== "verdict") return archived && way === "anyway" ? "Bring back and send" : WAYS[way].label;
  if (running) return "Send when it is done";
  if (!verdict || verdict.action === "resume") return "Send";
  if (verdict.action === "wait") return "Send when it is free";
  if (verdict.action === "fork") return "Fork and send";
  return verdict.reasons?.some((reason) => BRIEFED.has(reason.code)) ? "Start fresh with a brief" : "Start fresh";
}

/** The form; `sent({session, task})` is called with where the prompt went. */
export class Composer {
  #verdict = null;
  #way = "verdict";
  #running = false;
  #archived = false;

  constructor(session, sent) {
    this.session = session;
    this.sent = sent;
    this.text = keepsDraft(h("textarea", { id: "composer-text", rows: "2", placeholder: "Write to the agent…", "aria-label": "What to do next", onkeydown: (event) => this.#key(event), oninput: () => this.#grow() }), session);
    this.permissions = "";
    this.told = h("button", { type: "button", class: "quiet permissions-told", onclick: (event) => this.#menu(event.currentTarget) });
    this.send = h("button", { type: "submit", class: "primary" }, "Send");
    this.hint = h("div", { class: "refused", role: "alert" });
    this.chips = h("span", { class: "chip-place" });
    this.element = h(
      "form",
      { class: "composer", "aria-label": "Write to the session", onsubmit: (event) => this.#submit(event) },
      this.hint,
      this.text,
      h("div", { class: "buttons" }, this.chips, this.told, h("span", { class: "grow" }), iconButton("more", "Other ways to send", (event) => this.#menu(event.currentTarget), { "aria-haspopup": "menu" }), this.send),
    );
    this.#label();
    queueMicrotask(() => this.#grow());
  }

  set verdict(verdict) {
    this.#verdict = verdict;
    this.#label();
  }

  /** What the session is doing: {running, archived}. */
  set state({ running, archived }) {
    this.#running = running;
    if (archived !== this.#archived) this.#way = archived ? "anyway" : "verdict";
    this.#archived = archived;
    this.#label();
  }

  /** Send in another way from now on; the person still types and presses the button. */
  choose(way) {
    this.#way = way;
    this.#label();
    this.text.focus();
  }

  /** Put a text into the field, before what is typed there. */
  fill(text) {
    this.text.value = this.text.value.trim() ? `${text}\n\n${this.text.value}` : text;
    keepDraft(this.session, this.text.value);
    this.#grow();
    this.text.focus();
  }

  #label() {
    put(this.send, sendLabel(this.#way, this.#verdict, { running: this.#running, archived: this.#archived }));
    const words = PERMISSIONS.find(([value]) => value === this.permissions)[1];
    this.told.hidden = !this.permissions;
    put(this.told, `permissions: ${words}`);
  }

  #menu(anchor) {
    const ways = Object.entries(WAYS).filter(([name]) => !this.#archived || ["anyway", "fork"].includes(name));
    const entries = ways.map(([name, way]) => ({ label: `${name === this.#way ? "✓ " : ""}${this.#archived && name === "anyway" ? "Bring it back and send" : way.words}`, run: () => this.choose(name) }));
    const permissions = PERMISSIONS.map(([value, words]) => ({
      label: `${value === this.permissions ? "✓ " : ""}Permissions: ${words}`,
      run: () => {
        this.permissions = value;
        this.#label();
      },
    }));
    menu(anchor, [...entries, ...permissions], "Other ways to send");
  }

  #grow() {
    this.text.style.height = "auto";
    this.text.style.height = `${Math.min(220, this.text.scrollHeight + 2)}px`;
  }

  #key(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.element.requestSubmit();
  }

  async #submit(event) {
    event.preventDefault();
    const prompt = this.text.value.trim();
    if (!prompt) {
      this.text.focus();
      return;
    }
    this.send.disabled = true;
    put(this.hint);
    try {
      const told = await api.resume(this.session, { prompt, ...WAYS[this.#way].ask, ...(this.permissions ? { permissions: this.permissions } : {}) });
      this.text.value = "";
      keepDraft(this.session, "");
      this.#way = this.#archived ? "anyway" : "verdict";
      this.#grow();
      this.#label();
      announce("Sent");
      this.sent(told);
    } catch (problem) {
      this.#refused(problem);
    } finally {
      this.send.disabled = false;
    }
  }

  #refused(problem) {
    if (!["resume_unsafe", "resume_unavailable", "session_running"].includes(problem.code)) {
      trouble(problem);
      return;
    }
    const choose = (way) => () => {
      this.choose(way);
      this.element.requestSubmit();
    };
    const ways = problem.code === "session_running" ? [["verdict", "Send when it is done"]] : [["brief", "Start fresh with a brief"], ["fork", "Fork and send"], ["anyway", "Resume anyway"]];
    put(
      this.hint,
      h("p", null, h("strong", null, withoutCommands(problem.message) || "It was not sent."), " ", hintOf(problem)),
      problem.body.reasons ? h("details", null, h("summary", null, "Why"), reasons({ action: problem.body.action ?? "fresh", reasons: problem.body.reasons })) : null,
      h("div", { class: "buttons" }, ways.filter(([way]) => way !== this.#way).map(([way, label]) => h("button", { type: "button", onclick: choose(way) }, label))),
    );
  }
}
