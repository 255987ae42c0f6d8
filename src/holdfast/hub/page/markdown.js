// Markdown to elements. What is not understood stays text; nothing is ever parsed as HTML.
import { h } from "./dom.js";
import { diffLines } from "./diff.js";

const DEPTH = 8; // of quotes and lists within each other
const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]*)(?:\s[^`]{0,200})?$/;
const HEADING = /^ {0,3}(#{1,6})\s([^]*)$/; // what ends in [^]*$ never goes back, so no line takes long
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const ITEM = /^( {0,7})([-*+]|\d{1,9}[.)])(\s+)([^]*)$/;
const QUOTE = /^ {0,3}> ?(.*)$/;
const TABLE_RULE_CELL = /^:?-+:?$/;

/** A message as a fragment of elements. */
export function markdown(text) {
  const into = document.createDocumentFragment();
  blocks(text.replace(/\r\n?/g, "\n").split("\n"), into, 0);
  return into;
}

function blocks(lines, into, depth) {
  let at = 0;
  while (at < lines.length) {
    const taken = depth < DEPTH ? block(lines, at, into, depth) : 0;
    at += taken || paragraph(lines, at, into, depth);
  }
}

function block(lines, at, into, depth) {
  const line = lines[at];
  if (!line.trim()) return 1;
  let found;
  if ((found = FENCE.exec(line))) return fenced(lines, at, found, into);
  if ((found = HEADING.exec(line))) {
    into.append(h("p", { class: `heading h${found[1].length}`, role: "heading", "aria-level": "3" }, inline(headingText(found[2]))));
    return 1;
  }
  if (RULE.test(line)) {
    into.append(h("hr"));
    return 1;
  }
  if (QUOTE.test(line)) return quote(lines, at, into, depth);
  if (ITEM.test(line)) return list(lines, at, into, depth);
  if (line.includes("|") && at + 1 < lines.length && lines[at + 1].includes("-") && isTableRule(lines[at + 1])) {
    return table(lines, at, into);
  }
  return 0;
}

/** Without the #s that may close it. */
function headingText(text) {
  const trimmed = text.trim();
  let end = trimmed.length;
  while (trimmed[end - 1] === "#") end -= 1;
  return trimmed.slice(0, end).trimEnd();
}

const isTableRule = (line) => cells(line).every((cell) => TABLE_RULE_CELL.test(cell));

function fenced(lines, at, opening, into) {
  const [, fence, language] = opening;
  const closing = new RegExp(`^ {0,3}${fence[0]}{${fence.length},}\\s*$`);
  let end = at + 1;
  while (end < lines.length && !closing.test(lines[end])) end += 1;
  into.append(code(lines.slice(at + 1, end).join("\n"), language));
  return end - at + 1;
}

/** A block of code, a diff in colors. */
export function code(text, language = "") {
  const isDiff = /^(diff|patch)$/.test(language);
  const inside = isDiff ? diffLines(text) : text;
  return h("pre", { class: isDiff ? "code diff" : "code", tabindex: "0", "data-language": language || null }, h("code", null, inside));
}

function quote(lines, at, into, depth) {
  const inner = [];
  let end = at;
  for (let found; end < lines.length && (found = QUOTE.exec(lines[end])); end += 1) inner.push(found[1]);
  const element = h("blockquote");
  blocks(inner, element, depth + 1);
  into.append(element);
  return end - at;
}

function list(lines, at, into, depth) {
  const first = ITEM.exec(lines[at]);
  const ordered = /\d/.test(first[2]);
  const element = h(ordered ? "ol" : "ul", ordered && first[2] !== "1." ? { start: parseInt(first[2], 10) } : null);
  let end = at;
  while (end < lines.length) {
    const found = ITEM.exec(lines[end]);
    if (!found || found[1].length > first[1].length + 3 || /\d/.test(found[2]) !== ordered || RULE.test(lines[end])) break;
    const indent = found[1].length + found[2].length + Math.min(found[3].length, 4);
    const inner = [found[4]];
    for (end += 1; end < lines.length; end += 1) {
      const line = lines[end];
      const spaces = line.length - line.trimStart().length;
      if (line.trim() && spaces < indent && (ITEM.test(line) || !inner.at(-1).trim() || block(lines, end, h("p"), DEPTH - 1))) {
        const nested = ITEM.test(line) && spaces > found[1].length + 1;
        if (!nested) break;
      }
      inner.push(line.slice(Math.min(spaces, indent)));
    }
    element.append(item(inner, depth));
  }
  into.append(element);
  return Math.max(1, end - at);
}

function item(lines, depth) {
  const box = /^\[([ xX])\]\s+/.exec(lines[0]);
  const element = h("li", box ? { class: "todo" } : null);
  if (box) {
    lines[0] = lines[0].slice(box[0].length);
    element.append(h("span", { class: "box", role: "img", "aria-label": box[1] === " " ? "open" : "done" }, box[1] === " " ? "☐" : "☑"), " ");
  }
  while (lines.length > 1 && !lines.at(-1).trim()) lines.pop();
  blocks(lines, element, depth + 1);
  const only = element.children;
  if (only.length && only[0].tagName === "P" && !lines.some((line) => !line.trim())) {
    only[0].replaceWith(...only[0].childNodes); // a tight list has no paragraphs
  }
  return element;
}

function cells(line) {
  const inner = line.trim().replace(/^\||\|$/g, "");
  return inner.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

function table(lines, at, into) {
  const body = h("tbody");
  let end = at + 2;
  for (; end < lines.length && lines[end].includes("|"); end += 1) {
    body.append(h("tr", null, cells(lines[end]).map((cell) => h("td", null, inline(cell)))));
  }
  const head = h("thead", null, h("tr", null, cells(lines[at]).map((cell) => h("th", { scope: "col" }, inline(cell)))));
  into.append(h("div", { class: "table", tabindex: "0", role: "group", "aria-label": "table" }, h("table", null, head, body)));
  return end - at;
}

function paragraph(lines, at, into, depth) {
  let end = at + 1;
  while (end < lines.length && lines[end].trim() && !begins(lines, end, depth)) end += 1;
  into.append(h("p", { dir: "auto" }, inline(lines.slice(at, end).join("\n").trim())));
  return end - at;
}

function begins(lines, at, depth) {
  if (depth >= DEPTH) return false;
  const line = lines[at];
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) || ITEM.test(line);
}

// In the order of precedence; each is tried at the earliest place where any of them matches. Every repetition
// is bounded and starts at one place only, so that no text takes long.
const INLINE = new RegExp(
  [
    "(?<!`)(?<ticks>`{1,8})(?!`)(?<code>[^]{1,2000}?)(?<!`)\\k<ticks>(?!`)",
    "\\\\(?<escaped>[\\\\`*_{}\\[\\]()#+.!|>~-])",
    "(?<image>!?)\\[(?<label>[^\\[\\]\\n]{0,500})\\]\\((?<target>[^\\s()]{1,2000}(?:\\([^\\s()]{0,200}\\))?)(?:\\s+\"[^\"\\n]{0,300}\")?\\)",
    "<(?<angle>https?://[^\\s<>]{1,2000})>",
    "(?<![\\w/])(?<bare>https?://[^\\s<>\"'`|]{1,2000})",
    "\\*\\*(?<strong>(?=[^\\s*])[^]{1,1000}?)\\*\\*(?!\\*)",
    "(?<!\\w)__(?<strong2>(?=\\S)[^]{1,2000}?)__(?!\\w)",
    "\\*(?<em>(?=[^\\s*])[^*\\n]{1,1000}?(?<=\\S))\\*(?!\\w)",
    "(?<!\\w)_(?<em2>(?=\\S)[^_\\n]{1,1000}?)_(?!\\w)",
    "~~(?<struck>(?=\\S)[^~\\n]{1,1000}?)~~",
  ].join("|"),
);

