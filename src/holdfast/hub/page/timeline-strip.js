// The flight recorder: a session's night on one strip. Hover tells, click and Enter jump.
import { h, put } from "./dom.js";
import { downs, flight, scale } from "./timeline-scale.js";
import { clock, lasting, many } from "./time.js";

const HEIGHT = 74;
const LANES = { run: [6, 16], tool: [26, 14], wait: [44, 8] };
const AXIS = 58;
const NAMES = { ok: "ok", error: "failed", interrupted: "interrupted", running: "running" };

/** Draws a log; `jump(seq)` is called with the record that was chosen. */
export class Strip {
  #marks = [];
  #downs = [];
  #lives = [];
  #told = null;
  #scale = null;
  #chosen = -1;
  #view = null;
  #frame = 0;

  constructor(jump) {
    this.jump = jump;
    this.canvas = h("canvas", { height: HEIGHT, "aria-hidden": "true" });
    this.tip = h("div", { class: "tip", hidden: true });
    this.probe = h("span", { hidden: true });
    this.legend = h("ul", { class: "legend", "aria-label": "Legend" });
    this.plate = h(
      "div",
      {
        class: "plate",
        role: "slider",
        tabindex: "0",
        "aria-label": "Flight recorder: arrows go from mark to mark, Enter jumps there",
        "aria-valuemin": "0",
        "aria-valuemax": "0",
        "aria-valuenow": "0",
        "aria-valuetext": "nothing yet",
        onmousemove: (event) => this.#hover(event),
        onmouseleave: () => this.#leave(),
        onclick: (event) => this.#click(event),
        onkeydown: (event) => this.#key(event),
        onblur: () => this.#leave(),
      },
      this.canvas,
    );
    this.element = h("section", { class: "strip", "aria-label": "Flight recorder" }, this.plate, this.tip, this.legend, this.probe);
    this.sizes = new ResizeObserver(() => this.draw());
    this.sizes.observe(this.plate);
    this.dark = matchMedia("(prefers-color-scheme: dark)");
    this.repaint = () => this.draw();
    this.dark.addEventListener("change", this.repaint);
    document.addEventListener("themechange", this.repaint);
  }

