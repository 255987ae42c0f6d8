// What starts of the hub repaired and could not repair: a banner, until a person dismisses it.
import * as api from "./api.js";
import { h, iconButton, put } from "./dom.js";
import { trouble } from "./notify.js";
import { clock, many } from "./time.js";

/** What was done, one line each. */
export function doneList(done) {
  return h("ul", { class: "done" }, done.map((one) => h("li", null, h("span", null, one.result), one.subject ? h("bdi", { class: "faint" }, ` ${one.subject}`) : null, " ", h("code", { class: "code-word" }, one.code))));
}

const left = (report) => [...report.problems, ...report.unhealed.map((one) => `${one.subject}: ${one.text}${one.kept.length ? ` (${one.kept.join(", ")})` : ""}`)];

/** Show the banner if there is a report that nobody has dismissed yet. */
export async function healedBanner(place) {
  show(place, (await api.healed()).reports);
}

function show(place, reports) {
  const done = reports.flatMap((report) => report.done);
  const problems = reports.flatMap(left);
  if (!done.length && !problems.length) {
    put(place);
    return;
  }
  const words = [done.length ? `${many(done.length, "thing")} repaired at start` : "", problems.length ? `${many(problems.length, "thing")} could not be repaired` : ""].filter(Boolean).join(", ");
  const dismiss = async () => {
    try {
      let rest = reports;
      for (const report of reports) rest = (await api.dismissHealed(report.name)).reports;
      show(place, rest);
    } catch (problem) {
      trouble(problem);
    }
  };
  put(
    place,
    h(
      "section",
      { class: `banner ${problems.length ? "bad" : ""}`, "aria-label": "Repaired at start" },
      h("details", null, h("summary", null, words), reports.map(section), h("p", null, h("a", { href: "#/doctor" }, "Open the doctor"))),
      iconButton("close", "Dismiss", dismiss),
    ),
  );
}

function section(report) {
  const problems = left(report);
  return [
    h("p", { class: "faint" }, report.at ? `At the start of ${clock(report.at)}` : report.name),
    report.done.length ? doneList(report.done) : null,
    problems.length ? [h("p", null, h("strong", null, "Not repaired:")), h("ul", { class: "done" }, problems.map((text) => h("li", null, text)))] : null,
  ];
}
