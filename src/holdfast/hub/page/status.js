// The status of a session and of a task, in the same words everywhere on the page. Pure.
import { clock } from "./time.js";

const WORDS = {
  asks: "asks you",
  running: "running",
  queued: "queued",
  waiting: "waiting",
  unreachable: "unreachable",
  succeeded: "done",
  failed: "failed",
  cancelled: "cancelled",
  interrupted: "died",
  archived: "archived",
  deleted: "deleted",
  none: "no task",
};
const CAUSES = {
  leftovers: "for leftover processes",
  owner: "for another program",
  person: "for you",
  too_soon: "a moment",
  limit: "for a usage limit",
  rate: "for a rate limit",
  overload: "for the provider",
  network: "for the network",
  auth: "for a login",
  billing: "for billing",
};
const OPEN_ORDER = ["running", "unreachable", "waiting", "queued"];
const STALLED_MS = 30 * 60_000;
const PERSON = new Set(["person", "auth", "billing"]);

/** Whether a waiting task needs a person. */
export const needsPerson = (task) => task.status === "waiting" && PERSON.has(task.waiting_for?.cause);

/** Whether a running task has shown nothing for so long that a person should look. */
export function isStalled(task, session, now = Date.now()) {
  return task.status === "running" && Boolean(session) && now - Date.parse(session.updated_at) > STALLED_MS;
}

/** What a status is called. */
export const statusWord = (name) => WORDS[name] ?? name;

/** The task that stands for a session: what runs, else what waits, else what is queued first. */
export function leading(open) {
  for (const status of OPEN_ORDER) {
    const found = open.find((task) => task.status === status);
    if (found) return found;
  }
  return null;
}

/** The status name of a session: `open` are its tasks that have not ended, `asks` whether an agent asks. */
export function statusOf(session, open, asks) {
  if (session.state !== "live") return session.state;
  if (asks) return "asks";
  return leading(open)?.status ?? session.last_status ?? "none";
}

/** What a waiting task waits for, and until when. */
export function waitText(task) {
  if (task.status !== "waiting") return statusWord(task.status);
  const cause = CAUSES[task.waiting_for?.cause];
  const until = task.not_before ?? task.waiting_for?.until;
  return ["waiting", cause, until ? `until ${clock(until)}` : null].filter(Boolean).join(" ");
}

/** How many wait behind, in words. */
export function queueText(open) {
  const behind = open.filter((task) => task.status === "queued" || task.status === "waiting").length;
  const alone = leading(open)?.status !== "running" && leading(open)?.status !== "unreachable";
  const count = alone ? behind - 1 : behind;
  return count > 0 ? `${count} queued` : "";
}
