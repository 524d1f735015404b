// Releases: each new version beside the one before, with an interval that may be looked at at any time.

import { byId, fill, h } from "./dom.js";
import { count, fixed, moment, percent, score } from "./format.js";

const STATES = {
  worse: ["worse", "bad", "▼"],
  better: ["better", "good", "▲"],
  alike: ["alike within 0.05", "good", "≈"],
  open: ["not known yet", "unsure", "…"],
  untold: ["perhaps only the time of day", "few", "○"],
  waiting: ["too few scores", "few", "○"],
};

export function showReleases({ releases, now }) {
  const place = byId("releases");
  place.hidden = !releases || releases.length === 0;
  if (place.hidden) return;
  fill(place.querySelector(".body"), h("table", {},
    h("thead", {}, h("tr", {},
      ["version", "evaluator", releases.some(({ beside }) => beside) ? "baseline" : "before", "now", "difference", ""].map((name, index) => h("th", { scope: "col", class: index > 1 && index < 5 ? "number" : null }, name)))),
    h("tbody", {}, releases.map((each) => row(each, now)))));
}

function row(release, now) {
  const [text, state, sign] = STATES[release.state];
  const known = release.difference !== null;
  return h("tr", {},
    h("th", { scope: "row" }, release.version,
      h("span", { class: "what" }, ` ${release.beside ? "beside" : "after"} ${release.baseline} · ${release.attribute.replaceAll("_", " ")}${release.within ? ` of ${release.within}` : ""} · since ${moment(release.started, now)}`)),
    h("td", {}, release.evaluator, h("span", { class: "what" }, ` ${release.monitor}`)),
    cell(score(release.means[0]), release.conversations[0]),
    cell(score(release.means[1]), release.conversations[1]),
    known ? cell(signed(release.difference), null, release.low === null ? release.method : `${signed(release.low)} to ${signed(release.high)}, ${release.method}`) : h("td", { class: "number" }, "–"),
    h("td", {}, h("span", { class: "badge", "data-state": state }, h("span", { "aria-hidden": "true" }, sign), ` ${text}`),
      release.lost[1] > release.lost[0] ? h("span", { class: "what block" }, `${percent(release.lost[1])} of its cases have no score, ${percent(release.lost[0])} ${release.beside ? `of ${release.baseline}'s` : "before"}`) : null));
}

function cell(text, conversations, what = `effectively ${count(Math.round(conversations))} conversations`) {
  return h("td", { class: "number" }, text, h("span", { class: "what block" }, what));
}

const signed = (value) => `${fixed(value, 3) < 0 ? "−" : "+"}${Math.abs(value).toFixed(3)}`;
