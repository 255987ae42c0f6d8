// The sidebar's order: sessions by project, the latest activity first, earlier sessions under their successor. Pure.

/** The folder or repository that a session belongs to; an empty text if it has none. */
export const projectOf = (session) => session.worktree?.repo_root ?? session.cwd ?? "";

/** A project's name: the last part of its path, with more of it where two are called the same. */
export function projectNames(paths) {
  const parts = paths.map((path) => path.split("/").filter(Boolean));
  return paths.map((path, index) => {
    if (!path) return "No folder";
    for (let length = 1; length <= parts[index].length; length += 1) {
      const name = parts[index].slice(-length).join("/");
      if (!parts.some((other, at) => at !== index && other.slice(-length).join("/") === name)) return name;
    }
    return path;
  });
}

/** Sessions, the latest first, as [{path, name, rows: [{session, earlier: [session]}]}]. */
export function arrange(sessions) {
  const byId = new Map(sessions.map((session) => [session.id, session]));
  const under = new Map(); // an archived session -> the one that continues it
  for (const session of sessions) {
    const before = session.link ? byId.get(session.link.session) : null;
    if (before && before.state === "archived") under.set(before.id, session.id);
  }
  const rootOf = (id) => {
    const seen = new Set();
    let at = id;
    while (under.has(at) && !seen.has(at)) {
      seen.add(at);
      at = under.get(at);
    }
    return at;
  };
  const rows = new Map();
  for (const session of sessions) {
    const root = rootOf(session.id);
    if (!rows.has(root)) rows.set(root, { session: byId.get(root), earlier: [] });
    if (root !== session.id) rows.get(root).earlier.push(session);
  }
  const groups = new Map();
  for (const row of rows.values()) {
    const path = projectOf(row.session);
    if (!groups.has(path)) groups.set(path, { path, name: "", rows: [] });
    groups.get(path).rows.push(row);
  }
  const found = [...groups.values()];
  projectNames(found.map((group) => group.path)).forEach((name, index) => (found[index].name = name));
  return found;
}
