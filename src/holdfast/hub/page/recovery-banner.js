// What was healed when the hub started: a banner, until it is dismissed.
import * as api from "./api.js";
import { h, iconButton, put } from "./dom.js";
import { many } from "./time.js";

const SEEN = "holdfast-healed-seen";

/** What was done, one line each. */
export function doneList(done) {
  return h("ul", { class: "done" }, done.map((one) => h("li", null, h("code", { class: "code-word" }, one.code), " ", h("span", null, one.result), one.subject ? h("bdi", { class: "faint" }, ` ${one.subject}`) : null)));
}

/** Show the banner if there is something that nobody has dismissed yet. */
export async function healedBanner(place) {
  const { healed } = await api.health();
  const done = healed?.done ?? [];
  const unhealed = (healed?.unhealed ?? []).map((one) => `${one.subject}: ${one.text}${one.kept.length ? ` (${one.kept.join(", ")})` : ""}`);
  const problems = [...(healed?.problems ?? []), ...unhealed];
  if ((!done.length && !problems.length) || localStorage.getItem(SEEN) === healed.at) {
    put(place);
    return;
  }
  const words = [done.length ? `${many(done.length, "thing")} healed at start` : "", problems.length ? `${many(problems.length, "problem")} left` : ""].filter(Boolean).join(", ");
  const dismiss = () => {
    localStorage.setItem(SEEN, healed.at);
    put(place);
  };
  put(
    place,
    h(
      "section",
      { class: `banner ${problems.length ? "bad" : ""}`, "aria-label": "Healed at start" },
      h("details", null, h("summary", null, words), doneList(done), problems.length ? h("ul", { class: "done" }, problems.map((text) => h("li", null, text))) : null, h("p", null, h("a", { href: "#/doctor" }, "To the doctor"))),
      iconButton("close", "Dismiss", dismiss),
    ),
  );
}