  close() {
    this.sizes.disconnect();
    this.dark.removeEventListener("change", this.repaint);
    document.removeEventListener("themechange", this.repaint);
    cancelAnimationFrame(this.#frame);
  }

  set lives(lives) {
    this.#lives = lives;
  }

  /** Reload the log. */
  set(events, now = Date.now()) {
    const told = flight(events, now);
    const ends = [...told.runs, ...told.tools, ...told.waits, ...told.replays].flatMap((span) => [span.from, span.to]);
    const open = told.runs.some((run) => run.status === "running");
    const from = least(ends, Date.parse(events[0]?.at) || now);
    const to = Math.max(open ? now : 0, most(ends, from + 1));
    this.#told = told;
    this.#downs = downs(this.#lives, from, to, told.takeovers);
    this.#scale = scale(told, from, to);
    this.#marks = this.#listed();
    this.#legend();
    this.plate.setAttribute("aria-valuemax", Math.max(0, this.#marks.length - 1));
    this.#say();
    this.draw();
  }

  /** Which time the timeline shows. */
  set view(span) {
    this.#view = span;
    this.draw();
  }

  #listed() {
    const { runs, tools, waits, deaths, replays } = this.#told;
    const marks = [
      ...replays.map((r) => ({ ...r, lane: null, text: `Replayed from session ${r.origin ?? "before"}: ${many(r.count, "record")}` })),
      ...runs.map((r) => ({ ...r, lane: "run", text: `Run ${r.status}, ${lasting(r.to - r.from)}` })),
      ...tools.map((t) => ({ ...t, lane: "tool", text: `${t.name ?? "tool"} ${NAMES[t.outcome] ?? t.outcome}, ${lasting(t.to - t.from)}` })),
      ...waits.map((w) => ({ ...w, lane: "wait", text: `Waited ${lasting(w.to - w.from)} for permission: ${w.name ?? ""} ${w.answer ?? "no answer"}` })),
      ...this.#downs.map((d) => ({ ...d, lane: "down", text: `Hub ${d.why === "stopped" ? "stopped" : "was down"} for ${lasting(d.ended - d.began)}` })),
      ...deaths.map((d) => ({ ...d, from: d.at, to: d.at, lane: "death", text: `The agent died: ${d.reason || "no final word"}` })),
    ];
    return marks.sort((a, b) => a.from - b.from);
  }

  #legend() {
    const { runs, tools, waits, deaths, replays } = this.#told;
    const cut = tools.filter((tool) => tool.outcome === "interrupted").length;
    const entries = [
      ["run", many(runs.length, "run"), runs.length],
      ["tool", many(tools.length, "tool call"), tools.length],
      ["cut", `${cut} cut off`, cut],
      ["wait", many(waits.length, "permission wait"), waits.length],
      ["death", many(deaths.length, "death"), deaths.length],
      ["down", `hub down ${lasting(this.#downs.reduce((sum, d) => sum + d.to - d.from, 0))}`, this.#downs.length],
      ["replayed", `${many(replays.reduce((sum, r) => sum + r.count, 0), "record")} replayed`, replays.length],
    ];
    put(this.legend, entries.filter((entry) => entry[2]).map(([kind, text]) => h("li", { class: `key-${kind}` }, kind === "run" ? swatches(runs) : null, text)));
  }

  draw() {
    cancelAnimationFrame(this.#frame);
    this.#frame = requestAnimationFrame(() => this.#paint());
  }

  #paint() {
    const width = this.plate.clientWidth;
    if (!width || !this.#scale) return;
    const ratio = devicePixelRatio || 1;
    this.canvas.width = width * ratio;
    this.canvas.height = HEIGHT * ratio;
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${HEIGHT}px`;
    const pen = this.canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const color = (name) => this.#color(name);
    const x = (at) => this.#scale.x(at) * (width - 2) + 1;
    this.#ground(pen, x, width, color);
    const colors = new Map();
    const once = (name) => colors.get(name) ?? colors.set(name, color(name)).get(name);
    for (const run of this.#told.runs) bar(pen, x, run, LANES.run, once(`run-${run.status}`), 4);
    for (const tool of this.#told.tools) bar(pen, x, tool, LANES.tool, once(tool.replayed ? "replayed-tool" : `tool-${tool.outcome}`), 2);
    for (const wait of this.#told.waits) bar(pen, x, wait, LANES.wait, color("wait"), 2);
    for (const down of this.#downs) this.#hatched(pen, x(down.from), Math.max(3, x(down.to) - x(down.from)), color("down"));
    if (this.#view) {
      const left = x(this.#view[0]);
      const wide = Math.max(3, x(this.#view[1]) - left + 2);
      pen.fillStyle = color("view");
      if (wide < width * 0.97) pen.fillRect(left - 1, 0, wide, AXIS - 2);
    }
    for (const death of this.#told.deaths) cross(pen, Math.min(x(death.at), width - 9), color("death"), color("paper"));
    if (this.#chosen >= 0 && this.#marks[this.#chosen]) {
      const mark = this.#marks[this.#chosen];
      pen.strokeStyle = color("ink");
      pen.lineWidth = 1.5;
      pen.strokeRect(x(mark.from) - 2, 2, Math.max(4, x(mark.to) - x(mark.from) + 4), AXIS - 4);
    }
  }

  // A canvas knows no custom properties: an element is asked what the color comes to.
  #color(name) {
    this.probe.style.color = `var(--strip-${name})`;
    return getComputedStyle(this.probe).color;
  }

  #ground(pen, x, width, color) {
    for (const replay of this.#told.replays) {
      const [left, wide] = [x(replay.from), Math.max(3, x(replay.to) - x(replay.from))];
      pen.fillStyle = color("replayed");
      pen.fillRect(left, 0, wide, AXIS - 2);
      pen.fillStyle = color("replayed-tool");
      pen.fillRect(left, 0, wide, 2);
      pen.fillRect(left, AXIS - 4, wide, 2);
      pen.font = "11px system-ui, sans-serif";
      if (wide > pen.measureText("replayed").width + 8) pen.fillText("replayed", left + 4, AXIS - 8);
    }
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "alphabetic";
    let free = 0;
    for (const piece of this.#scale.pieces) {
      if (piece.folded) {
        pen.fillStyle = color("pause");
        pen.fillRect(x(piece.from), LANES.run[0], x(piece.to) - x(piece.from), AXIS - LANES.run[0] - 6);
      }
    }
    pen.fillStyle = color("text");
    const stops = this.#scale.pieces.length ? this.#stops(width) : [];
    for (const [at, text] of stops) {
      const wide = pen.measureText(text).width;
      const left = Math.min(Math.max(0, x(at)), width - wide - 1);
      if (left < free) continue;
      pen.fillRect(Math.round(x(at)), AXIS - 1, 1, 4);
      pen.fillText(text, left, HEIGHT - 3);
      free = left + wide + 14;
    }
  }

  // A stop at the start of each busy stretch, then as many between as there is room for.
  #stops(width) {
    const busy = this.#scale.pieces.filter((piece) => !piece.idle || !piece.folded);
    const stops = busy.map((piece) => piece.from);
    const steps = Math.floor(width / 170);
    for (let i = 0; i <= steps; i += 1) stops.push(this.#scale.at(i / Math.max(1, steps)));
    const told = stops.sort((a, b) => a - b).map((at) => [at, clock(at)]);
    return told.filter(([, text], index) => index === 0 || text !== told[index - 1][1]);
  }

  #hatched(pen, left, width, color) {
    pen.save();
    pen.beginPath();
    pen.rect(left, 0, width, AXIS - 2);
    pen.clip();
    pen.fillStyle = color;
    pen.globalAlpha = 0.16;
    pen.fillRect(left, 0, width, AXIS);
    pen.globalAlpha = 0.75;
    pen.strokeStyle = color;
    pen.lineWidth = 1.5;
    for (let at = left - AXIS; at < left + width; at += 7) {
      pen.beginPath();
      pen.moveTo(at, AXIS);
      pen.lineTo(at + AXIS, 0);
      pen.stroke();
    }
    pen.restore();
  }

  #near(event) {
    const box = this.plate.getBoundingClientRect();
    const px = event.clientX - box.left;
    const y = event.clientY - box.top;
    const x = (at) => this.#scale.x(at) * (box.width - 2) + 1;
    let best = -1;
    let least = Infinity;
    this.#marks.forEach((mark, index) => {
      const lane = LANES[mark.lane];
      const off = lane ? (y < lane[0] - 2 ? lane[0] - y : y > lane[0] + lane[1] + 2 ? y - lane[0] - lane[1] : 0) : mark.lane ? 0 : 9;
      const left = mark.lane === "death" ? Math.min(x(mark.from), box.width - 9) : x(mark.from);
      const right = Math.max(x(mark.to), left + 3);
      const side = px < left ? left - px : px > right ? px - right : 0;
      const far = side * 2 + off - (mark.lane === "death" && side < 9 ? 40 : 0);
      if (far < least && side < 24) [least, best] = [far, index];
    });
    return best;
  }

  #hover(event) {
    if (!this.#scale) return;
    this.#choose(this.#near(event), event.clientX - this.plate.getBoundingClientRect().left);
  }

  #choose(index, at = null) {
    const mark = this.#marks[index];
    if (this.#chosen !== index) {
      this.#chosen = index;
      this.draw();
    }
    this.tip.hidden = !mark;
    if (!mark) return;
    put(this.tip, h("strong", null, mark.text), h("span", null, `${clock(mark.from)}${mark.to > mark.from ? ` – ${clock(mark.to)}` : ""}`));
    const width = this.plate.clientWidth;
    const x = at ?? this.#scale.x(mark.from) * width;
    this.tip.style.left = `${Math.max(0, Math.min(x - 20, width - this.tip.offsetWidth))}px`;
    this.#say();
  }

  #say() {
    const mark = this.#marks[this.#chosen];
    this.plate.setAttribute("aria-valuenow", Math.max(0, this.#chosen));
    this.plate.setAttribute("aria-valuetext", mark ? `${mark.text}, ${clock(mark.from)}` : many(this.#marks.length, "mark"));
  }

  #leave() {
    this.#choose(-1);
  }

  #click(event) {
    if (!this.#scale) return;
    const mark = this.#marks[this.#near(event)];
    const box = this.plate.getBoundingClientRect();
    const at = mark?.seq === undefined ? this.#scale.at((event.clientX - box.left) / box.width) : null;
    this.jump(mark?.seq ?? null, mark && mark.lane === "down" ? mark.to : at);
  }

  #key(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowUp: 1, ArrowDown: -1, PageDown: 10, PageUp: -10 }[event.key];
    if (step) this.#choose(Math.max(0, Math.min(this.#marks.length - 1, this.#chosen + step)));
    else if (event.key === "Home") this.#choose(0);
    else if (event.key === "End") this.#choose(this.#marks.length - 1);
    else if (event.key === "Enter" && this.#marks[this.#chosen]) {
      const mark = this.#marks[this.#chosen];
      this.jump(mark.seq ?? null, mark.to);
    } else return;
    event.preventDefault();
  }
}

// A run's color tells how it ended: one swatch for each way there is.
const swatches = (runs) => [...new Set(runs.map((run) => run.status))].map((status) => h("i", { style: { background: `var(--strip-run-${status})` }, title: status }));

const least = (numbers, start) => numbers.reduce((a, b) => Math.min(a, b), start);
const most = (numbers, start) => numbers.reduce((a, b) => Math.max(a, b), start);

function bar(pen, x, span, [top, height], color, radius) {
  const left = x(span.from);
  pen.fillStyle = color;
  pen.beginPath();
  pen.roundRect(left, top, Math.max(2, x(span.to) - left - 0.5), height, radius);
  pen.fill();
}

function cross(pen, at, color, paper) {
  const y = LANES.run[0] + LANES.run[1] / 2;
  const left = Math.max(8, at);
  pen.lineWidth = 1.5;
  pen.strokeStyle = color;
  pen.beginPath();
  pen.moveTo(left, 0);
  pen.lineTo(left, AXIS - 2);
  pen.stroke();
  pen.fillStyle = color;
  pen.beginPath();
  pen.arc(left, y, 7.5, 0, Math.PI * 2);
  pen.fill();
  pen.strokeStyle = paper;
  pen.lineWidth = 1.5;
  pen.stroke();
  pen.lineWidth = 2;
  pen.beginPath();
  for (const [dx, dy] of [[-1, -1], [-1, 1]]) {
    pen.moveTo(left + dx * 3, y + dy * 3);
    pen.lineTo(left - dx * 3, y - dy * 3);
  }
  pen.stroke();
}
