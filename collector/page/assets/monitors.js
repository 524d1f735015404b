// The monitors: each evaluator's score now and over time, and what fires.

import { href } from "./address.js";
import { chart, drawsTarget, marks } from "./chart.js";
import { byId, fill, h } from "./dom.js";
import { count, margin, moment, percent, plural, score, span } from "./format.js";

const STATES = {
  good: ["above its threshold", "✓"],
  bad: ["below its threshold", "▼"],
  unsure: ["near its threshold", "≈"],
  few: ["too few to say", "…"],
  alert: ["an alert fires", "▼"],
  silent: ["no score in", "○"], // how long: beside it are older ones
  plain: ["no threshold", "–"],
};

/** Which configuration runs, since when. */
const runs = ({ configuration, now }) => (configuration?.number ? `configuration ${configuration.number} since ${moment(configuration.since, now)}` : "");

/** Show all tracks; `chosen` is called with the monitor and evaluator of one that is clicked. */
export function showMonitors(overview, state, chosen) {
  byId("monitors-note").textContent = [overview.tracks.length ? "" : "none is configured", overview.part, runs(overview)].filter(Boolean).join(" · ");
  showAlerts(overview.alerts, state, chosen);
  const place = byId("tracks");
  if (place.querySelector(".chart:hover, .matrix[open]:hover")) return; // somebody reads a chart or a table: it stays still
  const focused = place.contains(document.activeElement) ? document.activeElement.closest(".track")?.dataset.key : null;
  fill(place, overview.tracks.map((track) => card(track, overview, state, chosen)));
  if (focused) [...place.children].find((each) => each.dataset.key === focused)?.querySelector("button").focus();
}

function card(of, overview, state, chosen) {
  const releases = (overview.releases || []).filter((each) => each.monitor === of.monitor && each.evaluator === of.evaluator);
  const track = { ...of, releases };
  const on = state.monitor === track.monitor && state.evaluator === track.evaluator;
  const key = `${track.monitor}/${track.evaluator}`;
  const alerts = (overview.alerts || []).filter((each) => each.monitor === track.monitor && [null, track.evaluator, `${track.evaluator}:audit`].includes(each.evaluator));
  return h(
    "article", { class: "card track", "data-key": key, "data-state": track.state, "data-alert": alerts.length > 0 },
    h("div", { class: "line" },
      h("h3", {}, h("button", {
        type: "button", class: "name", "aria-pressed": String(on), title: "Show only its evaluations",
        onclick: () => chosen(on ? null : track),
      }, track.evaluator)),
      badge(track, alerts, overview.configuration?.by_segment)),
    h("p", { class: "of" }, `${track.monitor} · each ${track.scope}`),
    h("div", { class: "now" },
      h("p", { class: "big" }, score(track.recent.mean), h("span", { class: "margin" }, margin(track.recent)),
        h("span", { class: "what" }, `last ${span(track.recent_seconds)}`)),
      h("p", { class: "whole" }, `${score(track.whole.mean)} ${margin(track.whole)}`, h("span", { class: "what" }, `last ${span(track.width * track.points.length)}`)),
      corrected(track.whole),
      byPeople(track.people),
      h("p", { class: "whole" }, percent(track.whole.passed), h("span", { class: "what" }, track.passed_since ? `pass, since ${moment(track.passed_since, Date.now() / 1000)}` : "pass"))),
    before(track),
    chart(track, `${track.evaluator} on ${track.monitor}`),
    h("p", { class: "counts" }, counts(track)),
    agreement(track.people, overview.tracks.filter((each) => each.evaluator === track.evaluator).length),
    matrix("by expected labels", track.classified),
  );
}

/** The mean of all, if what has no score had the lowest one, and if it had the highest. */
function withLost(bounds) {
  if (!bounds || bounds[1] - bounds[0] < 0.005) return "";
  return `; the mean would be ${score(bounds[0])} if each failure, skip (over_budget, shed, incomplete) and part that judges were not shown had scored 0, and ${score(bounds[1])} if each had scored 1`;
}

