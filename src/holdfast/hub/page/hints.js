// What went wrong, in words for a person on the page: hints for the command line stay on the command line.

const COMMAND = /(^|[\s`("'])(--[a-z]|holdfast [a-z])/;

const HINTS = {
  session_running: "It can be sent when the running task is done.",
  resume_unsafe: "Start fresh: the new run is told what happened so far.",
  resume_unavailable: "Start fresh: there is no conversation to resume.",
  key_taken: "Choose another key, or open the session that has it.",
  plan_changed: "Look again, then decide.",
  agent_missing: null, // its hint says how to install it
};

/** Sentences of a text that do not speak of commands or flags. */
export function withoutCommands(text) {
  return String(text ?? "")
    .split(/;\s+/)
    .filter((part) => !COMMAND.test(part))
    .join("; ")
    .trim();
}

/** The hint to show beside a problem, or an empty text. */
export function hintOf(problem) {
  const own = HINTS[problem.code];
  if (own) return own;
  return withoutCommands(problem.hint);
}

/** A problem in one text. */
export function problemText(problem) {
  const message = withoutCommands(problem.message) || "That did not work.";
  const hint = hintOf(problem);
  const ended = /[.!?…]$/.test(message) ? message : `${message}.`;
  return hint ? `${ended} ${hint}` : message;
}
