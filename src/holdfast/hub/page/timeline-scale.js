// What happened when, read from a log: the flight recorder's marks and its scale. Pure.
import { ENDED, isBorder } from "./timeline-items.js";

const REPLAY_SHARE = 0.12; // a replay is written in no time, and is to be seen

const time = (stamp) => Date.parse(stamp);

/** Runs, tools, waits, deaths and replayed stretches of a log; `now` ends what is still open. */
export function flight(events, now) {
  const told = { runs: [], tools: [], waits: [], deaths: [], replays: [], takeovers: [] };
  let last = -Infinity;
  const open = { runs: new Map(), tools: new Map(), waits: new Map() };
  let replay = null;
  for (const event of events) {
    const at = time(event.at);
    if (!Number.isFinite(at) || isBorder(event)) continue; // the border is of when it was replayed
    if (event.replayed) {
      if (!replay) told.replays.push((replay = { from: at, to: at, seq: event.seq, count: 0, origin: event.origin?.native_id ?? null }));
      replay.from = Math.min(replay.from, at);
      replay.to = Math.max(replay.to, at);
      replay.count += 1;
    } else if (event.kind !== "task") {
      replay = null;
    }
    if (event.kind === "task" && event.body.op === "claim" && event.body.generation > 1) told.takeovers.push({ last, at });
    if (!event.replayed) last = Math.max(last, at);
    note(event, at, told, open);
  }
  for (const span of told.replays) span.to = Math.max(span.to, span.from + 1); // written at once, and yet a stretch
  for (const run of open.runs.values()) run.to = Math.max(run.from, now);
  for (const tool of open.tools.values()) tool.to = tool.replayed ? tool.from : Math.max(tool.from, now);
  for (const wait of open.waits.values()) wait.to = Math.max(wait.from, now);
  return told;
}

function note(event, at, told, open) {
  const { kind, body, task, seq, replayed } = event;
  const call = `${replayed}/${task}/${body.call}`;
  if (kind === "task" && body.op === "claim") {
    const before = open.runs.get(task);
    if (before) before.to = at; // another owner took it over: the run goes on
    const run = before ?? { from: at, to: at, seq, task, status: "running" };
    if (!before) told.runs.push(run);
    open.runs.set(task, run);
  } else if (kind === "task" && body.op === "status") {
    ended(event, at, told, open);
  } else if (kind === "tool_progress") {
    const tool = { from: at, to: at, seq, name: body.name, outcome: "running", replayed };
    told.tools.push(tool);
    open.tools.set(call, tool);
  } else if (kind === "tool_summary") {
    const tool = open.tools.get(call);
    if (tool) Object.assign(tool, { to: Math.max(tool.from, at), outcome: body.outcome });
    else told.tools.push({ from: at - (body.duration_ms ?? 0), to: at, seq, name: body.name, outcome: body.outcome, replayed });
    open.tools.delete(call);
  } else if (kind === "permission" && !replayed) {
    const ask = `${task}/${body.ask ?? body.call}`;
    if (body.answer === null || body.answer === undefined) {
      const wait = { from: at, to: at, seq, name: body.name, answer: null };
      told.waits.push(wait);
      open.waits.set(ask, wait);
    } else if (open.waits.has(ask)) {
      Object.assign(open.waits.get(ask), { to: at, answer: body.answer, by: body.by });
      open.waits.delete(ask);
    }
  }
}

function ended({ body, task, seq }, at, told, open) {
  const run = open.runs.get(task);
  if (run) {
    run.status = body.status;
    run.to = at;
    if (ENDED.has(body.status) || body.status === "queued" || body.status === "waiting") open.runs.delete(task);
  }
  if (body.status === "interrupted") told.deaths.push({ at, seq, task, reason: body.reason ?? "" });
  if (!ENDED.has(body.status)) return;
  for (const [ask, wait] of open.waits) {
    if (ask.startsWith(`${task}/`)) {
      wait.to = at;
      open.waits.delete(ask);
    }
  }
}

