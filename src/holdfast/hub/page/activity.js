// What runs, waits, asks, failed and finished in all sessions: one value from the hub, for every view that shows it.
import * as api from "./api.js";

const LOOKED = "holdfast-looked"; // the time up to which a person has seen what finished
const DAY_MS = 86_400_000;
const EMPTY = { permissions: [], open: [], failed: [], finished: [], sessions: {} };

const stamp = (milliseconds) => new Date(milliseconds).toISOString().replace("Z", "000Z");

/** Dispatches `change` when any of it changed. */
class Activity extends EventTarget {
  #inbox = EMPTY;
  #later = 0;
  #number = 0; // of the latest request
  #place = "Holdfast";
  loaded = false;

  /** Keep up with what the stream tells. */
  follow(stream) {
    stream.addEventListener("event", ({ detail }) => ["permission", "task", "session"].includes(detail.event.kind) && this.soon());
    stream.addEventListener("gap", () => this.soon());
    stream.addEventListener("state", ({ detail }) => detail === "live" && this.soon());
    this.soon();
  }

  get inbox() {
    return this.#inbox;
  }

  /** The permissions that agents wait for, as {session, task, at, name, input, call, ask}. */
  get permissions() {
    return this.#inbox.permissions;
  }

  /** Whether that session's agent waits for one. */
  asks(session) {
    return this.#inbox.permissions.some((one) => one.session === session);
  }

  /** The tasks of a session that have not ended. */
  open(session) {
    return this.#inbox.open.filter((task) => task.session === session);
  }

  /** Until when a person has seen what finished. */
  get looked() {
    return localStorage.getItem(LOOKED) ?? stamp(Date.now() - DAY_MS);
  }

  /** All that has finished until now was seen. */
  look() {
    localStorage.setItem(LOOKED, stamp(Date.now()));
    this.soon(0);
  }

  /** The name of the view, for the tab's title. */
  set place(text) {
    this.#place = text;
    const waits = this.#inbox.permissions.length;
    document.title = waits ? `(${waits}) ${text}` : text;
  }

  soon(wait = 200) {
    this.#later ||= setTimeout(() => this.#load(), wait);
  }

  async #load() {
    this.#later = 0; // an event from now on may be newer than the answer
    const mine = ++this.#number;
    let found;
    try {
      found = await api.inbox(this.looked);
    } catch {
      this.#later ||= setTimeout(() => this.#load(), 2000); // the connection's state says why
      return;
    }
    if (mine !== this.#number) return;
    this.#inbox = found;
    this.loaded = true;
    this.place = this.#place;
    this.dispatchEvent(new Event("change"));
  }
}

export const activity = new Activity();
