// What agents wait for an answer to, in all sessions; told to whoever shows it, and in the tab's title.
import * as api from "./api.js";

/** Tells `change` when somebody asks or was answered. */
class Asked extends EventTarget {
  #all = [];
  #later = 0;
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
    try {
      this.#all = (await api.permissions()).permissions;
    } catch {
      return; // the connection's state says so, and its return asks again
    } finally {
      this.#later = 0;
    }
    this.place = this.#place;
    this.dispatchEvent(new Event("change"));
  }
}

export const asked = new Asked();
