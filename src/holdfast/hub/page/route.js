// Addresses within the page: #/, #/s/ID, #/tasks?status=…, #/verdicts?action=…, #/doctor.

/** Where the address points: {path: [...], query}. */
export function here() {
  const [path, query] = location.hash.replace(/^#/, "").split("?");
  return { path: path.split("/").filter(Boolean).map(decodeURIComponent), query: new URLSearchParams(query ?? "") };
}

/** Go there. */
export function go(path) {
  location.hash = `#${path}`;
}
