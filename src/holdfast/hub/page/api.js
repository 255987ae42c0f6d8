// The hub's HTTP interface: one function per call, and one kind of error.
import { askForToken, loginKey } from "./login-key.js";

/** What the hub refused, in its own words. */
export class Problem extends Error {
  constructor(status, body) {
    super(body.detail || body.title || `the hub answered ${status}`);
    this.status = status;
    this.code = body.code ?? "unknown";
    this.hint = body.hint ?? null;
    this.body = body;
  }
}

async function ask(method, path, body, signal) {
  let answer;
  try {
    answer = await fetch(path, {
      method,
      signal,
      headers: { "x-holdfast-key": loginKey(), ...(body === undefined ? {} : { "content-type": "application/json" }) },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (failure) {
    if (failure.name === "AbortError") throw failure;
    throw new Problem(0, { detail: "The hub cannot be reached.", code: "offline" });
  }
  const text = await answer.text();
  let told = {};
  try {
    told = text ? JSON.parse(text) : {};
  } catch {
    if (answer.ok) throw new Problem(answer.status, { detail: "The hub's answer is not JSON." });
  }
  if (answer.status === 401) askForToken();
  if (!answer.ok) throw new Problem(answer.status, told);
  return told;
}

function query(path, given) {
  const pairs = new URLSearchParams();
  for (const [name, value] of Object.entries(given)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "") pairs.append(name, one);
    }
  }
  const text = pairs.toString();
  return text ? `${path}?${text}` : path;
}

const id = encodeURIComponent;
const post = (path, body = {}) => ask("POST", path, body);

export const sessions = (filter, signal) => ask("GET", query("/api/sessions", filter), undefined, signal);
export const session = (which) => ask("GET", `/api/sessions/${id(which)}`);
export const rename = (which, version, title) => ask("PATCH", `/api/sessions/${id(which)}`, { version, title });
export const archive = (which, reason) => post(`/api/sessions/${id(which)}/archive`, reason ? { reason } : {});
export const unarchive = (which) => post(`/api/sessions/${id(which)}/unarchive`);
export const restore = (which) => post(`/api/sessions/${id(which)}/restore`);
export const trust = (which, reason) => post(`/api/sessions/${id(which)}/trust`, { reason });
export const recordToken = (which, native_id, protocol) => post(`/api/sessions/${id(which)}/tokens`, { native_id, protocol });
export const revokeToken = (which, reason) => post(`/api/sessions/${id(which)}/tokens/revoke`, { reason });
export const reinstateToken = (which, native_id, reason) => post(`/api/sessions/${id(which)}/tokens/reinstate`, { native_id, reason });
export const remove = (which, reason) => ask("DELETE", query(`/api/sessions/${id(which)}`, { reason }));
export const events = (which, after, limit, signal) =>
  ask("GET", query(`/api/sessions/${id(which)}/events`, { after, limit }), undefined, signal);
export const verdict = (which, fork) => ask("GET", query(`/api/sessions/${id(which)}/verdict`, { fork: fork ? "true" : null }));
export const stopLeftovers = (which) => post(`/api/sessions/${id(which)}/leftovers/stop`);
export const verdicts = (which) => ask("GET", query("/api/verdicts", { session: which }));
export const resume = (which, given) => post(`/api/sessions/${id(which)}/resume`, given);
export const dispatch = (given) => post("/api/dispatch", given);
export const redispatch = (keys) => post("/api/redispatch", keys ? { keys } : {});
export const tasks = (filter) => ask("GET", query("/api/tasks", filter));
export const task = (which) => ask("GET", `/api/tasks/${id(which)}`);
export const cancel = (task) => post(`/api/tasks/${id(task)}/cancel`);
export const permission = (task, answer, call) => post(`/api/tasks/${id(task)}/permission`, { answer, call });
export const inbox = (since) => ask("GET", query("/api/inbox", { since }));
export const folders = (prefix) => ask("GET", query("/api/folders", { prefix }));
export const healed = () => ask("GET", "/api/healed");
export const dismissHealed = (name) => post(`/api/healed/${id(name)}/dismiss`);
export const agents = () => ask("GET", "/api/agents");
export const overview = (days) => ask("GET", query("/api/overview", { days }));
export const lives = (since) => ask("GET", query("/api/lives", { since }));
export const adoptable = () => ask("GET", "/api/adoptable");
export const adopt = (agent) => post("/api/adopt", { agent });
export const adopting = () => ask("GET", "/api/adopt");
export const doctor = (target, path) => ask("GET", query("/api/doctor", { target, path }));
export const applyPlan = (target, path, fingerprint) =>
  post("/api/doctor/apply", path ? { target, path, fingerprint } : { target, fingerprint });
export const health = () => ask("GET", "/healthz");
