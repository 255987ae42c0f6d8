// Verdicts on the newest live sessions, counted and listed.
import * as api from "./api.js";
import { h, put } from "./dom.js";
import { chip, verdictOf, WORDS } from "./verdict.js";
import { ago, full } from "./time.js";

const NEWEST = 200;

/** Judge the newest live sessions: {counts, judged: [[session, verdict]], looked, more}. */
export async function judgeNewest() {
  const page = await api.sessions({ state: "live", limit: NEWEST });
  const verdicts = await Promise.all(page.sessions.map((session) => verdictOf(session.id, `${session.events}`)));
  const judged = page.sessions.map((session, i) => [session, verdicts[i]]);
  const counts = {};
  for (const [, verdict] of judged) if (verdict) counts[verdict.action] = (counts[verdict.action] ?? 0) + 1;
  return { counts, judged, looked: page.sessions.length, more: page.next !== null };
}

/** The sessions of one verdict. */
export class Judged {
  constructor(action) {
    this.action = action;
    this.element = h("div", { class: "view" }, h("h1", { tabindex: "-1" }, `Sessions: ${WORDS[action]?.[1] ?? action}`), (this.body = h("p", { class: "loading" }, "Looking…")));
  }

  async open() {
    const { judged } = await judgeNewest();
    const mine = judged.filter(([, verdict]) => verdict?.action === this.action);
    const rows = mine.map(([session, verdict]) => h("li", null, h("a", { href: `#/s/${session.id}` }, h("bdi", { class: "title" }, session.title ?? session.id), h("span", { class: "faint" }, verdict.reasons?.[0]?.text ?? ""), h("time", { datetime: session.updated_at, title: full(session.updated_at) }, ago(session.updated_at))), chip(verdict, session.title ?? session.id)));
    this.body.replaceWith(rows.length ? h("ul", { class: "plain-list chips" }, rows) : put(this.body, "None of the newest live sessions."));
  }

  close() {}
}
