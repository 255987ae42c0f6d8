// Verdicts on the live sessions, counted and listed: on all of them where there are few, else on as many as one asks for.
import * as api from "./api.js";
import { h, put } from "./dom.js";
import { chip, verdictOf, WORDS } from "./verdict.js";
import { ago, count, full, many } from "./time.js";

const PAGE = 200;
const SHOWN = 200; // rows at a time
const AT_ONCE = 200; // more are judged when one asks: each takes the hub a look at files and processes
let wanted = AT_ONCE;

/** Judge live sessions, the newest first: {counts, judged: [[session, verdict]], more}; `progress(looked)` as it goes on. */
export async function judgeLive(progress = () => true) {
  const judged = [];
  let before = null;
  do {
    const page = await api.sessions({ state: "live", limit: Math.min(PAGE, wanted - judged.length), before });
    const verdicts = await Promise.all(page.sessions.map((session) => verdictOf(session.id, `${session.events}`)));
    page.sessions.forEach((session, i) => judged.push([session, verdicts[i]]));
    before = page.next;
    if (progress(judged.length) === false) break;
  } while (before !== null && judged.length < wanted);
  const counts = {};
  for (const [, verdict] of judged) counts[verdict?.action ?? "unknown"] = (counts[verdict?.action ?? "unknown"] ?? 0) + 1;
  return { counts, judged, more: before !== null };
}

/** What a count covers, if not everything; the button judges the rest, then calls `again()`. */
export function covered(looked, again, all = null) {
  const rest = () => {
    wanted = Infinity;
    again();
  };
  const of = all === null ? "" : ` of ${count(all)}`;
  return h("p", { class: "covered faint" }, `The newest ${count(looked)}${of} live sessions. `, h("button", { type: "button", onclick: rest }, "Judge all"));
}

/** The sessions of one verdict. */
export class Judged {
  #closed = false;

  constructor(action) {
    this.action = action;
    this.body = h("div");
    this.element = h("div", { class: "view" }, h("h1", { tabindex: "-1" }, `Sessions: ${WORDS[action]?.[1] ?? action}`), this.body);
  }

  async open() {
    put(this.body, h("p", { class: "loading", role: "status" }, "Looking…"));
    const { judged, more } = await judgeLive((looked) => {
      if (this.#closed) return false;
      put(this.body, h("p", { class: "loading" }, `Looking… ${many(looked, "session")} judged`));
      return true;
    });
    if (this.#closed) return;
    const mine = judged.filter(([, verdict]) => verdict?.action === this.action);
    const list = h("ul", { class: "plain-list chips" });
    const further = h("button", { type: "button", onclick: () => this.#show(list, further, mine) });
    put(this.body, mine.length ? [list, further] : h("p", { class: "nothing" }, "None."), more ? covered(judged.length, () => this.open()) : null);
    this.#show(list, further, mine);
  }

  #show(list, further, rows) {
    list.append(...rows.slice(list.children.length, list.children.length + SHOWN).map(row));
    further.hidden = list.children.length >= rows.length;
    put(further, `Show more · ${count(list.children.length)} of ${count(rows.length)}`);
  }

  close() {
    this.#closed = true;
  }
}

function row([session, verdict]) {
  const name = session.title ?? session.id;
  return h(
    "li",
    null,
    h("a", { href: `#/s/${session.id}` }, h("span", { class: "two" }, h("bdi", { class: "title" }, name), h("span", { class: "faint" }, verdict.reasons?.[0]?.text ?? "")), h("time", { datetime: session.updated_at, title: full(session.updated_at) }, ago(session.updated_at))),
    chip(verdict, name),
  );
}
