// One session: its header, what runs, its strip, its timeline, and the composer.
import * as api from "./api.js";
import { activity } from "./activity.js";
import { Composer } from "./composer.js";
import { h, iconButton, put } from "./dom.js";
import { OpenTasks, stopTask, taskName } from "./open-tasks.js";
import { OutcomeCard } from "./outcome-card.js";
import { askingCard } from "./permission-card.js";
import { awayCard, sessionActions } from "./session-actions.js";
import { queueText, statusOf, statusWord } from "./status.js";
import { ENDED, waiting } from "./timeline-items.js";
import { Log } from "./session-log.js";
import { menu } from "./popover.js";
import { announce, quietly } from "./notify.js";
import { Strip } from "./timeline-strip.js";
import { Timeline } from "./timeline.js";
import { Tokens } from "./tokens.js";
import { chip, show, verdictOf } from "./verdict.js";
import { ago, full, many, totalUsage, usageText } from "./time.js";
import { go } from "./route.js";

const VERDICT_MS = 4000; // a verdict also hangs on processes, which no record tells of
const HOUR_MS = 3_600_000;
const before = (stamp) => new Date(Date.parse(stamp) - HOUR_MS).toISOString().replace("Z", "000Z"); // a killed hub's last sign may be older

/** The view of one session. */
export class SessionView {
  #timers = [];
  #drawn = 0;
  #statuses = new Map();
  #asks = [];
  #closed = false;
  #judged = null; // the latest verdict

