// The page put together: what is where, which view is open, and the one stream behind it all.
import { activity } from "./activity.js";
import { startTask } from "./new-task.js";
import { Doctor } from "./doctor.js";
import { h, icon, iconButton, put } from "./dom.js";
import { problemText } from "./hints.js";
import { healedBanner } from "./recovery-banner.js";
import { Judged } from "./verdict-list.js";
import { bind, ONCE, showKeys } from "./shortcuts.js";
import { Inbox } from "./inbox.js";
import { Statistics } from "./statistics.js";
import { palette } from "./palette.js";
import { close as closePopover } from "./popover.js";
import { go, here } from "./route.js";
import { announce, quietly, toast } from "./notify.js";
import { worksOffline } from "./offline.js";
import { answerPermission } from "./permission-card.js";
import { needsPerson } from "./status.js";
import { SessionView } from "./session.js";
import { Sessions } from "./sessions.js";
import { Stream } from "./stream.js";
import { Tasks } from "./tasks.js";

const main = document.getElementById("main");
const stream = new Stream();
const sessions = new Sessions();
let agents = null; // the promise of what the hub tells of them
let view = null;
let unreached = false; // the view could not be read for want of a connection

function drawer(open) {
  document.body.classList.toggle("drawer-open", open);
  document.getElementById("drawer-button")?.setAttribute("aria-expanded", String(open));
}

const newTask = () => startTask(readAgents());
const switchTheme = () => document.dispatchEvent(new CustomEvent("switchtheme"));
const aside = document.getElementById("sessions");

function bar() {
  const line = h("span", { id: "line", class: "line-state connecting", role: "status" }, "connecting");
  const links = [["#/", "Inbox"], ["#/tasks", "Tasks"], ["#/stats", "Statistics"], ["#/doctor", "Doctor"]].map(([href, label]) => h("a", { href }, label));
  put(
    document.getElementById("bar"),
    iconButton("menu", "Sessions", () => drawer(!document.body.classList.contains("drawer-open")), { id: "drawer-button", "aria-expanded": "false", "aria-controls": "sessions" }),
    h("a", { class: "brand", href: "#/", "aria-label": "Holdfast" }, h("img", { src: "/page/holdfast.svg", alt: "", width: "22", height: "22" }), h("span", null, "Holdfast")),
    h("nav", { "aria-label": "Views" }, links),
    h("button", { type: "button", class: "palette-button", onclick: openPalette, "aria-label": "Command palette, Control K" }, icon("search"), h("span", null, "Go to or do…"), h("kbd", null, "Ctrl K")),
    line,
    h("button", { type: "button", class: "primary new-task", onclick: newTask, "aria-label": "New task" }, icon("plus"), h("span", null, "New task")),
    iconButton("theme", "Dark or light", switchTheme),
    iconButton("help", "Keys", () => showKeys(KEYS), { class: "quiet square help-button" }),
  );
}

function openPalette() {
  closePopover();
  const commands = [
    { label: "New task…", hint: "n", run: newTask },
    { label: "Inbox", hint: "o", run: () => go("/") },
    { label: "Tasks", hint: "t", run: () => go("/tasks") },
    { label: "Waiting for your answer", run: () => go("/tasks?asks=1") },
    { label: "Interrupted and waiting", run: () => go("/tasks?waiting=1") },
    { label: "Statistics", run: () => go("/stats") },
    { label: "Doctor", hint: "d", run: () => go("/doctor") },
    { label: "Dark or light", run: switchTheme },
    { label: "Keys", hint: "?", run: () => showKeys(KEYS) },
    { label: "Show archived sessions", run: () => go("/list?state=archived") },
    { label: "Show deleted sessions", run: () => go("/list?state=deleted") },
  ];
  if (view instanceof SessionView && view.session) {
    commands.unshift(
      ...view.actions().map((action) => ({ ...action, hint: "this session" })),
      { label: "Go to the end", hint: "G", run: () => view.timeline.end() },
      { label: "Go to the beginning", hint: "g", run: () => view.timeline.top() },
    );
    commands.push(...view.stops());
  }
  palette(commands, sessions.held, (id) => go(`/s/${id}`));
}

const inSession = (act) => () => view instanceof SessionView && view.session && act(view);
const toNeighbour = (step) => () => {
  const id = sessions.neighbor(step);
  if (id) go(`/s/${id}`);
};

/** Answer what the open session asks. */
const answer = (decision) => () => {
  const ask = view instanceof SessionView ? view.asking : null;
  if (ask) answerPermission(ask, decision);
  else toast("Nothing is asked here. Press w for the next thing that needs you.");
};