/** When no hub was up, between two times; a run that was taken over after it was heard of until just before. */
export function downs(lives, from, to, takeovers = []) {
  const ups = lives.map((life) => [time(life.from), life.to === null ? Infinity : time(life.to), life.end]).sort((a, b) => a[0] - b[0]);
  const found = [];
  let end = -Infinity;
  for (let i = 0; i + 1 < ups.length; i += 1) {
    end = Math.max(end, ups[i][1]);
    const next = ups[i + 1][0];
    for (const { last, at } of takeovers) if (at >= next && at < next + 60_000 && last < next) end = Math.max(end, last);
    if (next - end > 500 && next > from && end < to) found.push({ from: Math.max(end, from), to: Math.min(next, to), began: end, ended: next, why: ups[i][2] });
  }
  return found;
}

const PAUSE_SHARE = 0.07; // of the strip: the most that one idle pause takes
const SHORT_PAUSE = 5_000;

/** Where a time is on the strip (0 to 1): busy time in proportion, long pauses folded. */
export function scale(told, from, to) {
  const busy = [...told.runs, ...told.replays, ...told.waits]
    .map((span) => [span.from, span.to])
    .concat(told.tools.map((tool) => [tool.from, tool.to]))
    .sort((a, b) => a[0] - b[0]);
  const joined = [];
  for (const [start, end] of busy) {
    const last = joined.at(-1);
    if (last && start <= last[1] + SHORT_PAUSE) last[1] = Math.max(last[1], end);
    else joined.push([start, end]);
  }
  const pieces = [];
  let at = from;
  for (const [start, end] of joined) {
    if (start > at) pieces.push({ from: at, to: start, idle: true });
    if (end > Math.max(at, start)) pieces.push({ from: Math.max(at, start), to: end, idle: false });
    at = Math.max(at, end);
  }
  if (to > at) pieces.push({ from: at, to, idle: true });
  const carved = told.replays.reduce(carve, pieces);
  weigh(carved);
  return new Scale(carved, from, to);
}

/** A replayed stretch is a piece of its own. */
function carve(pieces, { from, to }) {
  return pieces.flatMap((piece) => {
    if (to <= piece.from || from >= piece.to) return [piece];
    const [start, end] = [Math.max(from, piece.from), Math.min(to, piece.to)];
    const parts = [{ ...piece, to: start }, { from: start, to: end, idle: false, replayed: true }, { ...piece, from: end }];
    return parts.filter((part) => part.to > part.from);
  });
}

function weigh(pieces) {
  const work = pieces.filter((piece) => !piece.idle).reduce((sum, piece) => sum + piece.to - piece.from, 0);
  const pauses = pieces.filter((piece) => piece.idle);
  const share = Math.min(PAUSE_SHARE, 0.5 / Math.max(1, pauses.length));
  const most = Math.max(1, work) * share * 1.6;
  for (const piece of pieces) {
    const length = piece.to - piece.from;
    piece.weight = piece.idle ? Math.min(length, work ? most : length) : length;
    if (piece.replayed) piece.weight = Math.max(length, work * REPLAY_SHARE);
    piece.folded = piece.idle && piece.weight < length * 0.75;
  }
}

class Scale {
  constructor(pieces, from, to) {
    this.pieces = pieces;
    this.from = from;
    this.to = to;
    const whole = pieces.reduce((sum, piece) => sum + piece.weight, 0) || 1;
    let x = 0;
    for (const piece of pieces) {
      piece.x = x;
      x += piece.weight / whole;
      piece.end = x;
    }
  }

  x(at) {
    if (!this.pieces.length) return 0;
    if (at <= this.from) return 0;
    for (const piece of this.pieces) {
      if (at <= piece.to) return piece.x + ((at - piece.from) / Math.max(1, piece.to - piece.from)) * (piece.end - piece.x);
    }
    return 1;
  }

  at(x) {
    for (const piece of this.pieces) {
      if (x <= piece.end) return piece.from + ((x - piece.x) / Math.max(1e-9, piece.end - piece.x)) * (piece.to - piece.from);
    }
    return this.to;
  }
}
