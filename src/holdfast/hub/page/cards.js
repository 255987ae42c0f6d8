// What each item of a timeline looks like.
import { h } from "./dom.js";
import { folded } from "./collapsible.js";
import { markdown } from "./markdown.js";
import { outcomeOf, toolCard } from "./tool.js";
import { statusWord } from "./status.js";
import { clock, full, lasting, many, ms, usageText } from "./time.js";

const ROLES = { user: "You", assistant: "Agent", thinking: "Thinking" };
const LONG = 12_000;

/** How high an item is, before anyone has seen it. */
export function guess(item) {
  if (item.kind === "message") return 64 + Math.min(700, Math.ceil(Math.min(item.text.length, LONG) / 95) * 22);
  return { tool: 42, mark: 32, run: 34, replay: 46, notice: 40, error: 60 }[item.kind] ?? 50;
}

/** The element of an item; `look` knows what is open and what runs. */
export function card(item, look) {
  const inside = BODIES[item.kind](item, look);
  const classes = ["card", item.kind, item.role, item.replayed && item.kind !== "replay" ? "replayed" : null, item.live ? "live" : null];
  return h("article", { class: classes.filter(Boolean).join(" "), tabindex: "-1", "data-seq": item.kind === "run" || item.pending ? null : (item.seq ?? null), "data-key": item.key, "aria-label": named(item, look) }, inside);
}

function named(item, look) {
  const when = item.at ? `, ${clock(item.at)}` : "";
  const again = item.replayed ? "replayed " : "";
  if (item.kind === "message") return `${again}${ROLES[item.role]}${when}`;
  if (item.kind === "tool") return `${again}tool ${item.name ?? ""}, ${outcomeOf(item, look.runs(item.task))}${when}`;
  if (item.kind === "run") return `run ${item.number}, ${statusWord(item.status)}`;
  return `${again}${item.kind === "replay" ? "replayed part" : item.kind === "mark" ? "record" : item.kind}${when}`;
}

const stamp = (item) => (item.at ? h("time", { datetime: item.at, title: full(item.at) }, clock(item.at)) : null);

const BODIES = {
  message(item, look) {
    const state = look.state(item.key);
    const head = h("header", null, h("span", { class: "who" }, ROLES[item.role]), item.cut ? h("span", { class: "outcome interrupted" }, "cut off") : null, item.pending ? h("span", { class: "outcome waiting" }, "not sent to the agent yet") : null, item.live ? h("span", { class: "pulse", "aria-hidden": "true" }) : null, stamp(item));
    if (item.role === "thinking" && !item.live) {
      const details = h("details", { open: state.open ?? item.text.length < 240 }, h("summary", null, head), prose(item, state));
      details.addEventListener("toggle", () => (state.open = details.open));
      return details;
    }
    return [head, item.brief ? brief(item, state) : null, prose(item, state)];
  },
  run: (item, look) => runLine(item, look.state(item.key)),
  tool: (item, look) => [toolCard(item, look.state(item.key), look.runs(item.task)), h("span", { class: "at" }, stamp(item))],
  replay: (item) => h("p", { class: "divider" }, h("span", null, "Replayed from session ", h("code", null, item.from ?? "before"), ` · ${many(item.count, "record")}`)),
  notice: (item, look) => line(item, look, "notice"),
  error: (item, look) => line(item, look, "error"),
  mark: (item) => mark(item),
};

function prose(item, state) {
  const draw = (shown) => h("div", { class: "prose" }, item.role === "user" ? h("p", { class: "typed", dir: "auto" }, shown) : markdown(shown));
  if (item.text.length <= LONG && item.role !== "user") return draw(item.text);
  return folded(item.text, state, draw);
}

/** The brief that a fresh run was given, folded; the prompt stays in plain sight. */
function brief(item, state) {
  const details = h("details", { class: "brief", open: Boolean(state.brief) }, h("summary", null, "With a brief of what happened before"), h("pre", { tabindex: "0" }, item.brief));
  details.addEventListener("toggle", () => (state.brief = details.open));
  return details;
}

/** One line for a run; its records are in the details. */
function runLine(item, state) {
  const took = item.from && item.to ? lasting(ms(item.to) - ms(item.from)) : "";
  const parts = [`Run ${item.number}`, item.how, statusWord(item.status), took, usageText(item.usage)].filter(Boolean);
  const rows = () => h("ol", { class: "records" }, item.records.map((event) => h("li", null, h("time", { datetime: event.at }, clock(event.at)), ` ${recordText(event)} `, h("code", { class: "code-word" }, `${event.kind} ${event.body.op ?? event.body.code ?? ""}`.trim()))));
  const details = h("details", { class: `run-line ${item.status}`, open: Boolean(state.open) }, h("summary", null, parts.join(" · ")));
  const fill = () => details.querySelector(".records") ?? details.append(rows());
  if (state.open) fill();
  details.addEventListener("toggle", () => {
    state.open = details.open;
    if (details.open) fill();
  });
  return details;
}

function recordText(event) {
  const { body } = event;
  if (event.kind === "notice") return String(body.text ?? "");
  if (event.kind === "token") return `the agent's conversation is ${body.native_id}`;
  if (event.kind === "session") return `session created${body.cwd ? ` in ${body.cwd}` : ""}`;
  return { queue: "queued", claim: "claimed by a worker" }[body.op] ?? [statusWord(body.status), body.reason].filter(Boolean).join(": ");
}

function line(item, look, kind) {
  const code = kind === "error" && item.code ? h("code", { class: "code-word" }, item.code) : null;
  const words = item.text.length > 400 ? folded(item.text, look.state(item.key), (shown) => h("pre", { tabindex: "0" }, shown)) : h("span", { dir: "auto" }, item.text);
  return h("div", { class: `line-${kind}` }, h("span", { class: "sign", "aria-hidden": "true" }, kind === "error" ? "!" : "·"), words, code, stamp(item));
}

const ENDS = { failed: "Run failed", cancelled: "Run cancelled", interrupted: "The agent died: run interrupted", unreachable: "The run's machine cannot be reached" };
const SESSION_ACTS = { archive: "Archived", unarchive: "Unarchived", delete: "Deleted", restore: "Restored", describe: "Description changed" };
const TOKEN_ACTS = { seen: "Conversation id", revoke: "Conversation id revoked", reinstate: "Conversation id reinstated" };

function mark(item) {
  const { body, of } = item;
  let words = `${of}: ${body.op}`;
  let kind = "";
  let extra = null;
  if (of === "task") {
    words = ENDS[body.status] ?? words;
    kind = body.status ?? body.op;
    extra = body.reason;
  } else if (of === "session") {
    words = SESSION_ACTS[body.op] ?? words;
    extra = body.reason ?? body.title;
    if (body.link) extra = `continues session ${body.link.session} (${body.link.relation})`;
  } else if (of === "token") {
    words = TOKEN_ACTS[body.op] ?? words;
    extra = body.reason ?? body.native_id;
  }
  return h("p", { class: `mark-line ${kind}` }, h("span", { class: "what" }, words), extra ? h("bdi", { class: "extra" }, extra) : null, stamp(item));
}
