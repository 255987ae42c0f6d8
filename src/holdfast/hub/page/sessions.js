// The sessions at the left, by project: found, filtered, kept up to date.
import * as api from "./api.js";
import { activity } from "./activity.js";
import { h, icon, put } from "./dom.js";
import { arrange } from "./projects.js";
import { queueText, statusOf, statusWord } from "./status.js";
import { chip, show, verdictOf } from "./verdict.js";
import { ago, count, full, many } from "./time.js";
import { quietly } from "./notify.js";

const PAGE = 50;
const STATES = [
  ["present", "Present"],
  ["live", "Live"],
  ["archived", "Archived"],
  ["deleted", "Deleted"],
  ["all", "All"],
];
const STATUSES = ["running", "queued", "waiting", "succeeded", "failed", "cancelled", "interrupted"];
const RUNS = new Set(["running", "queued", "waiting"]);
const NORMAL = new Set(["succeeded", "none", "archived"]); // these have no mark of their own
const FOLDED = "holdfast-folded"; // projects that a person has folded

function foldedProjects() {
  try {
    return new Set(JSON.parse(localStorage.getItem(FOLDED)) ?? []);
  } catch {
    return new Set();
  }
}

/** The list and its filters. */
export class Sessions {
  #rows = new Map(); // id -> {element, session, chip}
  #next = null;
  #loading = null;
  #later = 0;
  #chosen = null;
  #seen;
  #more;
  #paused = false;
  #shape = ""; // how the list is arranged now