/** Open the next session that needs a person, after the open one. */
function nextNeed() {
  const { permissions, open } = activity.inbox;
  const needs = [...new Set([...permissions.map((one) => one.session), ...open.filter(needsPerson).map((task) => task.session)])];
  if (!needs.length) {
    toast("Nothing needs you.");
    return;
  }
  const at = view instanceof SessionView ? needs.indexOf(view.id) : -1;
  go(`/s/${needs[(at + 1) % needs.length]}`);
}

const KEYS = {
  "/": ["Search sessions", () => (drawer(true), sessions.text.focus())],
  n: ["New task", newTask],
  o: ["Inbox", () => go("/")],
  t: ["Tasks", () => go("/tasks")],
  d: ["Doctor", () => go("/doctor")],
  "]": ["Next session", toNeighbour(1)],
  "[": ["Previous session", toNeighbour(-1)],
  j: ["Next item", inSession((open) => open.timeline.step(1))],
  k: ["Previous item", inSession((open) => open.timeline.step(-1))],
  g: ["Beginning of the timeline", inSession((open) => open.timeline.top())],
  G: ["End of the timeline, and follow it", inSession((open) => open.timeline.end())],
  f: ["Find in the session", inSession((open) => open.focusFind())],
  w: ["Next thing that needs you", nextNeed],
  a: ["Allow what the session asks", answer("allow"), ONCE],
  x: ["Deny what the session asks", answer("deny"), ONCE],
  r: ["Write to the session", inSession((open) => open.composer.text.focus())],
  "?": ["These keys", () => showKeys(KEYS)],
};

function viewAt({ path, query }) {
  const [name, id] = path;
  if (name === "s" && id) return new SessionView(id, stream, Number(query.get("seq")) || null);
  if (name === "tasks") return new Tasks(query);
  if (name === "verdicts") return new Judged(query.get("action") ?? "resume");
  if (name === "doctor") return new Doctor();
  if (name === "stats") return new Statistics(stream);
  return new Inbox();
}

async function show() {
  const place = here();
  closePopover();
  if (place.path[0] === "list") {
    sessions.filter(Object.fromEntries(place.query));
    drawer(true);
    sessions.text.focus({ preventScroll: true });
    if (view) return;
  } else {
    drawer(false);
  }
  view?.close();
  unreached = false;
  const mine = (view = viewAt(place));
  sessions.chosen = place.path[0] === "s" ? place.path[1] : null;
  activity.place = "Holdfast";
  for (const link of document.querySelectorAll("#bar nav a")) {
    const path = link.hash.slice(2);
    if (path === (place.path[0] ?? "")) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  put(main, mine.element);
  try {
    await mine.open();
    if (view === mine && mine.id) sessions.chosen = mine.id;
  } catch (problem) {
    if (problem.name === "AbortError" || view !== mine) return;
    if (!problem.code) throw problem;
    unreached = problem.code === "offline";
    put(main, h("div", { class: "view" }, h("h1", null, problem.status === 404 ? "Not found" : unreached ? "No connection" : "That did not work"), h("p", null, unreached ? `${problem.message} The view loads by itself when the connection is back.` : problemText(problem)), h("button", { type: "button", onclick: show }, "Try again")));
  }
}

/** The promise of the agents; asked for again where that failed. */
function readAgents() {
  agents = agents?.catch(() => sessions.agents()) ?? sessions.agents();
  agents.catch(quietly);
  return agents;
}

function connection(state) {
  const line = document.getElementById("line");
  line.className = `line-state ${state}`;
  put(line, state === "live" ? "live" : "connection lost, trying again");
  document.body.classList.toggle("offline", state !== "live");
  announce(state === "live" ? "Connected" : "Connection lost");
}

bar();
put(aside, sessions.element);
bind(KEYS, openPalette);
document.getElementById("shade").addEventListener("click", () => drawer(false));
addEventListener("keydown", (event) => event.key === "Escape" && drawer(false));
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault(); // its address would be taken for a view
  main.focus();
});
addEventListener("hashchange", show);
document.addEventListener("reload", show);
document.addEventListener("newtask", newTask);

let lost = false;
stream.addEventListener("event", () => sessions.changed());
stream.addEventListener("gap", () => sessions.load());
stream.addEventListener("state", (message) => {
  connection(message.detail);
  if (message.detail === "live" && lost) {
    sessions.changed();
    if (unreached) show();
    readAgents();
    healedBanner(document.getElementById("banner")).catch(quietly);
  }
  lost = message.detail !== "live";
});
activity.follow(stream);
worksOffline();
stream.open();
sessions.load();
show();
readAgents();
healedBanner(document.getElementById("banner")).catch(quietly);
