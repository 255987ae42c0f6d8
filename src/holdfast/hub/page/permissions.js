// The open permission requests of all sessions, for the views that show them and the tab's title.
import * as api from "./api.js";

/** Tells `change` when somebody asks or was answered. */
class Asked extends EventTarget {
  #all = [];
  #later = 0;
  #number = 0; // of the latest question
  #place = "Holdfast";

  /** Keep up with what the stream tells. */
  follow(stream) {
    stream.addEventListener("event", ({ detail }) => ["permission", "task"].includes(detail.event.kind) && this.#soon());
    stream.addEventListener("gap", () => this.#soon());
    stream.addEventListener("state", ({ detail }) => detail === "live" && this.#soon());
    this.#soon();
  }

  /** The permissions that wait, as {session, task, at, name, input, call, ask}. */
  get all() {
    return this.#all;
  }

  /** Whether that session's agent waits for one. */
  in(session) {
    return this.#all.some((one) => one.session === session);
  }

  /** Where the tab is. */
  set place(text) {
    this.#place = text;
    document.title = this.#all.length ? `(${this.#all.length}) ${text}` : text;
  }

  #soon() {
    this.#later ||= setTimeout(() => this.#load(), 200);
  }

  async #load() {
    this.#later = 0; // what is heard from now on may be newer than the answer
    const mine = ++this.#number;
    let found;
    try {
      found = await api.permissions();
    } catch {
      this.#later ||= setTimeout(() => this.#load(), 2000); // the connection's state says why
      return;
    }
    if (mine !== this.#number) return;
    this.#all = found.permissions;
    this.place = this.#place;
    this.dispatchEvent(new Event("change"));
  }
}

export const asked = new Asked();
