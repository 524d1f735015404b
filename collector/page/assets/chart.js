// A chart of scores over time: the mean of each column, its 95 % interval, the threshold and the target.

import { h, s } from "./dom.js";
import { clock, day, margin, moment, plural, score } from "./format.js";

const W = 600;
const H = 100;

/** The chart of a track. Fills the width it gets; its height is fixed, so nothing below it moves. */
export function chart(track, name) {
  const points = track.points;
  const step = W / points.length;
  const x = (index) => (index + 0.5) * step;
  const y = (value) => H - value * H;
  const picture = s(
    "svg", { viewBox: `0 0 ${W} ${H}`, preserveAspectRatio: "none", "aria-hidden": "true", class: "plot" },
    [0, 0.5, 1].map((level) => s("line", { class: "grid", x1: 0, x2: W, y1: y(level), y2: y(level) })),
    bands(points, x, y),
    track.threshold === null ? null : s("line", { class: "threshold", x1: 0, x2: W, y1: y(track.threshold), y2: y(track.threshold) }),
    drawsTarget(track) ? s("line", { class: "target", x1: 0, x2: W, y1: y(track.target), y2: y(track.target) }) : null,
    lines(points, x, y),
    marks(track).map(({ kind, place }) => s("line", { class: kind, x1: place * W, x2: place * W, y1: 0, y2: H })),
    points.map((point, index) => point[5] ? s("line", { class: "failures", x1: x(index), x2: x(index), y1: H - 7, y2: H }) : null),
    s("line", { class: "cursor", x1: 0, x2: 0, y1: 0, y2: H, visibility: "hidden" }),
  );
  const named = marks(track).map(({ kind, place, text }) => h("span", { class: `moment ${kind}`, "aria-hidden": "true", title: text, style: { left: `${place * 100}%` } }, kind === "change" ? "v" : "r"));
  const reading = h("p", { class: "reading" }, spanOf(track));
  const figure = h(
    "div", { class: "chart", role: "img", "aria-label": summary(track, name) },
    h("div", { class: "scale", "aria-hidden": "true" }, h("span", {}, "1"), h("span", {}, "0")),
    picture,
    named,
    track.threshold === null ? null : h("span", { class: "mark", "aria-hidden": "true", style: { bottom: `${track.threshold * 100}%` } }, String(track.threshold)),
    drawsTarget(track) ? h("span", { class: "mark aim", "aria-hidden": "true", style: { bottom: `${track.target * 100}%` } }, `target ${track.target}`) : null,
  );
  follow(figure, picture, reading, track, x);
  return h("div", { class: "charted" }, figure, reading);
}

/** The moments of a track within its chart: changes of the evaluator's or its judge's version, and releases. */
export function marks(track) {
  const first = track.points[0][0];
  const length = track.width * track.points.length;
  const when = (at) => moment(at, Date.now() / 1000);
  return [
    ...(track.changes || []).map((at) => ({ at, kind: "change", text: `v: an earlier version of evaluator or judge was last used at ${when(at)}` })),
    ...(track.releases || []).filter(({ beside }) => !beside).map(({ version, started }) => ({ at: started, kind: "release", text: `r: release ${version} at ${when(started)}` })),
  ].map((moment) => ({ ...moment, place: (moment.at - first) / length })).filter(({ place }) => place >= 0 && place <= 1);
}

/** Whether a target has a line of its own: it is usually the threshold itself. */
export const drawsTarget = (track) => typeof track.target === "number" && track.target !== track.threshold;

function follow(figure, picture, reading, track, x) {
  const cursor = picture.querySelector(".cursor");
  figure.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect();
    const index = Math.floor(((event.clientX - box.left) / box.width) * track.points.length);
    const point = track.points[index];
    if (!point) return;
    cursor.setAttribute("x1", x(index));
    cursor.setAttribute("x2", x(index));
    cursor.setAttribute("visibility", "visible");
    reading.textContent = describe(point, track.width);
  });
  figure.addEventListener("pointerleave", () => {
    cursor.setAttribute("visibility", "hidden");
    reading.textContent = spanOf(track);
  });
}

/** Stretches of neighbouring columns that have something, as [index, point]. */
function runs(points, has) {
  const found = [];
  let run = [];
  points.forEach((point, index) => {
    if (has(point)) run.push([index, point]);
    else if (run.length) { found.push(run); run = []; }
  });
  return run.length ? [...found, run] : found;
}

function lines(points, x, y) {
  return runs(points, (point) => point[1] !== null).map((run) => {
    const path = run.map(([index, point]) => `${x(index)} ${y(point[1])}`).join("L");
    return s("path", { class: "mean", d: run.length > 1 ? `M${path}` : `M${path}h0.01` });
  });
}

function bands(points, x, y) {
  const edge = ([index, point], end) => `${x(index)} ${y(point[end])}`;
  return runs(points, (point) => point[2] !== null).filter((run) => run.length > 1).map((run) => {
    const around = [...run.map((each) => edge(each, 3)), ...run.toReversed().map((each) => edge(each, 2))];
    return s("path", { class: "band", d: `M${around.join("L")}Z` });
  });
}

function describe([start, mean, low, high, scores, failures], width) {
  const when = width >= 1200 ? `${day(start)} ${clock(start, false)}` : clock(start, width < 60);
  const failed = failures ? `, ${failures} failed` : "";
  return mean === null ? `${when}  no scores${failed}` : `${when}  ${score(mean)} ${margin({ mean, interval: low === null ? null : [low, high], scores })}  of ${plural(scores, "score")}${failed}`;
}

function spanOf(track) {
  const first = track.points[0][0];
  const last = track.points.at(-1)[0] + track.width;
  const form = track.width >= 1200 ? (at) => `${day(at)} ${clock(at, false)}` : (at) => clock(at, false);
  return `${form(first)} – ${form(last)}`;
}

function summary(track, name) {
  const { recent, whole } = track;
  const against = `${track.threshold === null ? "" : `, threshold ${track.threshold}`}${drawsTarget(track) ? `, target ${track.target}` : ""}`;
  return `${name}: mean score now ${score(recent.mean)} ${margin(recent)}, over the whole range ${score(whole.mean)} ${margin(whole)}${against}`;
}