  constructor(id, stream, seq = null) {
    this.id = id;
    this.stream = stream;
    this.seq = seq;
    this.element = h("div", { class: "session-view" }, h("p", { class: "loading" }, "Loading…"));
    this.heard = [
      ["event", (message) => this.#event(message.detail)],
      ["partial", (message) => message.detail.session === this.id && this.timeline?.partial(message.detail)],
      ["gap", () => document.dispatchEvent(new CustomEvent("reload"))],
      ["state", (message) => this.#line(message.detail)],
    ];
    this.changed = () => this.session && this.#head();
  }

  async open() {
    const { session, tokens } = await api.session(this.id);
    if (this.#closed) return;
    this.id = session.id;
    this.session = session;
    this.tokens = tokens;
    this.log = new Log(this.id);
    this.timeline = new Timeline(this.log, (task) => task !== null && !ENDED.has(this.#statuses.get(task)));
    this.strip = new Strip((at, time) => (at === null ? this.timeline.toTime(time) : this.timeline.toSeq(at)));
    this.composer = new Composer(this.id, (told) => this.#went(told));
    this.openTasks = new OpenTasks();
    this.outcome = new OutcomeCard(this.id, { sent: (told) => this.#went(told), changed: () => this.#again(), composer: this.composer });
    this.chip = chip(null, "this session");
    this.head = h("header", { class: "session-head" });
    this.banner = h("div", { class: "permission-bar", hidden: true });
    this.finder = this.#finder();
    put(this.element, this.head, this.openTasks.element, this.strip.element, this.timeline.element, this.banner, this.outcome.element, this.composer.element);
    this.composer.chips.append(this.chip);
    this.#head();
    for (const [name, heard] of this.heard) this.stream.addEventListener(name, heard);
    activity.addEventListener("change", this.changed);
    for (const said of this.stream.saying(this.id)) this.timeline.partial(said);
    this.log.addEventListener("change", () => this.#changed());
    this.timeline.addEventListener("view", () => (this.strip.view = this.timeline.span));
    this.#timers.push(setInterval(() => this.#verdict(), VERDICT_MS));
    this.#verdict();
    this.#uptime();
    const opened = this.log.open(session.events);
    if (this.seq) this.log.addEventListener("change", () => this.log.whole && this.timeline && setTimeout(() => this.seq && (this.timeline.toSeq(this.seq), (this.seq = null)), 60));
    await opened;
  }

  close() {
    this.#closed = true;
    for (const [name, heard] of this.heard) this.stream.removeEventListener(name, heard);
    activity.removeEventListener("change", this.changed);
    this.#timers.forEach(clearInterval);
    clearTimeout(this.#drawn);
    this.log?.close();
    this.timeline?.close();
    this.strip?.close();
  }

  #event({ session, event }) {
    if (session !== this.id) return;
    this.log.take(event);
    this.timeline.whole(event);
    if (event.kind === "task" || event.kind === "session" || event.kind === "token") this.#again();
    if (event.kind === "task" && ENDED.has(event.body.status)) announce(`Run ${event.body.status}`);
    if (event.kind === "permission" && !event.body.answer) announce(`${event.body.name ?? "A tool"} asks for permission`);
  }

  #line(state) {
    if (state === "live") {
      this.log?.forward().catch(quietly);
      this.#again();
      this.#uptime();
    } else {
      this.timeline?.clearPartials();
    }
  }

  // When a hub was up, for the strip; one that has just started may not answer yet.
  async #uptime() {
    try {
      const { lives } = await api.lives(before(this.session.created_at));
      if (this.#closed) return;
      this.strip.lives = lives;
      this.#drawStrip();
    } catch {
      if (!this.#closed && this.stream.state === "live") setTimeout(() => this.#closed || this.#uptime(), 1000);
    }
  }

  #changed() {
    this.#statuses.clear();
    for (const event of this.log.events) {
      if (event.kind === "task" && event.body.op === "status") this.#statuses.set(event.task, event.body.status);
      else if (event.kind === "task" && event.body.op === "claim") this.#statuses.set(event.task, "running");
    }
    clearTimeout(this.#drawn);
    this.#drawn = setTimeout(() => this.#drawStrip(), 80);
    const usage = usageText(totalUsage(this.log.events));
    if (usage !== this.usage) {
      this.usage = usage;
      this.#head();
    }
    this.#ask();
  }

  #drawStrip() {
    this.strip.set(this.log.events);
    this.strip.element.toggleAttribute("data-whole", this.log.whole);
    clearTimeout(this.#drawn);
    if ([...this.#statuses.values()].includes("running")) this.#drawn = setTimeout(() => this.#drawStrip(), 1000);
  }

  #ask() {
    this.#asks = waiting(this.log.events);
    this.banner.hidden = !this.#asks.length;
    const key = this.#asks.map((ask) => ask.seq).join();
    if (this.banner.dataset.asks === key) return;
    this.banner.dataset.asks = key;
    put(this.banner, this.#asks.slice(0, 3).map((event) => askingCard({ ...event.body, task: event.task })));
  }

  async #verdict(mark = `${this.session.events}/${Date.now()}`) {
    if (document.hidden) return;
    const verdict = await verdictOf(this.id, mark);
    if (this.#closed || !verdict) return;
    this.#judged = verdict;
    show(this.chip, verdict, "this session");
    this.composer.verdict = verdict;
    this.outcome.show(this.session, this.pending, verdict);
  }

  async #again() {
    clearTimeout(this.again);
    this.again = setTimeout(async () => {
      try {
        const { session, tokens } = await api.session(this.id);
        if (this.#closed) return;
        [this.session, this.tokens] = [session, tokens];
        this.tokensDialog?.show(session, tokens);
        this.#head();
        this.#verdict();
      } catch (problem) {
        quietly(problem);
      }
    }, 150);
  }

  #went({ session }) {
    const id = typeof session === "string" ? session : session?.id;
    if (id && id !== this.id) go(`/s/${id}`);
    else this.timeline.end();
  }

  #finder() {
    const told = h("span", { class: "found", role: "status" });
    const field = h("input", {
      type: "search",
      placeholder: "Find in session",
      "aria-label": "Find in session",
      onkeydown: (event) => event.key === "Enter" && (event.preventDefault(), put(told, this.timeline.find(field.value.trim(), event.shiftKey ? 1 : -1))),
      oninput: () => put(told),
    });
    return h("div", { class: "finder" }, field, told);
  }

  focusFind() {
    this.finder.querySelector("input").focus();
  }

  /** The oldest permission that this session waits for. */
  get asking() {
    const first = this.#asks[0];
    return first ? { ...first.body, task: first.task } : null;
  }

  /** The tasks of this session that have not ended. */
  get pending() {
    return activity.open(this.id);
  }

  /** What stops a task of this session, for the palette: each names its task. */
  stops() {
    return this.pending.map((task) => ({ label: `${task.status === "running" ? "Stop" : "Remove from the queue"}: ${taskName(task, 60)}`, hint: "this session", danger: true, run: () => stopTask(task) }));
  }

  actions() {
    return sessionActions(this.session, () => this.#tokens(), () => this.#again());
  }

  #head() {
    const { session } = this;
    const open = this.pending;
    const status = statusOf(session, open, activity.asks(this.id));
    const queue = queueText(open);
    activity.place = `${session.title ?? session.id} · Holdfast`;
    const facts = [
      h("span", { class: "agent" }, session.agent),
      session.key ? h("code", { class: "key", title: "key" }, session.key) : null,
      h("span", { class: `status ${status}` }, statusWord(status)),
      queue ? h("span", { class: "queue" }, queue) : null,
      h("span", { title: full(session.updated_at) }, ago(session.updated_at)),
      this.usage ? h("span", { class: "usage" }, this.usage) : null,
      h("span", null, many(session.events, "record")),
      session.cwd ? h("bdi", { class: "path", title: session.cwd }, session.cwd) : null,
      session.worktree ? h("span", { title: session.worktree.path }, `worktree ${session.worktree.branch}`) : null,
      this.#token(),
      session.link ? h("a", { href: `#/s/${session.link.session}` }, `${session.link.relation} from ${session.link.session.slice(0, 8)}`) : null,
    ];
    put(
      this.head,
      h("div", { class: "title-row" }, h("h1", { tabindex: "-1" }, h("bdi", null, session.title ?? session.id)), this.finder, iconButton("more", "More actions", (event) => menu(event.currentTarget, this.actions(), "Session actions"), { "aria-haspopup": "menu" })),
      h("p", { class: "facts" }, facts),
      session.state === "live" ? null : awayCard(session, this.composer, () => this.#again()),
    );
    this.openTasks.show(open, activity.asks(this.id));
    this.composer.element.hidden = session.state === "deleted";
    this.composer.state = { running: open.some((task) => task.status === "running" || task.status === "unreachable"), archived: session.state === "archived" };
    if (this.#judged) this.outcome.show(session, open, this.#judged);
  }

  #token() {
    const own = this.tokens.filter((token) => token.agent === this.session.agent);
    const last = own.find((token) => token.status === "current") ?? own.at(-1);
    const words = !last ? "no token" : last.status === "current" ? `token ${last.native_id.slice(0, 8)}` : `token ${last.status}`;
    return h("button", { type: "button", class: `token ${last?.status ?? ""}`, title: last ? last.native_id : "The agent has not named its id yet", onclick: () => this.#tokens() }, words);
  }

  #tokens() {
    this.tokensDialog = new Tokens(this.session, this.tokens, () => this.#again());
  }
}
