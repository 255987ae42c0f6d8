// Diffs: detected in other text, built from an edit, drawn in colors.
import { h } from "./dom.js";

const LIMIT = 1500; // lines of a side that are compared; what is longer is shown as all out, all in

/** Whether a text reads like a unified diff. */
export function isDiff(text) {
  const head = text.slice(0, 4000);
  return /^@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@/m.test(head) || (/^--- \S/m.test(head) && /^\+\+\+ \S/m.test(head));
}

function kindOf(line) {
  if (/^(diff |index |--- |\+\+\+ |new file|deleted file|similarity|rename )/.test(line)) return "file";
  if (line.startsWith("@@")) return "hunk";
  if (line.startsWith("+")) return "in";
  if (line.startsWith("-")) return "out";
  return "same";
}

/** One element per line of a unified diff. */
export function diffLines(text) {
  return text.replace(/\n$/, "").split("\n").map((line) => h("span", { class: `line ${kindOf(line)}` }, `${line}\n`));
}

/** The lines of an edit as a diff without context that far from it. */
export function edit(before, after) {
  const a = before === "" ? [] : before.replace(/\n$/, "").split("\n");
  const b = after === "" ? [] : after.replace(/\n$/, "").split("\n");
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  const lines = [];
  const same = (line) => lines.push(` ${line}`);
  a.slice(Math.max(0, start - 3), start).forEach(same);
  lines.push(...middle(a.slice(start, a.length - end), b.slice(start, b.length - end)));
  a.slice(a.length - end, a.length - end + 3).forEach(same);
  return lines.join("\n");
}

function middle(a, b) {
  if (a.length > LIMIT || b.length > LIMIT || a.length * b.length > 1e6) {
    return [...a.map((line) => `-${line}`), ...b.map((line) => `+${line}`)];
  }
  const width = b.length + 1;
  const longest = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      longest[i * width + j] =
        a[i] === b[j] ? longest[(i + 1) * width + j + 1] + 1 : Math.max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
    }
  }
  const lines = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      lines.push(` ${a[i]}`);
      i += 1;
      j += 1;
    } else if (i < a.length && (j >= b.length || longest[(i + 1) * width + j] >= longest[i * width + j + 1])) {
      lines.push(`-${a[i]}`);
      i += 1;
    } else {
      lines.push(`+${b[j]}`);
      j += 1;
    }
  }
  return lines;
}

const SIDES = [
  ["old_string", "new_string"],
  ["oldText", "newText"],
  ["old_text", "new_text"],
  ["old_str", "new_str"],
];

/** The diffs in a tool's input: [{path, text}]. */
export function editsOf(input) {
  if (!input || typeof input !== "object") return [];
  const found = [];
  const path = input.file_path ?? input.path ?? input.filePath ?? null;
  for (const part of [input, ...list(input.edits), ...list(input.content), ...list(input.changes)]) {
    if (!part || typeof part !== "object") continue;
    for (const [before, after] of SIDES) {
      if (typeof part[after] === "string" && (typeof part[before] === "string" || part[before] === null)) {
        found.push({ path: part.path ?? path, text: edit(part[before] ?? "", part[after]) });
      }
    }
    for (const name of ["diff", "patch", "unified_diff"]) {
      if (typeof part[name] === "string" && isDiff(part[name])) found.push({ path: part.path ?? path, text: part[name] });
    }
  }
  return found;
}

const list = (value) => (Array.isArray(value) ? value : []);
