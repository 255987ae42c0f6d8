// The service worker: the page and the last known state are there without a connection.
const SHELL = "holdfast-shell";
const STATE = "holdfast-state";
const MOST = 200; // answers that are kept
// Answers that show a state: the inbox, lists, one session and its records. Nothing that changes anything.
const KEPT = /^\/api\/(inbox|sessions(\/[^/]+(\/events)?)?|tasks|agents)$/;

addEventListener("install", (event) => {
  event.waitUntil(skipWaiting());
});

addEventListener("activate", (event) => {
  event.waitUntil(clients.claim().then(keepShell));
});

/** Keep the page and all files that it names. */
async function keepShell() {
  const answer = await fetch("/", { credentials: "same-origin" });
  if (!isPage(answer)) return;
  const html = await answer.clone().text();
  const cache = await caches.open(SHELL);
  await cache.put("/", answer);
  const files = [...html.matchAll(/"(\/page\/[\w.-]+)"/g)].map((found) => found[1]);
  await Promise.all([...new Set(files)].map((path) => cache.add(path).catch(() => null)));
}

const isPage = (answer) => answer.ok && !answer.redirected && (answer.headers.get("content-type") ?? "").startsWith("text/html");

addEventListener("fetch", (event) => {
  const { request } = event;
  const url = new URL(request.url);
  if (request.method !== "GET" || url.origin !== location.origin) return;
  if (request.mode === "navigate" && url.pathname === "/" && !url.search) event.respondWith(newest(request, SHELL, "/", isPage));
  else if (url.pathname.startsWith("/page/")) event.respondWith(newest(request, SHELL, url.pathname, (answer) => answer.ok));
  else if (KEPT.test(url.pathname)) event.respondWith(newest(request, STATE, stateKey(url), (answer) => answer.ok));
});

/** The inbox is one state, whatever it was asked for; a list is another with each filter. */
function stateKey(url) {
  return url.pathname === "/api/inbox" ? url.pathname : `${url.pathname}${url.search}`;
}

/** The hub's answer if it answers at all, else the one that was kept. */
async function newest(request, name, key, fits) {
  let answer;
  try {
    answer = await fetch(request);
  } catch (failure) {
    const kept = await (await caches.open(name)).match(key);
    if (kept) return kept;
    throw failure;
  }
  if (answer.status === 401) await caches.delete(STATE); // this login has ended
  else if (fits(answer)) await keep(name, key, answer.clone());
  return answer;
}

async function keep(name, key, answer) {
  const cache = await caches.open(name);
  await cache.delete(key); // so that the order is that of use
  await cache.put(key, answer);
  if (name !== STATE) return;
  const keys = await cache.keys();
  await Promise.all(keys.slice(0, Math.max(0, keys.length - MOST)).map((old) => cache.delete(old)));
}
