// From records to what a timeline shows: a call and its end are one, and bookkeeping stays out. Pure.

const SILENT = new Set(["deliver", "metadata"]);
const UNUSUAL = new Set(["failed", "cancelled", "interrupted", "unreachable"]); // ends that have a line of their own
// Notices about how a run was launched; they are in the details of its line.
const PLUMBING = new Set(["resume_attempt", "resumed", "not_resumed", "launch", "drained", "cancel_requested", "waiting"]);
const MESSAGES = new Set(["user", "assistant", "thinking"]);

/** The items of a stretch of records, in the order of the log. */
export function itemsOf(events) {
  const items = [];
  const calls = new Map();
  const runs = new Runs(items);
  let replay = null;
  for (const event of events) {
    if (isBorder(event)) continue; // the divider tells it
    const from = event.replayed ? origin(event) : null;
    if (event.replayed && (!replay || (from && replay.from && replay.from !== from))) {
      replay = { key: `replay-${event.seq}`, rev: "", kind: "replay", seq: event.seq, at: event.at, from, replayed: true, count: 0 };
      items.push(replay);
    } else if (!event.replayed && event.kind !== "task") {
      replay = null;
    }
    if (event.replayed) {
      replay.count += 1;
      replay.from ??= from;
      replay.rev = `${replay.count}`;
    }
    place(items, calls, runs, event);
  }
  for (const ask of waiting(events)) runs.asks(ask);
  runs.finish();
  return items;
}

/** One line per run: its plumbing is gathered here, and the line stands after the prompt of the run. */
class Runs {
  #items;
  #byTask = new Map();
  #loose = []; // plumbing of no run, until one begins

  constructor(items) {
    this.#items = items;
  }

