// One connection to the hub's stream, kept for as long as the page is looked at.
import { loginKey } from "./login-key.js";

const REST_MS = 60_000; // a hidden tab lets go of its connection: a browser has only six for one hub

/** Whether an event ends what its task was saying: those of a subagent do not. */
export const ends = (event) => event.body?.parent === undefined;

/** Tells `event`, `partial`, `gap` and `state` (live | lost); comes back by itself from where it was. */
export class Stream extends EventTarget {
  #source = null;
  #cursor = null;
  #state = "connecting";
  #retry = null;
  #hidden = null;
  #wait = 500;
  #saying = new Map(); // by task: the last partial

  constructor(path = "/api/stream") {
    super();
    this.path = path;
    document.addEventListener("visibilitychange", () => this.#looked());
    addEventListener("online", () => this.#again(0));
  }

  get state() {
    return this.#state;
  }

  /** What is being said in a session, as far as it was told. */
  saying(session) {
    return [...this.#saying.values()].filter((said) => said.session === session);
  }

  open() {
    this.#close();
    const query = new URLSearchParams({ key: loginKey(), ...(this.#cursor === null ? {} : { after: this.#cursor }) });
    const path = `${this.path}?${query}`;
    const source = new EventSource(path);
    this.#source = source;
    source.addEventListener("open", () => {
      this.#wait = 500;
      this.#tell("live");
    });
    source.addEventListener("event", (message) => {
      this.#cursor = message.lastEventId || this.#cursor;
      const { event } = this.#give("event", message.data);
      if (ends(event)) this.#saying.delete(event.task);
    });
    source.addEventListener("partial", (message) => {
      const said = this.#give("partial", message.data);
      this.#saying.set(said.task, said);
    });
    source.addEventListener("gap", (message) => {
      this.#cursor = null; // what would follow is the whole log of all sessions: reload what is shown instead
      this.open();
      this.#give("gap", message.data);
    });
    source.addEventListener("error", () => {
      this.#tell("lost");
      this.#again(this.#wait);
    });
  }

  #give(type, data) {
    const detail = JSON.parse(data);
    this.dispatchEvent(new CustomEvent(type, { detail }));
    return detail;
  }

  #again(wait) {
    clearTimeout(this.#retry);
    if (this.#state === "live") return;
    // The browser's own retries end at the first answer that is not a stream; ours do not.
    this.#retry = setTimeout(() => this.open(), wait);
    this.#wait = Math.min(this.#wait * 1.5, 5000);
  }

  #close() {
    clearTimeout(this.#retry);
    this.#saying.clear(); // told again when it is back
    this.#source?.close();
    this.#source = null;
  }

  #looked() {
    clearTimeout(this.#hidden);
    if (document.hidden) {
      this.#hidden = setTimeout(() => {
        this.#close();
        this.#state = "resting";
      }, REST_MS);
    } else if (this.#source === null) {
      this.open();
    }
  }

  #tell(state) {
    if (this.#state === state) return;
    this.#state = state;
    this.dispatchEvent(new CustomEvent("state", { detail: state }));
  }
}
