// A session's tokens: the agent's own ids, and what a person changes about them.
import * as api from "./api.js";
import { dialog } from "./dialog.js";
import { h, put } from "./dom.js";
import { toast } from "./notify.js";
import { ago, full } from "./time.js";

const COLUMNS = ["Status", "Token", "Agent", "Protocol", "From", "When", "Reason"];

/** The dialog with a session's lineage; it stays open, with what was typed, while the lineage changes. */
export class Tokens {
  constructor(session, tokens, changed) {
    this.changed = changed;
    this.table = h("div", { class: "table", tabindex: "0", role: "region", "aria-label": "Lineage" });
    this.problem = h("p", { class: "refused", role: "alert" });
    this.record = this.#form("Record", "The agent's id", (native) => this.#do("Recorded", () => api.recordToken(session.id, native, null)));
    this.revoke = this.#form("Revoke", "Why must it not be resumed?", (reason) => this.#do("Revoked", () => api.revokeToken(session.id, reason)));
    this.reinstate = h("button", { type: "button", onclick: () => this.#do("Reinstated", () => api.reinstateToken(session.id, null, "from the page")) }, "Reinstate");
    const close = h("div", { class: "buttons" }, h("span", { class: "grow" }), h("button", { type: "button", onclick: () => this.box.close() }, "Close"));
    this.box = dialog("Tokens", [h("h2", null, "Tokens"), this.table, this.record, this.revoke, this.reinstate, this.problem, close], "wide");
    this.show(session, tokens);
  }

  show(session, tokens) {
    if (!this.box.isConnected) return;
    this.session = session;
    const own = tokens.filter((token) => token.agent === session.agent);
    const current = own.some((token) => token.status === "current");
    const rows = tokens.map((token) => h("tr", null, this.#cells(token).map((cell) => h("td", null, cell))));
    const head = h("thead", null, h("tr", null, COLUMNS.map((name) => h("th", { scope: "col" }, name))));
    put(this.table, tokens.length ? h("table", null, head, h("tbody", null, rows)) : h("p", null, "The agent has not named its id yet."));
    this.revoke.hidden = !current;
    this.reinstate.hidden = current || !own.some((token) => token.status === "revoked");
  }

  #cells(token) {
    const when = h("span", { title: full(token.at) }, ago(token.at));
    return [token.status, token.native_id, token.agent, token.protocol ?? "", token.seen_in, when, token.reason ?? ""];
  }

  #form(word, label, call) {
    const field = h("input", { required: true, autocomplete: "off", "aria-label": label, placeholder: label });
    const submit = async (event) => {
      event.preventDefault();
      if (field.value.trim() && (await call(field.value.trim()))) field.value = "";
    };
    return h("form", { class: "token-form", onsubmit: submit }, field, h("button", { type: "submit" }, word));
  }

  async #do(words, call) {
    put(this.problem);
    try {
      const { tokens } = await call();
      toast(words);
      this.show(this.session, tokens);
      this.changed();
      return true;
    } catch (problem) {
      put(this.problem, problem.message);
      return false;
    }
  }
}