  constructor() {
    this.text = h("input", { type: "search", id: "session-search", placeholder: "Search sessions", "aria-label": "Search sessions", oninput: () => this.#soon(200) });
    this.state = select("State", STATES, () => this.load());
    this.agent = select("Agent", [["", "Any agent"]], () => this.load());
    this.status = select("Last task", [["", "Any result"], ...STATUSES.map((status) => [status, status])], () => this.load());
    this.empty = h("input", { type: "checkbox", id: "show-empty", onchange: () => this.load() });
    this.list = h("div", { class: "sessions", role: "group", "aria-label": "Sessions" });
    this.folded = foldedProjects();
    this.foot = h("div", { class: "list-foot" });
    this.told = h("span", { class: "how-many", role: "status" });
    this.scroller = h("div", { class: "list-scroll", tabindex: "-1" }, this.list, this.foot);
    this.element = h(
      "div",
      { class: "sidebar-inside" },
      h(
        "div",
        { class: "filters", role: "search", "aria-label": "Filter sessions" },
        this.text,
        h("div", { class: "selects" }, this.state, this.agent, this.status),
        h("div", { class: "filter-foot" }, h("label", { class: "check", for: "show-empty" }, this.empty, "empty ones too"), this.told),
      ),
      this.scroller,
    );
    this.list.addEventListener("keydown", (event) => this.#key(event));
    this.#seen = new IntersectionObserver((entries) => this.#visible(entries), { root: this.scroller, rootMargin: "200px" });
    this.#more = new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && this.#older(), { root: this.scroller, rootMargin: "600px" });
    this.#more.observe(this.foot);
    setInterval(() => this.#ages(), 30_000);
    setInterval(() => this.#again(), 5_000);
    activity.addEventListener("change", () => this.#rows.forEach((row) => this.#ask(row)));
    document.addEventListener("verdict", ({ detail }) => {
      const row = this.#rows.get(detail.session);
      if (row) show(row.chip, detail.verdict, row.session.title ?? row.session.id);
    });
  }

  async agents() {
    const { agents } = await api.agents();
    const value = this.agent.value;
    put(this.agent, h("option", { value: "" }, "Any agent"), agents.map((agent) => h("option", { value: agent.name }, agent.title ?? agent.name)));
    this.agent.value = value;
    return agents;
  }

  /** Filter as told: {state, agent, status, text}; what is not told is any. */
  filter({ state = "present", agent = "", status = "", text = "" } = {}) {
    this.state.value = state;
    if (agent && ![...this.agent.options].some((option) => option.value === agent)) this.agent.append(h("option", { value: agent }, agent));
    this.agent.value = agent;
    this.status.value = status;
    this.text.value = text;
    return this.load();
  }

  get #filter() {
    return { state: this.state.value, agent: this.agent.value, status: this.status.value, text: this.text.value.trim(), empty: this.empty.checked, limit: PAGE };
  }

  get #narrowed() {
    const { state, agent, status, text } = this.#filter;
    return Boolean(state !== "present" || agent || status || text);
  }

  /** Read the list from its newest. */
  async load() {
    this.#loading?.abort();
    const mine = (this.#loading = new AbortController());
    try {
      const page = await api.sessions(this.#filter, mine.signal);
      this.#next = page.next;
      this.#rows.forEach((row) => this.#seen.unobserve(row.element));
      this.#rows.clear();
      this.#shape = "";
      this.#paused = false;
      for (const session of page.sessions) this.#row(session);
      this.#arrange();
      this.#footer();
    } catch (problem) {
      quietly(problem);
      return;
    } finally {
      if (this.#loading === mine) this.#loading = null;
    }
    this.#further();
  }

  // An observer reports only changes. What was visible during a read, and still is, is reported when it observes again.
  #further() {
    this.#more.unobserve(this.foot);
    this.#more.observe(this.foot);
  }

  async #older(asked = false) {
    if (!this.#next || this.#loading || (this.#paused && !asked)) return;
    const mine = (this.#loading = new AbortController());
    try {
      const page = await api.sessions({ ...this.#filter, before: this.#next }, mine.signal);
      this.#next = page.next;
      const tall = this.scroller.scrollHeight;
      for (const session of page.sessions) if (!this.#rows.has(session.id)) this.#row(session);
      this.#arrange();
      this.#paused = this.scroller.scrollHeight <= tall; // all of it went into folded parts: a person asks for more
      this.#footer();
    } catch (problem) {
      quietly(problem);
      return;
    } finally {
      if (this.#loading === mine) this.#loading = null;
    }
    this.#further();
  }

  /** Something changed: the newest page is read again, soon, and once for many changes. */
  changed() {
    this.#later ||= setTimeout(() => {
      this.#later = 0;
      this.#fresh();
    }, 700);
  }

  async #fresh() {
    if (this.#loading) return this.changed();
    let page;
    try {
      page = await api.sessions(this.#filter);
    } catch {
      return undefined; // the connection's state says so
    }
    if (this.#loading) return undefined;
    const ids = new Set(page.sessions.map((session) => session.id));
    // What fell out of the newest page without being older than it no longer fits the filter.
    const oldest = page.next ? page.sessions.at(-1)?.updated_at : "";
    for (const [id, row] of this.#rows) {
      if (!ids.has(id) && (!page.next || row.session.updated_at >= oldest)) this.#drop(id);
    }
    for (const session of page.sessions) this.#update(session);
    this.#arrange();
    if (!this.#rows.size || !this.#next) this.#next = page.next && this.#rows.size <= PAGE ? page.next : this.#next;
    this.#footer();
    this.#further();
    return undefined;
  }

  #drop(id) {
    const row = this.#rows.get(id);
    this.#seen.unobserve(row.element);
    row.element.remove();
    this.#rows.delete(id);
  }

  #update(session) {
    const row = this.#rows.get(session.id);
    if (!row) return this.#row(session);
    if (same(row.session, session)) return row.element;
    row.session = session;
    this.#write(row);
    this.#judge(row);
    return row.element;
  }

  // Rows are kept and moved; nothing is drawn again while the arrangement stays the same.
  #arrange() {
    const sessions = [...this.#rows.values()].map((row) => row.session).sort((a, b) => (a.updated_at < b.updated_at ? 1 : -1));
    const groups = arrange(sessions);
    const shape = JSON.stringify(groups.map((group) => [group.path, group.name, group.rows.map((row) => [row.session.id, row.earlier.map((one) => one.id)])]));
    if (shape === this.#shape) return;
    this.#shape = shape;
    const focused = this.list.contains(document.activeElement) ? document.activeElement : null;
    const top = this.scroller.scrollTop;
    put(this.list, groups.map((group) => this.#group(group)));
    this.scroller.scrollTop = top;
    if (focused?.isConnected) focused.focus({ preventScroll: true });
  }

  #group(group) {
    const details = h(
      "details",
      { class: "project", open: !this.folded.has(group.path) },
      h("summary", { title: group.path || null }, icon("right"), h("bdi", { class: "project-name" }, group.name), h("span", { class: "faint" }, count(group.rows.length))),
      h("ul", { "aria-label": group.name }, group.rows.map((row) => this.#nested(row))),
    );
    details.addEventListener("toggle", () => {
      if (details.open) this.folded.delete(group.path);
      else this.folded.add(group.path);
      localStorage.setItem(FOLDED, JSON.stringify([...this.folded]));
    });
    return details;
  }

  #nested({ session, earlier }) {
    const row = this.#rows.get(session.id);
    row.element.querySelector("details.earlier")?.remove();
    if (earlier.length) {
      const open = earlier.some((one) => one.id === this.#chosen);
      row.element.append(h("details", { class: "earlier", open }, h("summary", null, icon("right"), many(earlier.length, "earlier session")), h("ul", null, earlier.map((one) => this.#rows.get(one.id).element))));
    }
    return row.element;
  }

  #write(row) {
    const focused = row.link.contains(document.activeElement) ? "link" : null;
    row.mark = this.#markOf(row.session);
    put(row.link, ...this.#inside(row.session));
    if (focused) row.link.focus();
  }

  #markOf(session) {
    const open = activity.open(session.id);
    return `${statusOf(session, open, activity.asks(session.id))}/${queueText(open)}`;
  }

  #ask(row) {
    if (row.mark !== this.#markOf(row.session)) this.#write(row);
  }

  #footer() {
    const words = this.#next ? `${count(this.#rows.size)}+ sessions` : many(this.#rows.size, "session");
    if (this.told.textContent !== words) put(this.told, words);
    put(this.foot, this.#next ? (this.#paused ? h("button", { type: "button", onclick: () => this.#older(true) }, "Load older sessions") : "Loading…") : this.#rows.size ? "" : h("p", { class: "nothing" }, this.#narrowed ? "No session fits." : "No sessions here yet."));
  }

  #row(session) {
    const link = h("a", { href: `#/s/${encodeURIComponent(session.id)}`, class: "session-link" }, this.#inside(session));
    const name = session.title ?? session.id;
    const row = { session, link, chip: chip(null, name), mark: this.#markOf(session) };
    row.element = h("li", { class: "session", "data-id": session.id }, link, row.chip);
    this.#rows.set(session.id, row);
    this.#mark(row);
    this.#seen.observe(row.element);
    return row.element;
  }

  #inside(session) {
    const [status, queue] = this.#markOf(session).split("/");
    return [
      h("bdi", { class: "title" }, session.title ?? session.key ?? session.id),
      h(
        "span",
        { class: "meta" },
        NORMAL.has(status) ? null : h("span", { class: `dot ${status}`, "aria-hidden": "true" }),
        NORMAL.has(status) ? null : h("span", { class: `word ${status}` }, statusWord(status)),
        queue ? h("span", { class: "word queued" }, queue) : null,
        h("span", { class: "agent" }, session.agent),
        h("time", { datetime: session.updated_at, title: full(session.updated_at) }, ago(session.updated_at)),
        session.worktree ? h("span", { class: "branch", title: session.worktree.path }, session.worktree.branch) : null,
      ),
      session.key ? h("code", { class: "key" }, session.key) : null,
    ];
  }

  #visible(entries) {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      const row = this.#rows.get(entry.target.dataset.id);
      if (row) this.#judge(row);
    }
  }

  // What waits does so for a process, whose end no record tells; and a verdict may not have come, for want of a connection.
  #again() {
    if (document.hidden) return;
    const box = this.scroller.getBoundingClientRect();
    for (const row of this.#rows.values()) {
      const { verdict } = row.chip;
      if (verdict && (verdict.action !== "wait" || RUNS.has(row.session.last_status))) continue;
      const at = row.element.getBoundingClientRect();
      if (at.bottom > box.top && at.top < box.bottom) this.#judge(row);
    }
  }

  async #judge(row) {
    const mark = `${row.session.events}`;
    if (row.session.state !== "live") {
      row.chip.hidden = true;
      return;
    }
    row.chip.hidden = false;
    const old = row.chip.verdict?.action === "wait" && !RUNS.has(row.session.last_status) ? `${mark}/${Date.now()}` : mark;
    const verdict = await verdictOf(row.session.id, old);
    if (verdict) show(row.chip, verdict, row.session.title ?? row.session.id);
  }

  /** Which session is open. */
  set chosen(id) {
    this.#chosen = id;
    this.#rows.forEach((row) => this.#mark(row));
  }

  #mark(row) {
    if (row.session.id === this.#chosen) row.link.setAttribute("aria-current", "page");
    else row.link.removeAttribute("aria-current");
  }

  #ages() {
    for (const { element, session } of this.#rows.values()) put(element.querySelector("time"), ago(session.updated_at));
  }

  /** The sessions that the list holds now, as {id, title, key, agent}. */
  get held() {
    return [...this.#rows.values()].map((row) => row.session);
  }

  /** The one after or before that which is open. */
  neighbor(step) {
    const ids = [...this.list.querySelectorAll("li.session")].filter((element) => element.checkVisibility()).map((element) => element.dataset.id);
    const at = ids.indexOf(this.#chosen);
    return ids[at < 0 ? 0 : at + step] ?? null;
  }

  #soon(wait) {
    clearTimeout(this.typing);
    this.typing = setTimeout(() => this.load(), wait);
  }

  #key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || !event.target.matches(".session-link")) return;
    event.preventDefault();
    const links = [...this.list.querySelectorAll(".session-link")].filter((link) => link.checkVisibility());
    links[links.indexOf(event.target) + step]?.focus();
  }
}

const same = (a, b) => a.updated_at === b.updated_at && a.events === b.events && a.state === b.state && a.title === b.title;

function select(label, options, onchange) {
  return h("select", { "aria-label": label, onchange }, options.map(([value, text]) => h("option", { value }, text)));
}
