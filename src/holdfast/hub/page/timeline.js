// A session's timeline: its log as cards, live at the end, with ways to find and to jump.
import { card, guess } from "./cards.js";
import { h, icon, put } from "./dom.js";
import { highlight } from "./highlight.js";
import { itemsOf, wordsOf } from "./timeline-items.js";
import { trouble } from "./notify.js";
import { ends } from "./stream.js";
import { Window } from "./virtual-list.js";
import { count, many } from "./time.js";

/** Shows a log; `runs(task)` tells whether a task still runs. */
export class Timeline extends EventTarget {
  #states = new Map();
  #partials = new Map();
  #items = [];
  #frame = 0;
  #seen = 0;
  #found = { words: "", at: -1 };

  constructor(log, runs) {
    super();
    this.log = log;
    this.runs = runs;
    this.sheet = h("div", { class: "sheet", role: "feed", "aria-label": "Timeline", "aria-busy": "true" });
    this.scroller = h("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": "Timeline, scrollable" }, this.sheet);
    this.jump = h("button", { type: "button", class: "to-end", hidden: true, onclick: () => this.end() }, icon("down"), h("span"));
    this.older = h("button", { type: "button", class: "older", hidden: true, onclick: () => log.back(5000).catch(trouble) }, "Load earlier records");
    this.element = h("div", { class: "timeline" }, h("h2", { class: "visually-hidden" }, "Timeline"), this.older, this.scroller, this.jump);
    this.window = new Window(this.scroller, { draw: (item) => card(item, this), guess });
    this.window.addEventListener("view", () => this.#viewed());
    log.addEventListener("change", () => this.refresh());
  }

  close() {
    cancelAnimationFrame(this.#frame);
    highlight(this.sheet, "");
    this.window.close();
  }

  state(key) {
    if (!this.#states.has(key)) this.#states.set(key, {});
    return this.#states.get(key);
  }

  /** Show what the log holds now; many calls in one frame are one. */
  refresh() {
    cancelAnimationFrame(this.#frame);
    this.#frame = requestAnimationFrame(() => this.#show());
  }

  /** Text of a block that is not finished. */
  partial({ task, kind, text }) {
    this.#partials.set(task, { task, kind, text });
    this.refresh();
  }

  /** An event came: what was in the making is whole or given up; the hub tells it again if it is not. */
  whole(event) {
    if (ends(event) && this.#partials.delete(event.task)) this.refresh();
  }

  clearPartials() {
    if (!this.#partials.size) return;
    this.#partials.clear();
    this.refresh();
  }

  #show() {
    this.#items = itemsOf(this.log.events);
    for (const item of this.#items) if (item.kind === "tool" && !item.end) item.rev += this.runs(item.task) ? "" : "-over";
    const live = [...this.#partials.values()].map((p) => ({ key: `live-${p.task}-${p.kind}`, rev: p.text.length + p.text.slice(-20), kind: "message", role: p.kind, text: p.text, live: true, task: p.task }));
    this.window.set([...this.#items, ...live]);
    this.sheet.setAttribute("aria-busy", "false");
    this.older.hidden = this.log.whole || this.log.first === 1 || this.log.busy;
    if (this.window.following) this.#seen = this.log.last;
    this.#viewed();
  }

  #viewed() {
    const away = !this.window.following;
    this.jump.hidden = !away;
    if (!away) this.#seen = this.log.last;
    const fresh = this.log.last - this.#seen;
    const words = fresh > 0 ? many(fresh, "new record") : "To the end";
    const label = this.jump.querySelector("span");
    if (label.textContent !== words) put(label, words);
    if (this.#found.words) highlight(this.sheet, this.#found.words);
    this.dispatchEvent(new CustomEvent("view"));
  }

  /** The times that are seen now. */
  get span() {
    const view = this.window.view;
    if (!view) return null;
    const times = view.map((item) => Date.parse(item.at ?? new Date().toISOString()));
    return [Math.min(...times), Math.max(...times)];
  }

  end() {
    this.window.end();
  }

  top() {
    this.window.show(0, true);
  }

  /** Go to the item that holds that record. */
  toSeq(seq) {
    let index = this.#items.findLastIndex((item) => item.seq <= seq);
    const holds = (item) => item.rev.split(",").includes(`${seq}`);
    const exact = this.#items.findIndex((item) => item.kind !== "replay" && item.kind !== "run" && holds(item));
    const run = this.#items.findIndex((item) => item.kind === "run" && holds(item));
    if (exact >= 0) index = exact;
    else if (run >= 0) index = run;
    if (index >= 0) this.window.show(index, true);
  }

  /** Go to the first item after that time. */
  toTime(at) {
    const index = this.#items.findIndex((item) => !item.replayed && Date.parse(item.at) >= at);
    this.window.show(index < 0 ? this.#items.length - 1 : index, true);
  }

  /** Find words, forwards or backwards from the last find; tells how many items have them. */
  find(words, step = 1) {
    const wanted = words.toLowerCase();
    if (!wanted) {
      this.#found = { words: "", at: -1 };
      highlight(this.sheet, "");
      return "";
    }
    const hits = [];
    this.#items.forEach((item, index) => {
      if (wordsOf(item).toLowerCase().includes(wanted)) hits.push(index);
    });
    if (!hits.length) {
      highlight(this.sheet, "");
      return "not found";
    }
    const fresh = this.#found.words !== wanted;
    const at = fresh ? hits.length - 1 : (this.#found.at + step + hits.length) % hits.length;
    this.#found = { words: wanted, at };
    this.window.show(hits[at]);
    const element = this.window.element(this.#items[hits[at]].key);
    element?.classList.add("flash");
    highlight(this.sheet, wanted);
    return `${count(at + 1)} of ${count(hits.length)}`;
  }

  /** Move the keyboard to the next or previous item. */
  step(by) {
    const items = this.window.items;
    const current = document.activeElement?.closest?.("article[data-key]");
    const view = this.window.view;
    if (!view) return;
    const from = current ? items.findIndex((item) => item.key === current.dataset.key) : items.indexOf(view[0]) - by;
    this.window.show(from + by, true);
  }
}
