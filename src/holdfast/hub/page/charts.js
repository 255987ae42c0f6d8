// Charts, drawn: each part of them is a link to what it counts.
import { h, s } from "./dom.js";
import { count } from "./time.js";

export const OUTCOMES = ["succeeded", "failed", "cancelled", "interrupted"];

/** Columns by day, stacked by outcome; `to(day, outcome)` is where a part leads. */
export function columns(days, to) {
  const width = 720;
  const height = 170;
  const base = height - 22;
  const step = width / Math.max(1, days.length);
  const tallest = Math.max(4, ...days.map((day) => OUTCOMES.reduce((sum, name) => sum + (day[name] ?? 0), 0)));
  const parts = [];
  for (const [share, label] of [[1, tallest], [0.5, tallest / 2]]) {
    const y = base - (base - 14) * share;
    parts.push(s("line", { class: "grid", x1: 0, x2: width, y1: y, y2: y }));
    if (Number.isInteger(label)) parts.push(s("text", { class: "tick", x: 0, y: y - 4 }, count(label)));
  }
  parts.push(s("line", { class: "base", x1: 0, x2: width, y1: base, y2: base }));
  days.forEach((day, index) => {
    let y = base;
    for (const name of OUTCOMES) {
      const number = day[name] ?? 0;
      if (!number) continue;
      const tall = Math.max(3, ((base - 14) * number) / tallest);
      y -= tall;
      parts.push(
        s(
          "a",
          { href: to(day.day, name), "aria-label": `${day.day}: ${count(number)} ${name}` },
          s("rect", { class: `fill-${name}`, x: index * step + step * 0.18, y, width: step * 0.64, height: Math.max(1, tall - 1), rx: 2 }, s("title", null, `${day.day}: ${count(number)} ${name}`)),
        ),
      );
    }
    const every = Math.ceil(days.length / 7);
    if ((days.length - 1 - index) % every === 0) parts.push(s("text", { class: "tick day", x: index * step + step / 2, y: height - 5, "text-anchor": "middle" }, short(day.day)));
  });
  return h("div", { class: "chart" }, s("svg", { viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Tasks by outcome over days" }, parts));
}

function short(day) {
  return new Date(`${day}T12:00:00`).toLocaleDateString(undefined, { day: "numeric", month: "short" });
}

/** A ring in parts [{name, label, number, href}]. */
export function ring(parts, label) {
  const whole = parts.reduce((sum, part) => sum + part.number, 0);
  const radius = 42;
  const around = 2 * Math.PI * radius;
  let at = 0;
  const arcs = parts.filter((part) => part.number).map((part) => {
    const share = part.number / whole;
    const arc = s("circle", { class: `stroke-${part.name}`, cx: 60, cy: 60, r: radius, "stroke-dasharray": `${Math.max(1, share * around - (share < 1 ? 2 : 0))} ${around}`, "stroke-dashoffset": -at * around, transform: "rotate(-90 60 60)" });
    at += share;
    return arc;
  });
  return h(
    "div",
    { class: "ring" },
    s("svg", { viewBox: "0 0 120 120", role: "img", "aria-label": `${label}: ${parts.map((part) => `${part.number} ${part.label}`).join(", ")}` }, s("circle", { class: "empty", cx: 60, cy: 60, r: radius }), arcs, s("text", { x: 60, y: 66, "text-anchor": "middle", class: "whole" }, count(whole))),
    h("ul", { class: "ring-key" }, parts.map((part) => h("li", null, h("a", { href: part.href }, h("span", { class: `swatch fill-${part.name}`, "aria-hidden": "true" }), h("b", null, count(part.number)), ` ${part.label}`)))),
  );
}

/** Bars, one a row: [{label, number, extra, href}]. */
export function bars(rows) {
  const most = Math.max(1, ...rows.map((row) => row.number));
  return h(
    "ul",
    { class: "bars" },
    rows.map((row) =>
      h("li", null, h("a", { href: row.href }, h("span", { class: "bar-name" }, row.label), h("span", { class: "bar-track", "aria-hidden": "true" }, h("span", { class: "bar-fill", style: { width: `${(100 * row.number) / most}%` } })), h("span", { class: "bar-number" }, count(row.number), row.extra ? h("small", null, ` ${row.extra}`) : null))),
    ),
  );
}
