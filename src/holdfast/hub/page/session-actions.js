// What can be done with a session as a whole: rename, archive, delete and back, and what is known of it.
import * as api from "./api.js";
import { ask } from "./dialog.js";
import { h } from "./dom.js";
import { toast, trouble } from "./notify.js";
import { count, full } from "./time.js";

const FROM = "from the page";

/** Run a call, say what was done with a way back, and call `then`. */
export function act(words, call, then, undo = null) {
  return async () => {
    try {
      await call();
      toast(words, undo && { label: "Undo", run: undo });
      then();
    } catch (problem) {
      trouble(problem);
    }
  };
}

/** The entries of a session's menu and of the palette; `then` is called after each change. */
export function sessionActions(session, openTokens, then) {
  const { id } = session;
  const live = session.state === "live";
  const unarchive = act("Brought back from the archive", () => api.unarchive(id), then);
  const restore = act("Restored", () => api.restore(id), then);
  return [
    { label: "Rename…", run: () => rename(session, then) },
    { label: "Conversation id…", run: openTokens },
    live ? { label: "Archive", run: act("Archived", () => api.archive(id, FROM), then, unarchive) } : null,
    session.state === "archived" ? { label: "Unarchive", run: unarchive } : null,
    session.state === "deleted" ? { label: "Restore", run: restore } : null,
    { label: `Copy id ${id.slice(0, 8)}`, run: () => navigator.clipboard?.writeText(id) },
    { label: "Facts…", run: () => facts(session) },
    session.state === "deleted" ? null : { label: "Delete", danger: true, run: act("Deleted", () => api.remove(id, FROM), then, restore) },
  ].filter(Boolean);
}

async function rename(session, then) {
  const title = await ask("Rename", "Title", session.title ?? "", "Rename");
  if (title) act("Renamed", () => api.rename(session.id, session.version, title), then)();
}

function facts(session) {
  const rows = [["Id", session.id], ["Created", full(session.created_at)], ["Node", session.host ?? ""], ["Folder", session.cwd ?? ""], ["Records", count(session.events)], ["Metadata version", `${session.version}`]];
  ask("Facts", null, null, "Close", [
    h("dl", null, rows.flatMap(([name, value]) => [h("dt", null, name), h("dd", null, value)])),
    h("pre", { tabindex: "0" }, JSON.stringify(session.metadata ?? session.metadata_problem, null, 2)),
  ]);
}

/** The note on a session that is archived or deleted, with its ways back. */
export function awayCard(session, composer, then) {
  const note = session.deletion ?? session.archive;
  if (session.state === "deleted") {
    return h("div", { class: "away" }, h("p", null, `Deleted${by(note)}.`), h("div", { class: "buttons" }, h("button", { type: "button", onclick: act("Restored", () => api.restore(session.id), then) }, "Restore")));
  }
  const next = /goes on in session ([0-9a-z_-]+)/.exec(note?.reason ?? "")?.[1];
  return h(
    "div",
    { class: "away" },
    next ? h("p", null, "Archived: it continues in ", h("a", { href: `#/s/${next}` }, `session ${next.slice(0, 8)}`), h("details", null, h("summary", null, "Why"), h("p", null, note.reason))) : h("p", null, `Archived${by(note)}.`),
    h(
      "div",
      { class: "buttons" },
      h("button", { type: "button", onclick: act("Brought back from the archive", () => api.unarchive(session.id), then) }, "Unarchive"),
      h("button", { type: "button", onclick: () => composer.choose("anyway") }, "Bring back and send…"),
      h("button", { type: "button", onclick: () => composer.choose("fork") }, "Fork…"),
    ),
  );
}

const by = (note) => (note ? ` by ${note.by}${note.reason ? `: ${note.reason}` : ""}` : "");