  #of(event) {
    if (!this.#byTask.has(event.task)) {
      const run = base(event, "run", { key: `run-${event.task}`, number: this.#byTask.size + 1, status: "queued", prompt: null, how: "", usage: null, from: null, to: null, reason: null, records: [], placed: false });
      run.records.push(...this.#loose.splice(0));
      this.#byTask.set(event.task, run);
    }
    return this.#byTask.get(event.task);
  }

  /** Whether a record is plumbing, which then is in the line of its run. */
  takes(event) {
    const body = event.body ?? {};
    if (event.replayed) return false;
    if (event.kind === "notice" && !PLUMBING.has(body.code)) return false;
    if (!["notice", "task", "token", "session"].includes(event.kind)) return false;
    if (event.kind === "session" && body.op !== "create") return false;
    if (event.kind === "token" && body.op !== "seen") return false;
    if (!event.task) {
      this.#loose.push(event);
      return true;
    }
    const run = this.#of(event);
    run.records.push(event);
    run.rev += `,${event.seq}`;
    if (event.kind === "task") change(run, event);
    else if (body.code === "resumed") run.how = "resumed";
    else if (body.code === "not_resumed") run.how = "fresh";
    return true;
  }

  /** Something of a run is shown: its line stands before it, or after its prompt. */
  placed(event, after = false) {
    if (!event.task || event.replayed) return;
    const run = this.#of(event);
    if (run.placed) return;
    run.placed = true;
    run.seq = event.seq;
    if (after) this.#items.push(run);
    else this.#items.splice(this.#items.length - 1, 0, run);
  }

  /** The agent of a run waits for an answer. */
  asks(event) {
    const run = this.#byTask.get(event.task);
    if (run?.status !== "running") return;
    run.status = "asks";
    run.rev += `,ask-${event.seq}`;
  }

  promptOf(event) {
    return this.#byTask.get(event.task)?.prompt ?? null;
  }

  /** Runs of which nothing is shown yet: they wait, or ended before they began. */
  finish() {
    for (const run of this.#byTask.values()) {
      if (!run.placed && run.prompt !== null) {
        this.#items.push({ ...run, kind: "message", key: `prompt-${run.task}`, role: "user", text: run.prompt, brief: null, pending: true }, run);
      }
    }
  }
}

function change(run, { body, at }) {
  if (body.op === "queue") run.prompt = text(body.prompt);
  else if (body.op === "claim") {
    run.status = "running";
    run.from ??= at;
  } else if (body.op === "status") {
    run.status = body.status;
    run.reason = body.reason ?? null;
    if (body.outcome?.usage) run.usage = body.outcome.usage;
    if (ENDED.has(body.status)) run.to = at;
  }
}

/** The brief before a prompt, if the agent was given more than the person wrote. */
export function briefOf(whole, prompt) {
  if (prompt === null || whole === prompt || !prompt || !whole.endsWith(prompt)) return null;
  return whole.slice(0, whole.length - prompt.length).trim() || null;
}

/** Whether a record only says that what is replayed ends here. */
export const isBorder = (event) => event.replayed && event.kind === "notice" && event.body.code === "replayed";

const origin = (event) => event.origin?.native_id ?? event.body.from ?? null;

function place(items, calls, runs, event) {
  const body = event.body ?? {};
  const unusual = event.kind === "task" && body.op === "status" && UNUSUAL.has(body.status) && !body.outcome?.moved_to;
  if (runs.takes(event)) {
    if (!unusual) return;
    items.push(base(event, "mark", { of: event.kind, body }));
    runs.placed(event);
    return;
  }
  if (MESSAGES.has(event.kind)) {
    const whole = text(body.text);
    const brief = event.kind === "user" && !event.replayed ? briefOf(whole, runs.promptOf(event)) : null;
    items.push(base(event, "message", { role: event.kind, text: brief === null ? whole : runs.promptOf(event), brief, cut: Boolean(body.cut) }));
    runs.placed(event, event.kind === "user");
    return;
  }
  const length = items.length;
  placeOther(items, calls, event, body);
  if (items.length > length) runs.placed(event);
}

function placeOther(items, calls, event, body) {
  if (event.kind === "tool_progress") {
    const tool = base(event, "tool", { name: body.name, input: body.input, call: body.call, end: null, asks: [] });
    calls.set(callOf(event), tool);
    items.push(tool);
  } else if (event.kind === "tool_summary") {
    const tool = calls.get(callOf(event));
    if (tool && !tool.end) grow(tool, event, { end: body, ended: event.at });
    else items.push(base(event, "tool", { name: body.name, input: body.input, call: body.call, end: body, ended: event.at, asks: [] }));
  } else if (event.kind === "permission") {
    permission(items, calls, event);
  } else if (event.kind === "notice" || event.kind === "error") {
    items.push(base(event, event.kind, { text: text(body.text), code: body.code, body }));
  } else if (!SILENT.has(body.op)) {
    items.push(base(event, "mark", { of: event.kind, body }));
  }
}

function permission(items, calls, event) {
  const ask = { seq: event.seq, at: event.at, task: event.task, ...event.body };
  const tool = calls.get(callOf(event));
  if (tool) {
    const asks = tool.asks.filter((other) => String(other.ask) !== String(ask.ask) || ask.answer === null);
    grow(tool, event, { asks: [...asks, { ...ask, asked: tool.asks.find((o) => String(o.ask) === String(ask.ask))?.at ?? ask.at }] });
    return;
  }
  const lone = base(event, "tool", { name: ask.name, input: ask.input, call: ask.call, end: null, asks: [ask] });
  calls.set(callOf(event), lone);
  items.push(lone);
}

const callOf = (event) => `${event.replayed ? "replayed" : event.task}/${event.body.call}`;

function base(event, kind, more) {
  return {
    key: `${event.seq}`,
    rev: `${event.seq}`,
    kind,
    seq: event.seq,
    at: event.at,
    task: event.task,
    replayed: event.replayed,
    ...more,
  };
}

function grow(item, event, more) {
  Object.assign(item, more);
  item.rev += `,${event.seq}`;
}

/** Whatever a body holds where text should be, as text. */
export function text(value) {
  if (typeof value === "string") return value;
  return value === null || value === undefined ? "" : JSON.stringify(value, null, 2);
}

/** The permissions that wait for an answer, of tasks that have not ended. */
export function waiting(events) {
  const asked = new Map();
  for (const event of events) {
    if (event.replayed) continue;
    if (event.kind === "permission") {
      const key = `${event.task}/${event.body.ask ?? event.body.call}`;
      if (event.body.answer === null || event.body.answer === undefined) asked.set(key, event);
      else asked.delete(key);
    } else if (event.kind === "task" && ENDED.has(event.body.status)) {
      for (const [key, ask] of asked) if (ask.task === event.task) asked.delete(key);
    }
  }
  return [...asked.values()];
}

export const ENDED = new Set(["succeeded", "failed", "cancelled", "interrupted"]);

/** What is searched when one looks for words in a session. */
export function wordsOf(item) {
  if (item.kind === "tool") return `${item.name} ${text(item.input)} ${text(item.end?.output)}`;
  return item.brief ? `${item.brief} ${item.text}` : (item.text ?? "");
}
