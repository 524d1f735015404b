// Puts the page together: what the address says is asked of the service and shown, again whenever something changes.

import { RANGES, go, listQuery, read } from "./address.js";
import * as api from "./api.js";
import { showDetail, showNothing, showProblem } from "./detail.js";
import { byId, h } from "./dom.js";
import { showFigures } from "./figures.js";
import { showMonitors } from "./monitors.js";
import { showReleases } from "./releases.js";
import { Stream, buildFilters, showFilters } from "./stream.js";

const narrow = matchMedia("(max-width: 980px)");
const PORTION = narrow.matches ? 20 : 60; // where the list is as long as its rows, what is below it stays near
const MOST = 480; // rows
const PAUSE = 900; // ms between two looks, however much changes
const AXIS = 10000; // ms after which time itself has moved the charts

let state = read();
let asked = false;
let asking = false;
let lastAsked = 0;
let opened = null;
let limit = PORTION;
const stream = new Stream((id) => open(id), () => { limit = Math.min(MOST, limit + PORTION); look({ now: true }); });

function change(difference, options) {
  state = { ...state, ...difference };
  limit = PORTION;
  go(state, options);
  showRanges();
  return look({ now: true });
}

async function look({ now = false } = {}) {
  const wanted = { ...state };
  try {
    const [overview, list] = await Promise.all([api.overview(wanted.range), api.list(listQuery(wanted, limit))]);
    if (Object.keys(wanted).some((key) => key !== "evaluation" && wanted[key] !== state[key])) return; // asked anew meanwhile
    const fitting = fittingRange(overview.tracks);
    if (fitting !== state.range) {
      state = { ...state, range: fitting };
      showRanges();
      return look({ now });
    }
    showFilters(overview, state);
    showMonitors(overview, state, (track) => change(track ? { monitor: track.monitor, evaluator: track.evaluator } : { monitor: "", evaluator: "" }));
    showReleases(overview);
    showFigures(overview);
    stream.take(list, state, { now });
    document.body.dataset.ready = "yes";
  } catch (error) {
    live("lost", error.message);
  }
}

/** The range to look at: 15 minutes while all scores are younger, unless somebody has chosen one. */
function fittingRange(tracks) {
  if (state.ranged) return state.range;
  const scored = tracks.map((track) => [track.points.findIndex((point) => point[4]), track]).filter(([index]) => index >= 0);
  if (!scored.length) return state.range;
  const oldest = Math.max(...scored.map(([index, track]) => (track.points.length - index) * track.width));
  return oldest > 14 * 60 ? "1h" : "15m";
}

/** Look again soon: at most once a PAUSE, and not while nobody sees the page. */
async function lookSoon() {
  asked = true;
  if (asking || document.hidden) return;
  asking = true;
  while (asked && !document.hidden) {
    await new Promise((done) => setTimeout(done, Math.max(0, lastAsked + PAUSE - Date.now())));
    asked = false;
    lastAsked = Date.now();
    await look();
  }
  asking = false;
}

async function open(id, { step = true } = {}) {
  state = { ...state, evaluation: id ?? "" };
  if (step) go(state, { step: true });
  stream.mark(id);
  const before = opened;
  opened = id || null;
  cover();
  if (!id) {
    showNothing();
    if (before) (byId("rows").querySelector(`a[data-id="${CSS.escape(before)}"]`) ?? byId("evaluations")).focus({ preventScroll: true });
    return;
  }
  try {
    const answer = await api.evaluation(id);
    if (opened !== id) return;
    showDetail(answer, state, {
      close, open, step: stepBy,
      retry: () => api.retry(id),
      shown: () => api.shown(id),
      save: async (said) => { const label = await api.label(id, said); lookSoon(); return label; },
    });
  } catch (error) {
    showProblem(error.message, close);
  }
  byId("detail").focus({ preventScroll: true });
}

const close = () => open(null);

/** Where an opened evaluation covers the page, what is behind it cannot be reached. */
function cover() {
  const behind = [document.querySelector(".top"), ...document.querySelectorAll("main > :not(.work)"), document.querySelector(".stream")];
  for (const each of behind) each.inert = narrow.matches && Boolean(opened);
}

function stepBy(step) {
  const next = stream.beside(opened, step);
  if (next) open(next);
}

function live(kind, why = "") {
  const place = byId("live");
  place.dataset.state = kind;
  place.textContent = kind === "live" ? "live" : kind === "lost" ? "connection lost, trying again" : "connecting";
  place.title = why;
}

function showRanges() {
  for (const button of byId("ranges").children) button.setAttribute("aria-pressed", String(button.value === state.range));
}

function buildTop() {
  byId("ranges").append(...Object.entries(RANGES).map(([value, text]) =>
    h("button", { type: "button", value, onclick: () => change({ range: value, ranged: true }) }, text)));
  const themes = ["auto", "light", "dark"];
  const apply = (theme) => {
    if (theme === "auto") document.documentElement.removeAttribute("data-theme");
    else document.documentElement.dataset.theme = theme;
    byId("theme").textContent = `Theme: ${theme}`;
  };
  let theme = "auto";
  try { theme = localStorage.getItem("evalstream.theme") ?? "auto"; } catch { /* private mode */ }
  apply(theme);
  byId("theme").addEventListener("click", () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    apply(theme);
    try { localStorage.setItem("evalstream.theme", theme); } catch { /* private mode */ }
  });
  byId("help").addEventListener("click", () => byId("keys").showModal());
}

function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("keys").open) return;
  const typing = event.target.closest("input:not([type=radio]), textarea, select");
  if (event.key === "Escape") {
    if (typing) typing.blur();
    else if (opened) close();
    return;
  }
  if (typing) return;
  const detail = byId("detail");
  const press = (selector) => detail.querySelector(selector);
  const actions = {
    j: () => stepBy(1),
    k: () => stepBy(-1),
    a: () => press("input[value=agree]")?.click(),
    d: () => press("input[value=disagree]")?.click(),
    s: () => press("input[name=score]")?.focus(),
    n: () => press("textarea[name=note]")?.focus(),
    "/": () => byId("filters").elements.q.focus(),
    "?": () => byId("keys").showModal(),
  };
  if (!(event.key in actions)) return;
  event.preventDefault();
  actions[event.key]();
}

function start() {
  buildTop();
  buildFilters(state, (difference) => change(difference));
  showRanges();
  showNothing();
  live("waiting");
  addEventListener("keydown", keys);
  narrow.addEventListener("change", cover);
  addEventListener("popstate", () => { state = read(); showRanges(); look({ now: true }); open(state.evaluation || null, { step: false }); });
  document.addEventListener("visibilitychange", () => { if (!document.hidden) lookSoon(); });
  setInterval(() => { if (Date.now() - lastAsked > AXIS) lookSoon(); }, 1000);
  look({ now: true }).then(async () => {
    if (!state.evaluation) return;
    await open(state.evaluation, { step: false });
    byId("evaluations").scrollIntoView();
  });
  api.listen(lookSoon, live);
}

start();
