// The doctor: what is not as it should be, what would be done about it, and doing it.
import * as api from "./api.js";
import { h, put } from "./dom.js";
import { problemText } from "./hints.js";
import { doneList } from "./recovery-banner.js";
import { announce } from "./notify.js";
import { many } from "./time.js";

const TARGETS = [
  ["self", "This home"],
  ["hapi", "A HAPI database"],
  ["hermes", "A Hermes home"],
];

/** The doctor's page. */
export class Doctor {
  #turn = 0;

  constructor() {
    this.target = h("select", { id: "doctor-target", onchange: () => this.#chosen() }, TARGETS.map(([value, label]) => h("option", { value }, label)));
    this.path = h("input", { id: "doctor-path", "aria-label": "Path of it", spellcheck: "false", hidden: true, autocomplete: "off" });
    this.body = h("div", { "aria-live": "polite" });
    this.element = h(
      "div",
      { class: "view doctor" },
      h("h1", { tabindex: "-1" }, "Doctor"),
      h("form", { class: "doctor-form", onsubmit: (event) => (event.preventDefault(), this.#look()) }, h("label", { for: "doctor-target" }, "Look at"), this.target, this.path, h("button", { type: "submit" }, "Look")),
      this.body,
    );
  }

  open() {
    return this.#look();
  }

  close() {
    this.#turn += 1;
  }

  #chosen() {
    this.path.hidden = this.target.value === "self";
    this.#turn += 1;
    if (this.path.hidden) {
      this.#look();
      return;
    }
    this.path.placeholder = `/home/me/.${this.target.value}`;
    put(this.body, h("p", { class: "faint" }, "Its folder or its database, on the hub's machine. Looking changes nothing."));
    this.path.focus();
  }

  get #where() {
    return this.target.value === "self" ? null : this.path.value.trim();
  }

  async #look(note = null) {
    if (this.#where === "") {
      this.path.focus();
      return;
    }
    const mine = (this.#turn += 1); // an answer counts only while nothing else was asked
    put(this.body, note, h("p", { class: "loading" }, "Looking at everything…"));
    let told;
    try {
      const found = await api.doctor(this.target.value, this.#where);
      if (mine === this.#turn) told = this.#told(found);
    } catch (problem) {
      told = h("p", { class: "note bad" }, problemText(problem));
    }
    if (mine === this.#turn) put(this.body, note, told);
  }

  #told(told) {
    if (!told.findings.length) return h("p", { class: "note good" }, `All is as it should be. ${this.#where === null ? "The log, its mirrors and the folders agree." : "Nothing was found in it that needs a repair."}`);
    const actions = told.findings.filter((finding) => finding.action);
    const rest = told.findings.filter((finding) => !finding.action);
    return [
      h("p", null, `${many(told.findings.length, "finding")}, ${actions.length ? many(actions.length, "safe repair") : "none with a safe repair"}.`),
      actions.length ? this.#plan(actions, told.fingerprint) : null,
      actions.length ? [h("h2", null, "What the plan repairs"), h("ul", { class: "findings" }, actions.map(findingCard))] : null,
      rest.length ? [h("h2", null, actions.length ? "What it leaves alone" : "Findings"), h("p", { class: "faint" }, "Nothing that could be done safely, or only for your information; a person decides."), h("ul", { class: "findings" }, rest.map(findingCard))] : null,
    ];
  }

  #plan(actions, fingerprint) {
    return h(
      "section",
      { class: "panel", "aria-label": "Plan" },
      h("h2", null, "Plan", h("small", null, h("code", null, fingerprint))),
      h("ol", { class: "plan" }, actions.map((finding) => h("li", null, finding.action, " ", h("bdi", { class: "faint" }, finding.subject)))),
      h("div", { class: "buttons" }, h("button", { type: "button", class: "primary", onclick: (event) => this.#apply(event, fingerprint) }, "Apply the plan"), h("span", { class: "faint" }, "What it changes is copied first.")),
    );
  }

  async #apply(event, fingerprint) {
    event.currentTarget.disabled = true;
    let note;
    try {
      const receipt = await api.applyPlan(this.target.value, this.#where, fingerprint);
      announce("Done");
      note = receiptNote(receipt);
    } catch (problem) {
      note = h("p", { class: "note bad" }, problem.code === "plan_changed" ? "Things have changed since this plan was made. Here is how they are now." : problemText(problem));
    }
    await this.#look(note);
  }
}

// Our own home tells what came of each repair; of another program's the receipt tells what was done, and how to take it back.
function receiptNote(receipt) {
  const done = receipt.done.map((one) => (one.finding ? { code: one.finding.split(":")[0], result: one.action, subject: one.finding.split(":").slice(1).join(":") } : one));
  const problems = receipt.problems ?? [];
  return h(
    "section",
    { class: `note receipt ${problems.length ? "bad" : "good"}`, "aria-label": "Receipt" },
    h("h2", null, problems.length ? "Done in part" : "Done"),
    doneList(done),
    problems.map((text) => h("p", { class: "bad" }, text)),
    receipt.touched?.length ? h("details", null, h("summary", null, `${many(receipt.touched.length, "file")} changed, with a copy of the bytes before`), h("ul", { class: "touched" }, receipt.touched.map((path) => h("li", null, h("code", null, path))))) : null,
    receipt.undo ? h("p", null, "To take it back: ", h("code", null, receipt.undo), " ", h("button", { type: "button", class: "more", onclick: () => navigator.clipboard?.writeText(receipt.undo) }, "Copy")) : receipt.sealed ? h("p", { class: "faint" }, `It cannot be taken back: ${receipt.sealed}.`) : null,
  );
}

function findingCard(finding) {
  const evidence = finding.evidence && Object.keys(finding.evidence).length ? JSON.stringify(finding.evidence, null, 2) : null;
  return h(
    "li",
    { class: finding.action ? "safe" : "unsafe" },
    h("p", null, h("code", { class: "code-word" }, finding.code), " ", h("bdi", null, finding.subject)),
    h("p", null, finding.text),
    evidence ? h("details", null, h("summary", null, "Evidence"), h("pre", { tabindex: "0" }, evidence)) : null,
  );
}