/** The text of one line or paragraph as nodes. */
export function inline(text, depth = 0) {
  const nodes = [];
  let rest = text;
  while (rest) {
    const found = depth < DEPTH ? INLINE.exec(rest) : null;
    if (!found) break;
    if (found.index) nodes.push(rest.slice(0, found.index));
    const [node, used] = piece(found, depth);
    nodes.push(node);
    rest = rest.slice(found.index + used);
  }
  if (rest) nodes.push(rest);
  return nodes;
}

function piece(found, depth) {
  const part = found.groups;
  const used = found[0].length;
  if (part.code !== undefined) return [h("code", null, part.code.replace(/^ (.*) $/s, "$1")), used];
  if (part.escaped !== undefined) return [part.escaped, used];
  if (part.label !== undefined) return [linked(part.image ? `image: ${part.label}` : part.label, part.target, depth), used];
  if (part.angle !== undefined) return [link(part.angle, part.angle), used];
  if (part.bare !== undefined) {
    const address = part.bare.replace(/[.,;:!?*_)\]]+$/, "");
    return [link(address, address), address.length];
  }
  const strong = part.strong ?? part.strong2;
  if (strong !== undefined) return [h("strong", null, inline(strong, depth + 1)), used];
  const em = part.em ?? part.em2;
  if (em !== undefined) return [h("em", null, inline(em, depth + 1)), used];
  return [h("del", null, inline(part.struck, depth + 1)), used];
}

function linked(label, target, depth) {
  const inside = inline(label, Math.max(depth + 1, DEPTH)); // no link in a link
  return link(target, inside) ?? inside;
}

function link(target, inside) {
  let address;
  try {
    address = new URL(target);
  } catch {
    return h("span", { class: "unlinked", title: target }, inside);
  }
  if (!["http:", "https:", "mailto:"].includes(address.protocol)) return h("span", { class: "unlinked", title: target }, inside);
  return h("a", { href: address.href, target: "_blank", rel: "noopener noreferrer", title: address.href }, inside);
}
