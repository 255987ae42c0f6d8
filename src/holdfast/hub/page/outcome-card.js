// What to do after a run that died, failed or was cancelled: the ways that apply, each a button.
import * as api from "./api.js";
import { ask } from "./dialog.js";
import { h, put } from "./dom.js";
import { withoutCommands } from "./hints.js";
import { announce, toast, trouble } from "./notify.js";
import { many } from "./time.js";

const BAD = new Set(["interrupted", "failed", "cancelled"]);
const TITLES = { interrupted: "The agent died.", failed: "The last run failed.", cancelled: "The last run was cancelled." };
const TRUSTABLE = new Set(["last_cancelled", "last_failed", "interrupted_on_purpose"]); // the reasons that trust by hand removes

/** The processes that a verdict says are left of a dead run, as [{pid, command}]. */
export function leftoversOf(verdict) {
  return (verdict?.reasons ?? []).filter((reason) => reason.code === "tools_running").flatMap((reason) => reason.evidence?.processes ?? []);
}

/** Whether trust by hand would change the verdict. */
export function trustApplies(verdict, status) {
  if (!verdict || verdict.action !== "fresh" || !["failed", "cancelled"].includes(status)) return false;
  return verdict.reasons.length > 0 && verdict.reasons.every((reason) => TRUSTABLE.has(reason.code));
}

/** The card of a session; `on` has {sent, changed, composer}. */
export class OutcomeCard {
  #shown = "";
  #turn = 0;
  #task = null;
  #fork = { task: null, can: false };

  constructor(session, on) {
    this.session = session;
    this.on = on;
    this.element = h("section", { class: "outcome-card", "aria-label": "How the last run ended", hidden: true });
  }

  /** Show what applies to this session now. */
  async show(session, open, verdict) {
    const applies = session.state === "live" && !open.length && BAD.has(session.last_status) && verdict && (verdict.action !== "resume" || session.last_status !== "cancelled");
    const mine = ++this.#turn; // an answer counts only while nothing newer is shown
    if (!applies) {
      this.element.hidden = true;
      this.#shown = "";
      return;
    }
    try {
      if (this.#task?.id !== session.last_task) this.#task = await api.task(session.last_task);
      if (this.#fork.task !== session.last_task && !leftoversOf(verdict).length) {
        this.#fork = { task: session.last_task, can: false };
        this.#fork.can = (await api.verdict(this.session, true)).action === "fork";
      }
    } catch {
      return; // the connection's state says why; it is shown at the next look
    }
    if (mine !== this.#turn) return;
    this.element.hidden = false;
    const key = JSON.stringify([this.#task.id, verdict, this.#fork.can]);
    if (key === this.#shown) return;
    this.#shown = key;
    this.#draw(this.#task, verdict);
  }

  #draw(task, verdict) {
    const left = leftoversOf(verdict);
    const again = verdict.action === "resume" ? "Run again" : "Run again with a brief";
    const undelivered = task.delivery === "waiting";
    const reason = withoutCommands(task.reason);
    put(
      this.element,
      h("p", null, h("strong", null, TITLES[task.status] ?? "The last run ended."), reason ? ` ${reason}` : ""),
      left.length ? this.#leftovers(left) : null,
      undelivered ? h("p", null, "Its prompt never reached the agent: ", h("q", null, task.prompt.slice(0, 200))) : null,
      h(
        "div",
        { class: "buttons" },
        left.length ? null : h("button", { type: "button", class: "primary", onclick: (event) => this.#again(event, task) }, again),
        undelivered ? h("button", { type: "button", onclick: () => this.on.composer.fill(task.prompt) }, "Edit it") : null,
        h("button", { type: "button", onclick: () => this.on.composer.choose("fresh") }, "Start fresh"),
        this.#fork.can ? h("button", { type: "button", onclick: () => this.on.composer.choose("fork") }, "Fork") : null,
        trustApplies(verdict, task.status) ? h("button", { type: "button", onclick: () => this.#trust() }, "Trust…") : null,
      ),
    );
  }

  #leftovers(left) {
    return h(
      "div",
      { class: "leftovers" },
      h("p", null, `${many(left.length, "process", "processes")} that it started still ${left.length === 1 ? "runs" : "run"}:`),
      h("ul", null, left.slice(0, 8).map((one) => h("li", null, h("code", null, one.command), h("span", { class: "faint" }, ` pid ${one.pid}`)))),
      left.length > 8 ? h("p", { class: "faint" }, `and ${left.length - 8} more`) : null,
      h("button", { type: "button", class: "primary", onclick: (event) => this.#stop(event) }, left.length === 1 ? "Stop it" : "Stop them"),
    );
  }

  async #stop(event) {
    event.currentTarget.disabled = true;
    try {
      const { ended } = await api.stopLeftovers(this.session);
      toast(`Stopped ${many(ended.length, "process", "processes")}`);
    } catch (problem) {
      if (problem.code !== "illegal_change") trouble(problem); // else they have just ended by themselves
    }
    this.#shown = "";
    this.on.changed();
  }

  async #again(event, task) {
    const button = event.currentTarget;
    button.disabled = true;
    try {
      const told = await api.resume(this.session, { prompt: task.prompt, how: "verdict", queue: true });
      announce("Sent again");
      this.on.sent(told);
    } catch (problem) {
      trouble(problem);
      button.disabled = false;
    }
  }

  async #trust() {
    const reason = await ask("Trust this session", "Why is it safe to resume?", "", "Trust");
    if (!reason) return;
    try {
      await api.trust(this.session, reason);
      toast("Trusted");
    } catch (problem) {
      trouble(problem);
    }
    this.#shown = "";
    this.on.changed();
  }
}
