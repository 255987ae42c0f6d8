// A tool call in the timeline: one line, and its input and output when opened.
import { h, icon } from "./dom.js";
import { diffLines, editsOf, isDiff } from "./diff.js";
import { folded } from "./collapsible.js";
import { text } from "./timeline-items.js";
import { clock, full, lasting, ms } from "./time.js";

const GIST = ["command", "cmd", "file_path", "path", "filePath", "pattern", "query", "url", "description", "prompt", "title"];
const OUTCOMES = { ok: "ok", error: "failed", interrupted: "interrupted", running: "running", lost: "no result" };

/** The one thing of a tool's input that tells most. */
export function gist(input) {
  if (typeof input === "string") return input.split("\n", 1)[0].slice(0, 200);
  if (!input || typeof input !== "object") return "";
  for (const name of GIST) {
    const value = Array.isArray(input[name]) ? input[name].join(" ") : input[name];
    if (typeof value === "string" && value) return value.split("\n", 1)[0].slice(0, 200);
  }
  const first = Object.values(input).find((value) => typeof value === "string");
  return first ? first.split("\n", 1)[0].slice(0, 200) : "";
}

/** How a call ended, or that it has not. */
export function outcomeOf(item, running) {
  if (item.end) return item.end.outcome ?? "ok";
  return running ? "running" : "lost";
}

/** How long a call took without the time it waited for a person; NaN if that is not known. */
export function tookMs(item) {
  if (!item.end) return NaN;
  const whole = item.end.duration_ms ?? (ms(item.ended) - ms(item.at) || NaN); // read at once: not known
  const waited = item.asks.reduce((sum, ask) => sum + (ask.answer && ask.asked ? Math.max(0, ms(ask.at) - ms(ask.asked)) : 0), 0);
  return Math.max(0, whole - waited);
}

/** The element of a call; `state` says what is open, `running` whether its task still runs. */
export function toolCard(item, state, running) {
  const outcome = outcomeOf(item, running);
  const waits = running && item.asks.some((ask) => ask.answer === null || ask.answer === undefined) && !item.end;
  const edits = editsOf(item.input);
  const open = state.open ?? (waits || edits.length > 0);
  const details = h("details", { class: "tool", open });
  const took = tookMs(item);
  details.append(
    h(
      "summary",
      null,
      icon("right"),
      h("span", { class: "tool-name" }, item.name ?? "tool"),
      h("bdi", { class: "gist" }, gist(item.input)),
      h("span", { class: "took" }, lasting(took)),
      h("span", { class: `outcome ${waits ? "waiting" : outcome}` }, waits ? "asks" : (OUTCOMES[outcome] ?? outcome)),
    ),
  );
  const fillBody = () => {
    if (details.querySelector(".tool-body")) return;
    details.append(h("div", { class: "tool-body" }, asked(item, waits), edits.length ? edits.map((edit, i) => diff(edit, part(state, `edit${i}`))) : input(item, state), output(item, state, outcome)));
  };
  if (open) fillBody();
  details.addEventListener("toggle", () => {
    state.open = details.open;
    if (details.open) fillBody();
  });
  return details;
}

const part = (state, name) => (state[name] ??= {});
const pre = (className) => (shown) => h("pre", { class: className, tabindex: "0" }, shown);

function asked(item, waits) {
  return item.asks.map((ask) =>
    ask.answer === null || ask.answer === undefined
      ? waits && h("p", { class: "answered" }, "Waits for an answer, below.")
      : h("p", { class: `answered ${ask.answer}`, title: full(ask.at) }, `${ask.answer === "allow" ? "Allowed" : ask.answer === "deny" ? "Denied" : ask.answer} by ${ask.by ?? "somebody"} at ${clock(ask.at)}`),
  );
}

function input(item, state) {
  const given = item.input;
  if (given === null || given === undefined || (typeof given === "object" && !Object.keys(given).length)) return null;
  const command = typeof given === "object" ? (given.command ?? given.cmd) : null;
  if (typeof command === "string" && Object.keys(given).every((key) => ["command", "cmd", "description"].includes(key))) {
    return labelled("Command", folded(command, part(state, "input"), pre("command")));
  }
  return labelled("Input", folded(text(given), part(state, "input"), pre("")));
}

function diff(edit, state) {
  return labelled(edit.path ?? "Change", folded(edit.text, state, (shown) => h("pre", { class: "diff", tabindex: "0" }, diffLines(shown))));
}

function output(item, state, outcome) {
  if (!item.end) return outcome === "lost" ? h("p", { class: "faint" }, "The log has no end of this call.") : null;
  let given = text(item.end.output);
  const exit = /^\{"exit_code":(-?\d+|null),"output":/.exec(given);
  let label = "Output";
  if (exit) {
    const read = parse(given);
    if (read) {
      given = text(read.output);
      label = `Output · exit ${read.exit_code}`;
    }
  }
  if (outcome === "interrupted") label = "Interrupted";
  if (!given.trim()) return h("p", { class: "faint" }, `${label}: nothing`);
  const draw = isDiff(given) ? (shown) => h("pre", { class: "diff", tabindex: "0" }, diffLines(shown)) : pre(outcome === "ok" ? "" : "bad");
  return labelled(label, folded(given, part(state, "output"), draw));
}

function parse(given) {
  try {
    return JSON.parse(given);
  } catch {
    return null;
  }
}

const labelled = (label, ...content) => h("div", { class: "part" }, h("p", { class: "label" }, h("bdi", null, label)), content);
