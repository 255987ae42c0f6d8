// The doctor: what is not as it should be, what would be done about it, and doing it.
import * as api from "./api.js";
import { h, put } from "./dom.js";
import { announce } from "./say.js";
import { many } from "./time.js";

const TARGETS = [
  ["self", "This home"],
  ["hapi", "A HAPI database"],
  ["hermes", "A Hermes home"],
];

/** The doctor's page. */
export class Doctor {
  constructor() {
    this.target = h("select", { id: "doctor-target", onchange: () => this.#chosen() }, TARGETS.map(([value, label]) => h("option", { value }, label)));
    this.path = h("input", { id: "doctor-path", placeholder: "path", "aria-label": "Path of it", hidden: true, autocomplete: "off" });
    this.body = h("div", { "aria-live": "polite" });
    this.look = h("button", { type: "submit" }, "Look");
    this.element = h(
      "div",
      { class: "view doctor" },
      h("h1", { tabindex: "-1" }, "Doctor"),
      h("form", { class: "doctor-form", onsubmit: (event) => (event.preventDefault(), this.#look()) }, h("label", { for: "doctor-target" }, "Look at"), this.target, this.path, this.look),
      this.body,
    );
  }

  open() {
    return this.#look();
  }

  close() {}

  #chosen() {
    this.path.hidden = this.target.value === "self";
    put(this.body);
    if (this.path.hidden) this.#look();
    else this.path.focus();
  }

  get #where() {
    return this.target.value === "self" ? null : this.path.value.trim();
  }

  async #look(note = null) {
    if (this.#where === "") {
      this.path.focus();
      return;
    }
    this.look.disabled = true;
    put(this.body, note, h("p", { class: "loading" }, "Looking at everything…"));
    try {
      put(this.body, note, this.#told(await api.doctor(this.target.value, this.#where)));
    } catch (problem) {
      put(this.body, note, h("p", { class: "note bad" }, problem.message, problem.hint ? ` ${problem.hint}` : ""));
    } finally {
      this.look.disabled = false;
    }
  }

  #told(told) {
    if (!told.findings.length) return h("p", { class: "note good" }, "All is as it should be. The log, its mirrors and the folders agree.");
    const actions = told.findings.filter((finding) => finding.action);
    return [
      h("p", null, `${many(told.findings.length, "finding")}, ${actions.length ? many(actions.length, "safe repair") : "none with a safe repair"}.`),
      h("h2", null, "Findings"),
      h("ul", { class: "findings" }, told.findings.map((finding) => h("li", { class: finding.action ? "safe" : "unsafe" }, h("p", null, h("code", { class: "code-word" }, finding.code), " ", h("bdi", null, finding.subject)), h("p", null, finding.text), finding.evidence && Object.keys(finding.evidence).length ? h("details", null, h("summary", null, "Evidence"), h("pre", { tabindex: "0" }, JSON.stringify(finding.evidence, null, 2))) : null))),
      h("h2", null, "Plan"),
      actions.length ? h("ol", { class: "plan" }, actions.map((finding) => h("li", null, finding.action, " ", h("bdi", { class: "faint" }, finding.subject)))) : h("p", { class: "faint" }, "Nothing that could be done safely; a person decides."),
      actions.length ? h("div", { class: "buttons" }, h("button", { type: "button", class: "primary", onclick: (event) => this.#apply(event, told.fingerprint) }, "Apply the plan"), h("span", { class: "faint" }, "Plan ", h("code", null, told.fingerprint))) : null,
    ];
  }

  async #apply(event, fingerprint) {
    event.currentTarget.disabled = true;
    let note;
    try {
      const receipt = await api.applyPlan(this.target.value, this.#where, fingerprint);
      announce("Done");
      note = h("section", { class: "note good", "aria-label": "Receipt" }, h("h2", null, "Done"), h("ul", { class: "done" }, receipt.done.map((one) => h("li", null, h("code", { class: "code-word" }, one.finding), " ", h("span", null, one.action)))), receipt.problems.map((text) => h("p", { class: "bad" }, text)), h("p", { class: "faint" }, receipt.undo ? ["To take it back: ", h("code", null, receipt.undo)] : `It cannot be taken back: ${receipt.sealed}.`));
    } catch (problem) {
      note = h("p", { class: "note bad" }, problem.code === "plan_changed" ? "Things have changed since this plan was made. Here is how they are now." : problem.message, problem.hint && problem.code !== "plan_changed" ? ` ${problem.hint}` : "");
    }
    await this.#look(note);
  }
}
