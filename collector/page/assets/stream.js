// The list of evaluations: the worst first. While somebody reads in it, it stays still and says what is new.

import { href } from "./address.js";
import { byId, fill, h } from "./dom.js";
import { count, moment, score } from "./format.js";

const OUTCOMES = {
  "": "all", missed: "not passed", scored: "scored", failed: "failed", skipped: "skipped",
  labelled: "labelled", unlabelled: "not labelled",
};

/** Builds the filters once; `changed` is called with what is different. */
export function buildFilters(state, changed) {
  const select = (name, label, options) => h("label", {}, h("span", {}, label),
    h("select", { name, onchange: (event) => changed({ [name]: event.target.value }) }, options));
  let timer;
  const search = h("input", {
    name: "q", type: "search", maxlength: 200, placeholder: "text, id, model=…, service_version=…", value: state.q,
    oninput: (event) => { clearTimeout(timer); timer = setTimeout(() => changed({ q: event.target.value }), 250); },
  });
  const form = byId("filters");
  form.addEventListener("submit", (event) => event.preventDefault());
  form.append(
    select("monitor", "Monitor", []), select("evaluator", "Evaluator", []),
    select("outcome", "Show", Object.entries(OUTCOMES).map(([value, text]) => h("option", { value }, text))),
    select("order", "Order", [h("option", { value: "worst" }, "worst first"), h("option", { value: "newest" }, "newest first")]),
    h("label", { class: "search" }, h("span", {}, "Search"), search),
  );
}

/** Give the filters the choices there are and the state's values. */
export function showFilters(overview, state) {
  const form = byId("filters");
  const names = (of) => [...new Set(overview.tracks.map((track) => track[of]))].sort();
  for (const of of ["monitor", "evaluator"]) {
    const known = names(of);
    const all = state[of] && !known.includes(state[of]) ? [...known, state[of]] : known;
    fill(form.elements[of], h("option", { value: "" }, "all"), all.map((name) => h("option", { value: name }, name)));
  }
  for (const name of ["monitor", "evaluator", "outcome", "order"]) form.elements[name].value = state[name];
  if (document.activeElement !== form.elements.q) form.elements.q.value = state.q;
}

export class Stream {
  #shown = [];
  #latest = null;
  #state = null;

  /** `opened` is called with the id of an evaluation that is chosen, `more` when the list is to be longer. */
  constructor(opened, more) {
    this.opened = opened;
    this.more = more;
    byId("fresh").addEventListener("click", () => {
      this.#draw();
      byId("rows").scrollTop = 0;
      if (isPassed(byId("rows"))) byId("evaluations").scrollIntoView();
    });
  }

  /** Take what the service answered; `now` draws it even if somebody is reading. */
  take(answer, state, { now = false } = {}) {
    this.#latest = answer;
    const sameList = this.#state && ["range", "monitor", "evaluator", "outcome", "q", "order"].every((key) => this.#state[key] === state[key]);
    this.#state = { ...state };
    if (now || !sameList || !this.#read()) this.#draw();
    else this.#announce();
  }

  /** Mark the evaluation that is open. */
  mark(id) {
    this.#state = { ...this.#state, evaluation: id };
    for (const link of byId("rows").querySelectorAll("a")) {
      if (link.dataset.id === id) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
    byId("rows").querySelector("a[aria-current]")?.scrollIntoView({ block: "nearest" });
  }

  /** The evaluation so many places after the one that is open; the first if none is. */
  beside(id, step) {
    const place = this.#shown.findIndex((row) => row.id === id);
    return (place < 0 ? this.#shown[0] : this.#shown[place + step])?.id ?? null;
  }

  #read() {
    const rows = byId("rows");
    const hovered = matchMedia("(hover: hover)").matches && rows.matches(":hover");
    return hovered || rows.contains(document.activeElement) || rows.scrollTop > 0 || isPassed(rows);
  }

  #announce() {
    const known = new Set(this.#shown.map((row) => row.id));
    const fresh = this.#latest.rows.filter((row) => !known.has(row.id)).length;
    byId("fresh").dataset.shown = fresh ? "yes" : "no";
    byId("fresh").textContent = `${fresh} new · show`;
  }

  #draw() {
    if (!this.#latest) return;
    const { rows, total, reads_back: readsBack } = this.#latest;
    this.#shown = rows;
    byId("fresh").dataset.shown = "no";
    byId("count").textContent = (total > rows.length ? `${rows.length} of ${count(total)}` : count(total)) + (readsBack ? ", earlier ones are being loaded" : "");
    byId("nothing").hidden = rows.length > 0;
    byId("nothing").textContent = readsBack ? "Evaluations from before the start are being loaded." : filtered(this.#state) ? "Nothing matches these filters in this range of time." : "Nothing was judged in this range of time yet. New evaluations appear here by themselves.";
    const list = byId("rows");
    const focused = list.contains(document.activeElement) ? document.activeElement.dataset.id : null;
    const rest = total > rows.length ? h("li", { class: "rest" }, h("button", { type: "button", onclick: () => this.more() }, "Show more")) : null;
    fill(list, rows.map((row) => this.#row(row)), rest);
    if (focused) list.querySelector(`a[data-id="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  }

  #row(row) {
    const open = row.id === this.#state.evaluation;
    return h("li", {}, h(
      "a", {
        href: href({ ...this.#state, evaluation: row.id }), "data-id": row.id, "aria-current": open ? "true" : null,
        onclick: (event) => {
          if (event.ctrlKey || event.metaKey || event.shiftKey) return;
          event.preventDefault();
          this.opened(row.id);
        },
      },
      chip(row),
      h("span", { class: "words" },
        h("span", { class: "asked", dir: "auto" }, row.excerpt || row.conversation_id),
        h("span", { class: "because", dir: "auto" }, row.why || " ")),
      h("span", { class: "meta" },
        h("span", { title: row.version }, [row.evaluator, row.earlier && " (earlier version)", row.chosen && `: ${row.chosen}`].filter(Boolean).join("")),
        h("span", {}, row.label ? opinion(row.label) : null, moment(row.ended_at, Date.now() / 1000))),
    ));
  }
}

/** The score of an evaluation, or what there is instead, with its verdict as a shape and in words. */
export function chip(row) {
  const kind = row.score === null ? row.outcome : row.passed === null ? "plain" : row.passed ? "passed" : "missed";
  const said = { passed: "passes", missed: "does not pass", failed: "failed", skipped: "skipped", plain: "score" }[kind];
  return h("span", { class: "chip", "data-kind": kind, title: said },
    row.score === null ? row.outcome : score(row.score), h("span", { class: "hidden" }, ` ${said}`));
}

function opinion(label) {
  const sign = label.opinion === "agree" ? "✓" : label.opinion === "disagree" ? "✗" : "✎";
  const text = label.opinion ? `a person ${label.opinion}s` : "labelled";
  return h("span", { class: "opinion", title: text }, h("span", { "aria-hidden": "true" }, sign), h("span", { class: "hidden" }, text));
}

function filtered(state) {
  return Boolean(state.monitor || state.evaluator || state.outcome || state.q);
}

/** Whether the page is scrolled into the list, which on a phone does not scroll by itself. */
const isPassed = (rows) => rows.getBoundingClientRect().top < 0;
