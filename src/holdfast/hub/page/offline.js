// Makes the page installable, with the last known state offline; only where the browser allows it (https or localhost).

/** Register the service worker; a browser that refuses goes without. */
export function worksOffline() {
  if (!("serviceWorker" in navigator) || !isSecureContext) return;
  navigator.serviceWorker.register("/page/sw.js", { scope: "/" }).catch((problem) => console.info(`no offline page: ${problem.message}`));
}
