// One session: its header, its strip, its timeline, and the form to go on.
import * as api from "./api.js";
import { asked } from "./permissions.js";
import { h, icon, iconButton, put } from "./dom.js";
import { GoOn } from "./resume-form.js";
import { ENDED, waiting } from "./timeline-items.js";
import { Log } from "./session-log.js";
import { menu } from "./popover.js";
import { announce, quietly, toast, trouble } from "./notify.js";
import { Strip } from "./timeline-strip.js";
import { Timeline } from "./timeline.js";
import { Tokens } from "./tokens.js";
import { chip, show, verdictOf } from "./verdict.js";
import { ago, count, full, many } from "./time.js";
import { go } from "./route.js";
import { ask } from "./dialog.js";

const VERDICT_MS = 4000; // a verdict also hangs on processes, which no record tells of
const HOUR_MS = 3_600_000;
const before = (stamp) => new Date(Date.parse(stamp) - HOUR_MS).toISOString().replace("Z", "000Z"); // a killed hub's last sign may be older
const ACTIVE = new Set(["queued", "waiting", "running", "unreachable"]);

/** The view of one session. */
export class SessionView {
  #timers = [];
  #drawn = 0;
  #statuses = new Map();
  #asks = [];
  #closed = false;

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
    this.goOn = new GoOn(this.id, (told) => this.#went(told));
    this.chip = chip(null, "this session");
    this.head = h("header", { class: "session-head" });
    this.banner = h("div", { class: "permission-bar", hidden: true });
    this.finder = this.#finder();
    put(this.element, this.head, this.strip.element, this.timeline.element, this.banner, this.goOn.element);
    this.goOn.chips.append(this.chip);
    this.#head();
    for (const [name, heard] of this.heard) this.stream.addEventListener(name, heard);
    for (const said of this.stream.saying(this.id)) this.timeline.partial(said);
    this.log.addEventListener("change", () => this.#changed());
    this.timeline.addEventListener("view", () => (this.strip.view = this.timeline.span));
    this.#timers.push(setInterval(() => this.#verdict(), VERDICT_MS));
    this.#verdict();
    api.lives(before(session.created_at)).then(({ lives }) => (this.strip.lives = lives), () => null);
    const opened = this.log.open(session.events);
    if (this.seq) this.log.addEventListener("change", () => this.log.whole && this.timeline && setTimeout(() => this.seq && (this.timeline.toSeq(this.seq), (this.seq = null)), 60));
    await opened;
  }

  close() {
    this.#closed = true;
    for (const [name, heard] of this.heard) this.stream.removeEventListener(name, heard);
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
      api.lives(before(this.session.created_at)).then(({ lives }) => ((this.strip.lives = lives), this.#drawStrip()), () => null);
    } else {
      this.timeline?.clearPartials();
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
    put(this.banner, this.#asks.slice(0, 3).map((event) => this.timeline.asking({ ...event.body, task: event.task })));
  }

  async #verdict(mark = `${this.session.events}/${Date.now()}`) {
    if (document.hidden) return;
    const verdict = await verdictOf(this.id, mark);
    if (this.#closed || !verdict) return;
    show(this.chip, verdict, "this session");
    this.goOn.verdict = verdict;
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

  get active() {
    return ACTIVE.has(this.session?.last_status);
  }

  async cancel() {
    try {
      await api.cancel(this.session.last_task);
      announce("Asked to stop");
    } catch (problem) {
      trouble(problem);
    }
  }

  #head() {
    const { session } = this;
    asked.place = `${session.title ?? session.id} · Holdfast`;
    const facts = [
      h("span", { class: "agent" }, session.agent),
      session.key ? h("code", { class: "key", title: "key" }, session.key) : null,
      h("span", { class: `status ${session.state === "live" ? (session.last_status ?? "") : session.state}` }, session.state === "live" ? (session.last_status ?? "no task") : session.state),
      h("span", { title: full(session.updated_at) }, ago(session.updated_at)),
      h("span", null, many(session.events, "record")),
      session.cwd ? h("bdi", { class: "path", title: session.cwd }, session.cwd) : null,
      session.worktree ? h("span", { title: session.worktree.path }, `worktree ${session.worktree.branch}`) : null,
      this.#token(),
      session.link ? h("a", { href: `#/s/${session.link.session}` }, `${session.link.relation} from ${session.link.session.slice(0, 8)}`) : null,
    ];
    put(
      this.head,
      h("div", { class: "title-row" }, h("h1", { tabindex: "-1" }, h("bdi", null, session.title ?? session.id)), this.finder, this.active ? h("button", { type: "button", class: "danger", onclick: () => this.cancel() }, icon("stop"), "Cancel") : null, iconButton("more", "More actions", (event) => menu(event.currentTarget, this.actions(), "Session actions"), { "aria-haspopup": "menu" })),
      h("p", { class: "facts" }, facts),
      session.state === "live" ? null : this.#away(session),
    );
    this.goOn.element.hidden = session.state !== "live";
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

  #away(session) {
    const note = session.deletion ?? session.archive;
    const back = session.state === "deleted" ? this.#act("Restored", () => api.restore(this.id)) : this.#act("Taken out of the archive", () => api.unarchive(this.id));
    return h("p", { class: "away" }, `${session.state === "deleted" ? "Deleted" : "Archived"}${note ? ` by ${note.by}${note.reason ? `: ${note.reason}` : ""}` : ""}. `, h("button", { type: "button", onclick: back }, session.state === "deleted" ? "Restore" : "Unarchive"));
  }

  #act(words, call, undo = null) {
    return async () => {
      try {
        await call();
        toast(words, undo && { label: "Undo", run: undo });
        this.#again();
      } catch (problem) {
        trouble(problem);
      }
    };
  }

  /** What can be done with this session, for its menu and the palette. */
  actions() {
    const { session, id } = this;
    const live = session.state === "live";
    return [
      { label: "Rename…", run: () => this.#rename() },
      live ? { label: "Trust…", run: () => this.#trust() } : null,
      { label: "Tokens…", run: () => this.#tokens() },
      live ? { label: "Archive", run: this.#act("Archived", () => api.archive(id, "from the page"), this.#act("Taken out of the archive", () => api.unarchive(id))) } : null,
      session.state === "archived" ? { label: "Unarchive", run: this.#act("Taken out of the archive", () => api.unarchive(id)) } : null,
      session.state === "deleted" ? { label: "Restore", run: this.#act("Restored", () => api.restore(id)) } : null,
      { label: `Copy id ${id.slice(0, 8)}`, run: () => navigator.clipboard?.writeText(id) },
      { label: "Facts…", run: () => this.#facts() },
      session.state === "deleted" ? null : { label: "Delete", danger: true, run: this.#act("Deleted", () => api.remove(id, "from the page"), this.#act("Restored", () => api.restore(id))) },
    ].filter(Boolean);
  }

  async #rename() {
    const title = await ask("Rename", "Title", this.session.title ?? "", "Rename");
    if (title) this.#act("Renamed", () => api.rename(this.id, this.session.version, title))();
  }

  async #trust() {
    const reason = await ask("Trust this session", "Why is it safe to resume?", "", "Trust");
    if (reason) this.#act("Trusted", () => api.trust(this.id, reason))();
  }

  #facts() {
    ask("Facts", null, null, "Close", [
      h("dl", null, [["Id", this.id], ["Created", full(this.session.created_at)], ["Node", this.session.host ?? ""], ["Folder", this.session.cwd ?? ""], ["Records", count(this.session.events)], ["Metadata version", `${this.session.version}`]].flatMap(([name, value]) => [h("dt", null, name), h("dd", null, value)])),
      h("pre", { tabindex: "0" }, JSON.stringify(this.session.metadata ?? this.session.metadata_problem, null, 2)),
    ]);
  }
}
