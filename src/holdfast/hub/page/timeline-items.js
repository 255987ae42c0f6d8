// From records to what a timeline shows: a call and its end are one, and bookkeeping stays out. Pure.

const SILENT = new Set(["deliver", "metadata"]);
const MESSAGES = new Set(["user", "assistant", "thinking"]);

/** The items of a stretch of records, in the order of the log. */
export function itemsOf(events) {
  const items = [];
  const calls = new Map();
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
    place(items, calls, event);
  }
  return items;
}

/** Whether a record only says that what is replayed ends here. */
export const isBorder = (event) => event.replayed && event.kind === "notice" && event.body.code === "replayed";

const origin = (event) => event.origin?.native_id ?? event.body.from ?? null;

function place(items, calls, event) {
  const body = event.body ?? {};
  if (MESSAGES.has(event.kind)) {
    items.push(base(event, "message", { role: event.kind, text: text(body.text), cut: Boolean(body.cut) }));
  } else if (event.kind === "tool_progress") {
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
  return item.text ?? "";
}
