// A session's log as far as the page holds it: one unbroken stretch of records, its end first.
import * as api from "./api.js";
import { quietly } from "./notify.js";

const PAGE = 500;
const FIRST = 200; // enough to fill any screen
const AT_A_TIME = 3; // requests
const AT_ONCE = 50_000; // what is further back is fetched when it is asked for

/** Tells `change` with {first, tail}: whether records came at the head, at the end, or both. */
export class Log extends EventTarget {
  #seen = 0; // the highest seq that the stream has told of
  #reading = null;
  #stop = new AbortController();
  #behind = false;

  constructor(session) {
    super();
    this.session = session;
    this.events = [];
    this.whole = false;
    this.busy = true; // records before these are on their way
  }

  get first() {
    return this.events.length ? this.events[0].seq : 1;
  }

  get last() {
    return this.events.length ? this.events[this.events.length - 1].seq : 0;
  }

  /** Read the end, then the rest backwards; `length` is the log's as the session's header tells it. */
  async open(length) {
    this.#seen = length;
    await this.forward(Math.max(0, length - FIRST));
    this.#tell(true, true);
    await this.back(AT_ONCE);
  }

  close() {
    this.#stop.abort();
  }

  /** A record from the stream: taken if it is the next one; if some are missing they are fetched. */
  take(event) {
    this.#seen = Math.max(this.#seen, event.seq);
    if (this.#reading || event.seq <= this.last) return;
    if (event.seq === this.last + 1 && this.events.length) {
      this.events.push(event);
      this.#tell(false, true);
    } else {
      this.forward().catch(quietly); // when the connection is back, it is tried again
    }
  }

  /** Fetch all that follows what is held. */
  async forward(after = this.last) {
    this.#seen = Math.max(this.#seen, after);
    if (this.#reading) {
      this.#behind = true;
      return this.#reading;
    }
    this.#reading = this.#forward(after);
    try {
      await this.#reading;
    } finally {
      this.#reading = null;
    }
    if (this.#behind || this.#seen > this.last) {
      this.#behind = false;
      if (!this.#stop.signal.aborted) return this.forward();
    }
    return undefined;
  }

  async #forward(after) {
    for (let next = after; next !== null; ) {
      const heard = this.#seen;
      const page = await api.events(this.session, next, PAGE, this.#stop.signal);
      const fresh = page.events.filter((event) => event.seq > this.last);
      for (const event of fresh) this.events.push(event);
      if (fresh.length) this.#tell(false, true);
      if (page.next === null && this.#seen === heard) this.#seen = this.last; // nothing was told of meanwhile
      next = page.next;
    }
  }

  /** Fetch up to that many records before what is held. */
  async back(most) {
    this.busy = true;
    const goal = Math.max(1, this.first - most);
    while (this.events.length && this.first > goal) {
      const stretches = [];
      for (let end = this.first; end > goal && stretches.length < AT_A_TIME; end = Math.max(goal, end - PAGE)) {
        stretches.push([Math.max(goal, end - PAGE), end]);
      }
      const pages = await Promise.all(stretches.map(([from, end]) => api.events(this.session, from - 1, end - from, this.#stop.signal)));
      const older = pages.reverse().flatMap((page, i) => page.events.filter((event) => event.seq < stretches[pages.length - 1 - i][1]));
      if (older.length !== this.first - older[0]?.seq) throw new Error("a stretch of the log has holes");
      this.events = older.concat(this.events);
      this.#tell(true, false);
    }
    this.whole = this.first === 1;
    this.busy = false;
    this.#tell(true, false);
  }

  #tell(head, tail) {
    this.dispatchEvent(new CustomEvent("change", { detail: { head, tail } }));
  }
}
