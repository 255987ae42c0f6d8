// The key of this login. A browser sends cookies to every port of a host, so any program on this machine may get
// ours; local storage belongs to one port, and the hub wants both.

const NAME = "holdfast.key";

const given = /^#key=([\w-]+)$/.exec(location.hash);
if (given) {
  localStorage.setItem(NAME, given[1]);
  history.replaceState(null, "", "/");
}

export const loginKey = () => localStorage.getItem(NAME) ?? "";

/** The login has ended, or this port has no key of it. */
export const askForToken = () => location.replace("/?login=1");