/** What the audits make of the live scores of the whole range: the dear judge's mean, with the cheap scores' help. */
function corrected({ corrected: mean, rejudged }) {
  if (!mean) return null;
  const about = mean.mean === null ? `too few audits (${Math.floor(mean.audits)} of 30)` : `by audits, as exact as ${Math.round(mean.worth)} audits alone${rejudged ? ", without rejudged scores" : ""}${withLost(mean.bounds)}`;
  return h("p", { class: "whole corrected" }, mean.mean === null ? "–" : `${score(mean.mean)} ${margin(mean)}`, h("span", { class: "what" }, about));
}

const WITHHELD = {
  few: "too few labels",
  undecided: "too few labels whose scores have a verdict",
  weak: "the judge's verdicts say too little about people's",
  drift: "newer labels differ from older ones",
  audits: "too few audits",
  scores: "no live score",
};

/** The mean of seven days by people's labels, with the judge's help; or why there is none. */
function byPeople(people) {
  if (!people) return null;
  const known = people.mean !== undefined;
  const few = people.withheld === "few" ? ` (effectively ${Math.floor(people.labels)} of 30)` : "";
  const about = known ? "by people, last 7 days" : `by people, last 7 days: withheld, ${WITHHELD[people.withheld]}${few}`;
  return h("p", { class: "whole corrected" }, known ? `${score(people.mean)} ${margin(people)}` : "–", h("span", { class: "what" }, about));
}

const FEWEST_LABELS = 10; // of fewer, no share and no kappa is worth its line

/** How the judge's verdicts agree with people's, in all and by segment: labels of all `monitors` of the evaluator. */
function agreement(people, monitors) {
  if (!people) return null;
  const all = monitors > 1 ? ", of all monitors" : "";
  const few = people.agreements.filter((each) => !each.segment && each.labels < FEWEST_LABELS);
  return h("div", { class: "counts agreement" }, few.map((each) => h("p", {}, `effectively ${plural(Math.floor(each.labels), "label")}: too few to say how far people agree${all}`)), people.agreements.filter((each) => each.labels >= FEWEST_LABELS).map((each) => h("div", {}, h("p", {},
    `${each.segment || "agreement with people"}${all}: ${[measure(each.share, "same verdict", percent), measure(each.kappa, "kappa"), measure(each.youden_j, "J")].filter(Boolean).join(" · ")} · effectively ${plural(Math.round(each.labels), "label")}`), each.segment ? null : matrix("verdicts by people (effective numbers)", each.verdicts))),
    people.biases.map((bias) => h("p", {}, bias)));
}

/** Accuracy and macro F1; opened, what was expected by what was chosen, with precision, recall and F1 of each label. */
function matrix(title, results) {
  if (!results) return null;
  const names = Object.keys(results.labels);
  const number = (expected, chosen) => results.confusion.find((each) => each.expected === expected && each.chosen === chosen)?.count ?? 0;
  return h("details", { class: "counts matrix" },
    h("summary", {}, `${title}: ${percent(results.accuracy)} right, macro F1 ${score(results.macro_f1)}${results.left_out ? `; ${plural(results.left_out, "expected output")} left out: no label` : ""}`),
    h("table", {},
      h("tr", {}, h("th", {}, "expected \\ chosen"), [...names, "precision", "recall", "F1"].map((name) => h("th", {}, name))),
      names.map((name) => h("tr", {}, h("th", {}, name), names.map((chosen) => h("td", {}, count(Math.round(number(name, chosen))))),
        ["precision", "recall", "f1"].map((which) => h("td", {}, score(results.labels[name][which])))))));
}

function measure(bounds, name, form = score) {
  return bounds ? `${name} ${form(bounds[0])} (${form(bounds[1])} to ${form(bounds[2])})` : null;
}

/** The same stretch of time yesterday and a week ago. */
function before({ yesterday, last_week: week }) {
  const parts = [[yesterday, "yesterday"], [week, "a week ago"]].filter(([each]) => each);
  if (!parts.length) return null;
  return h("p", { class: "counts" }, parts.map(([each, when]) => `${when} ${score(each.mean)} ${margin(each)}`).join(" · "));
}

