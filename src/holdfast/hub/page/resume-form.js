// The form that continues a session: the prompt, the mode, and the verdict beside it.
import * as api from "./api.js";
import { h, put } from "./dom.js";
import { announce, trouble } from "./notify.js";
import { reasons } from "./verdict.js";

const LABELS = { resume: "Resume", fork: "Fork", fresh: "Start fresh", anyway: "Resume anyway" };
const HOW = [
  ["", "as the verdict says"],
  ["resume", "resume"],
  ["fork", "fork: a copy"],
  ["fresh", "fresh, with a brief"],
  ["anyway", "resume anyway"],
];

/** The form at the foot of a session; `went({session, task})` is called with where it goes on. */
export class GoOn {
  #verdict = null;

  constructor(session, went) {
    this.session = session;
    this.went = went;
    this.text = h("textarea", { id: "go-on", rows: "2", placeholder: "Go on…", "aria-label": "What to do next", onkeydown: (event) => this.#key(event), oninput: () => this.#grow() });
    this.how = h("select", { "aria-label": "How to go on", onchange: () => this.#label() }, HOW.map(([value, label]) => h("option", { value }, label)));
    this.queue = h("input", { type: "checkbox", id: "go-on-queue" });
    this.send = h("button", { type: "submit", class: "primary" }, "Resume");
    this.hint = h("div", { class: "refused", role: "alert" });
    this.chips = h("span", { class: "chip-place" });
    this.element = h(
      "form",
      { class: "go-on", "aria-label": "Go on", onsubmit: (event) => this.#submit(event) },
      this.hint,
      this.text,
      h("div", { class: "buttons" }, this.chips, this.how, h("label", { for: "go-on-queue", class: "check" }, this.queue, "queue if busy"), h("span", { class: "grow" }), this.send),
    );
  }

  set verdict(verdict) {
    this.#verdict = verdict;
    this.#label();
  }

  get #choice() {
    return this.how.value || { fork: "fork", fresh: "fresh" }[this.#verdict?.action] || "resume";
  }

  // To be told to wait is to be queued, unless one says otherwise.
  get #queues() {
    return this.queue.checked || (!this.how.value && this.#verdict?.action === "wait");
  }

  #label() {
    put(this.send, !this.how.value && this.#verdict?.action === "wait" ? "Queue" : LABELS[this.#choice]);
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
      const queue = this.#queues;
      const told = await api.resume(this.session, { prompt, how: this.#choice, queue, brief: true });
      this.text.value = "";
      this.how.value = "";
      this.#grow();
      announce("Sent");
      this.went(told);
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
    const choose = (how) => () => {
      this.how.value = how;
      this.#label();
      this.element.requestSubmit();
    };
    const ways = problem.code === "session_running" ? [] : [["fresh", "Start fresh"], ["fork", "Fork"], ["anyway", "Resume anyway"]];
    put(
      this.hint,
      h("p", null, h("strong", null, problem.message)),
      problem.body.reasons ? h("details", null, h("summary", null, "Why"), reasons({ action: problem.body.action ?? "fresh", reasons: problem.body.reasons })) : null,
      h("div", { class: "buttons" }, ways.map(([how, label]) => h("button", { type: "button", onclick: choose(how) }, label)), problem.code === "session_running" ? h("button", { type: "button", onclick: () => ((this.queue.checked = true), this.element.requestSubmit()) }, "Queue it") : null),
    );
  }
}
