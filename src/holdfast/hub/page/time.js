// Times and durations in few words.

/** Milliseconds since 1970 of a stamp; NaN if it is none. */
export const ms = (stamp) => Date.parse(stamp);

/** How long ago: «4 min». */
export function ago(stamp, now = Date.now()) {
  const seconds = Math.max(0, (now - ms(stamp)) / 1000);
  if (!Number.isFinite(seconds)) return "";
  if (seconds < 45) return "now";
  if (seconds < 3600) return `${Math.max(1, Math.round(seconds / 60))} min`;
  if (seconds < 86400) return `${Math.round(seconds / 3600)} h`;
  if (seconds < 86400 * 14) return `${Math.round(seconds / 86400)} d`;
  return new Date(ms(stamp)).toLocaleDateString(undefined, { day: "numeric", month: "short", year: "numeric" });
}

/** How long: «1.2 s», «3 min 4 s», «2 h 5 min». */
export function lasting(milliseconds) {
  if (!Number.isFinite(milliseconds)) return "";
  const seconds = Math.max(0, milliseconds) / 1000;
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.round((seconds % 86400) / 3600)} h`;
}

/** The time of day, with the day where that is not today. */
export function clock(stamp, now = new Date()) {
  const at = new Date(typeof stamp === "number" ? stamp : ms(stamp));
  if (Number.isNaN(at.getTime())) return "";
  const time = at.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
  if (at.toDateString() === now.toDateString()) return time;
  return `${at.toLocaleDateString(undefined, { day: "numeric", month: "short" })} ${time}`;
}

/** All of a time, for a tooltip. */
export function full(stamp) {
  const at = new Date(ms(stamp));
  return Number.isNaN(at.getTime()) ? "" : at.toLocaleString();
}

/** «1,234» */
export const count = (number) => Number(number ?? 0).toLocaleString("en");

/** «1 session», «2 sessions» */
export const many = (number, one, more = `${one}s`) => `${count(number)} ${number === 1 ? one : more}`;

/** «12 KB» */
export function size(characters) {
  if (characters < 1000) return `${characters} B`;
  if (characters < 1e6) return `${Math.round(characters / 1000)} KB`;
  return `${(characters / 1e6).toFixed(1)} MB`;
}

/** «41k», «1.2M» */
export function short(number) {
  if (number < 1000) return `${number}`;
  if (number < 1e6) return `${(number / 1000).toFixed(number < 10_000 ? 1 : 0).replace(/\.0$/, "")}k`;
  return `${(number / 1e6).toFixed(1).replace(/\.0$/, "")}M`;
}

/** Tokens and cost of all runs in a log; a cost that an agent reports for the whole conversation is not added. */
export function totalUsage(events) {
  const total = { input_tokens: 0, output_tokens: 0 };
  for (const { kind, body } of events) {
    const usage = kind === "task" ? body.outcome?.usage : null;
    if (!usage) continue;
    total.input_tokens += usage.input_tokens ?? 0;
    total.output_tokens += usage.output_tokens ?? 0;
    const whole = usage.conversation?.cost_usd ?? usage.session_cost_usd;
    if (typeof usage.cost_usd === "number") total.cost_usd = (total.cost_usd ?? 0) + usage.cost_usd;
    else if (typeof whole === "number") total.cost_usd = Math.max(total.cost_usd ?? 0, whole);
  }
  return total;
}

/** Tokens and cost of a run, as far as its agent reports them: «41k tokens · $0.20». */
export function usageText(usage) {
  if (!usage) return "";
  const tokens = (usage.input_tokens ?? 0) + (usage.output_tokens ?? 0);
  const cost = usage.cost_usd;
  return [tokens ? `${short(tokens)} tokens` : "", typeof cost === "number" ? `$${cost.toFixed(cost && cost < 0.01 ? 4 : 2)}` : ""].filter(Boolean).join(" · ");
}