/** The side of its target on which the mean of the whole range is. Alerts know of other stretches of time, and go first. */
function badge(track, alerts, bySegment) {
  const fires = ["good", "unsure", "few"].includes(track.state) && alerts.some((alert) => alert.evaluator !== null);
  const state = fires ? "alert" : track.state;
  const lower = track.lower_is_better && (state === "good" || state === "bad");
  const [text, sign] = STATES[state];
  const said = lower ? text.replace(/above|below/, state === "good" ? "below" : "above") : text;
  const held = drawsTarget(track) ? said.replace("threshold", "target") : said; // alerts hold the mean to its target
  // the page does not know the alerts that Prometheus has for segments
  const whole = bySegment && track.target !== null && ["good", "bad", "unsure"].includes(state) ? `${held} as a whole` : held;
  const against = state === "silent" ? `${held} ${span(track.recent_seconds)}` : whole;
  return h("span", { class: "badge", "data-state": state }, h("span", { "aria-hidden": "true" }, sign), ` ${against}`);
}

function counts(track) {
  const { whole, newest, newest_is_rejudged: isRejudged, changes } = track;
  const now = Date.now() / 1000;
  const parts = [`${plural(whole.scores, "score")} of ${plural(whole.conversations, "conversation")}`];
  if (whole.skipped) parts.push(`${whole.skipped} skipped`);
  if (whole.failed) parts.push(`${whole.failed} failed`);
  const lost = withLost(whole.bounds);
  if (lost) parts.push(lost.slice(2));
  if (whole.clipped >= 0.005) parts.push(`${percent(whole.clipped)} of the weight left out: one conversation outweighed the others`);
  if (whole.rejudged) parts.push(`${percent(whole.rejudged)} of the weight rejudged; without rejudged scores, as in metrics and alerts, the mean is ${score(whole.live)}`);
  if (changes?.length) parts.push(`an earlier version of evaluator or judge was last used at ${moment(changes[0], now)}: these figures leave out its scores; the curve has them where the present version has none`);
  parts.push(...marks(track).filter(({ kind }) => kind === "release").map(({ text }) => text.slice(3)));
  // A rejudged score is at the time of its subject, which may be before the version that made it.
  if (newest) parts.push(`${isRejudged ? "scores of traffic until" : "last live evaluation ended"} ${moment(newest, now)}`);
  return parts.join(" · ");
}

function showAlerts(alerts, state, chosen) {
  const place = byId("alerts");
  place.hidden = !alerts || alerts.length === 0;
  fill(place, (alerts || []).map((alert) => h(
    "p", { class: "alert", "data-severity": alert.severity },
    h("strong", {}, alert.name),
    about(alert, state, chosen),
    h("span", {}, alert.summary),
    alert.since === null ? null : h("span", { class: "what" }, `since ${moment(alert.since, Date.now() / 1000, false)}`),
    outside("Runbook", alert.runbook),
    outside("Dashboard", alert.dashboard),
    folded(causes(alert, state)),
  )));
}

const folded = (rest) => rest && h("details", { open: unfolded }, h("summary", { onclick: () => { unfolded = !unfolded; } }, "What explains it"), rest);
let unfolded = false; // kept while the list is drawn anew

/** The parts of the traffic that explain a drop, each with its numbers and evaluations to read. */
function causes(alert, state) {
  if (!(alert.causes || []).length) return null;
  return h("span", { class: "causes" }, ...alert.causes.map((cause) => h(
    "span", { class: "cause" },
    h("strong", {}, cause.part),
    cause.first_seen === null ? ` explains ${percent(cause.share)} of the change: ` : `, the first candidate, first seen ${moment(cause.first_seen, Date.now() / 1000)}: `,
    cause.before === null ? `new, ${score(cause.mean)}` : `${score(cause.before)} before, ${score(cause.mean)} since`,
    `, ${percent(cause.traffic)} of the traffic. Read `,
    ...cause.read.flatMap((id, place) => [place ? ", " : "", h("a", { href: href({ ...state, evaluation: id }) }, String(place + 1))]),
  )));
}

/** What an alert is about, as a link to its evaluations. */
function about({ monitor, evaluator }, state, chosen) {
  if (!monitor) return null;
  const only = { monitor, evaluator: (evaluator ?? "").replace(/:audit$/, "") };
  return h("a", {
    class: "tag", href: href({ ...state, ...only, evaluation: "" }), title: "Show only its evaluations",
    onclick: (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      chosen(only);
      byId("evaluations").scrollIntoView();
    },
  }, [monitor, evaluator].filter(Boolean).join(" · "));
}

const outside = (text, address) => address ? h("a", { href: address, target: "_blank", rel: "noopener noreferrer" }, `${text} ↗`) : null;
