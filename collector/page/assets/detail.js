// One evaluation, opened.

import { href } from "./address.js";
import { byId, h, prose, put } from "./dom.js";
import { compact, day, clock, money, percent } from "./format.js";
import { labelForm } from "./labelling.js";
import { chip } from "./stream.js";
import { talk } from "./talk.js";

const METHODS = {
  logprobs: "expectation over the judge's token probabilities",
  samples: "mean of several answers",
  single: "one answer of the judge",
  deterministic: "computed, no judge",
};

/** Empty the detail pane, so that the list takes its room. */
export function showNothing() {
  put(byId("detail"));
  document.body.removeAttribute("data-open");
}

export function showProblem(message, close) {
  put(byId("detail"), bar(close), h("p", { class: "nothing" }, message));
  document.body.dataset.open = "yes";
}

/** Show an answer of the service. `actions` has close, step, open, save, retry and shown. */
export function showDetail(answer, state, actions) {
  const { evaluation } = answer;
  put(byId("detail"),
    bar(actions.close, actions.step),
    head(answer),
    reason(answer),
    again(answer, state, actions),
    answer.feedback.length ? section("Feedback", feedback(answer.feedback)) : null,
    labelForm(answer, actions.save),
    section("Conversation", answer.text ? talk(answer.conversation, evaluation.subject) : h("p", { class: "nothing" }, "Texts are hidden here (page.show_text in the configuration).")),
    section("How this number came about", provenance(answer)),
    answer.text && evaluation.judge ? shown(evaluation, actions.shown) : null,
    answer.others.length ? section("Other evaluations of this conversation", others(answer.others, state, actions.open)) : null,
  );
  document.body.dataset.open = "yes";
  byId("detail").scrollTop = 0;
}

function bar(close, step) {
  return h("div", { class: "bar-top" },
    step ? h("button", { type: "button", class: "quiet", onclick: () => step(-1) }, "↑ Previous") : null,
    step ? h("button", { type: "button", class: "quiet", onclick: () => step(1) }, "↓ Next") : null,
    h("button", { type: "button", class: "quiet close", onclick: close }, "Close"));
}

function head({ evaluation, threshold, lower_is_better: lower, trace_url: trace }) {
  const at = Date.parse(evaluation.ended_at) / 1000;
  return h("header", { class: "head" },
    h("div", { class: "line" },
      h("h2", {}, evaluation.evaluator),
      trace ? h("a", { class: "trace", href: trace, target: "_blank", rel: "noopener noreferrer" }, "Open the trace ↗") : null),
    h("p", { class: "of" }, `${evaluation.monitor} · one ${evaluation.scope} · ${day(at)} ${clock(at)}`),
    h("div", { class: "verdict" },
      chip({ ...evaluation, score: evaluation.score ?? null, passed: evaluation.passed ?? null }),
      evaluation.score === undefined ? null : gauge(evaluation.score, threshold),
      !evaluation.label || ["pass", "fail"].includes(evaluation.label) ? null : h("span", { class: "chosen" }, evaluation.label),
      threshold === null ? null : h("span", { class: "what" }, `passes at ${threshold} or ${lower ? "lower" : "higher"}`)));
}

function gauge(value, threshold) {
  return h("span", { class: "gauge", "aria-hidden": "true" },
    h("i", { style: { width: `${value * 100}%` } }),
    threshold === null ? null : h("b", { style: { left: `${threshold * 100}%` } }));
}

function reason({ evaluation, text }) {
  if (evaluation.error) {
    return h("blockquote", { class: "reason", "data-kind": "failed" }, h("p", {}, h("code", {}, evaluation.error.type)), prose(evaluation.error.message));
  }
  if (evaluation.reason) return h("blockquote", { class: "reason" }, prose(`Skipped: ${evaluation.reason}`));
  if (!text) return null;
  return h("blockquote", { class: "reason" }, h("p", { class: "who" }, evaluation.judge ? "The judge's reason" : "Why"), prose(evaluation.explanation || "It gave none."));
}

const REQUESTED = "Requested: the service evaluates this again, and the new evaluation replaces this one.";

/** The button that has a failed evaluation made again, or what was made in its place. */
function again({ evaluation, retry, superseded_by: newer }, state, { open, retry: request }) {
  if (newer) {
    return h("p", { class: "status" }, "Made again: ", h("a", {
      href: href({ ...state, evaluation: newer }),
      onclick: (event) => { event.preventDefault(); open(newer); },
    }, "open the new evaluation"));
  }
  if (!retry) return null;
  const status = h("p", { class: "status", role: "status" }, retry === "requested" ? REQUESTED : "");
  const button = h("button", {
    type: "button", disabled: retry === "requested",
    onclick: async () => {
      button.disabled = true;
      try {
        await request();
        status.textContent = REQUESTED;
      } catch (error) {
        status.textContent = `Not requested: ${error.message}`;
        status.dataset.state = "wrong";
        button.disabled = false;
      }
    },
  }, "Make it again");
  return h("div", { class: "again", "aria-label": `Make the evaluation by ${evaluation.evaluator} again`, role: "group" }, button, status);
}

const SOURCES = { user: "a user", expert: "an expert", code: "a program" };

/** What users, experts and programs said of what was evaluated. */
function feedback(pieces) {
  return h("ul", { class: "feedback" }, pieces.map((piece) => h("li", { "data-good": piece.score === null ? "" : String(piece.score >= 0.5) },
    h("b", {}, piece.name), " ",
    h("span", { class: "value" }, [piece.value === null ? null : String(piece.value), piece.label].filter(Boolean).join(" · ")),
    h("span", { class: "what" }, ` by ${SOURCES[piece.source]}${piece.author ? ` (${piece.author})` : ""}, ${day(piece.at)} ${clock(piece.at)}`),
    piece.comment ? h("p", { dir: "auto" }, piece.comment) : null)));
}

function section(title, ...children) {
  return h("section", {}, h("h3", {}, title), ...children);
}

function provenance({ evaluation }) {
  const { judge, usage, sampling, subject, range } = evaluation;
  const probability = sampling?.probability ?? 1;
  const took = (Date.parse(evaluation.ended_at) - Date.parse(evaluation.started_at)) / 1000;
  const rows = [
    ["method", evaluation.method ? `${evaluation.method}: ${METHODS[evaluation.method] ?? ""}` : null],
    ["raw score", evaluation.raw_score === undefined ? null : `${+evaluation.raw_score.toFixed(3)}${range ? ` on ${range[0]}–${range[1]}` : ""}`],
    ["probability on valid scores", evaluation.kept_mass === undefined ? null : percent(evaluation.kept_mass)],
    ["judge", judge?.model],
    ["judge's fingerprint", judge?.fingerprint, "code"],
    ["prompt hash", judge?.prompt_hash, "code"],
    ["evaluator's version", evaluation.evaluator_version, "code"],
    ["the judge's steps", evaluation.details?.steps_hash, "code"],
    ["not shown to the judge", evaluation.details?.unshown === undefined ? null : `${percent(evaluation.details.unshown)} of the run`],
    ["the judge read", evaluation.details?.reading ? readings(evaluation.details.reading) : null],
    ["cost", evaluation.cost_usd === undefined ? null : money(evaluation.cost_usd)],
    ["tokens", usage ? `${compact(usage.input_tokens ?? 0)} in${usage.cached_input_tokens ? ` (${compact(usage.cached_input_tokens)} cached)` : ""}, ${compact(usage.output_tokens ?? 0)} out, ${usage.calls ?? 0} calls` : null],
    ["attempt", evaluation.retry ? `${evaluation.retry.attempt}; the one before: ${evaluation.retry.reason}` : null],
    ["took", `${took.toFixed(2)} s`],
    ["sampling probability", `${percent(probability)}${probability < 1 ? `: stands for ${+(1 / probability).toFixed(1)} like it` : ""}`],
    ...Object.entries(evaluation.attributes ?? {}).map(([name, value]) => [name.replaceAll("_", " "), Array.isArray(value) ? value.join(", ") : String(value)]),
    ["conversation", subject.conversation_id, "code"],
    ["trace", subject.trace_id, "code"],
    ["span", subject.span_id, "code"],
    ["evaluation", evaluation.evaluation_id, "code"],
  ];
  return [
    masses(evaluation.details),
    h("dl", { class: "facts" }, rows.filter(([, value]) => value).flatMap(([name, value, form]) => [h("dt", {}, name), h("dd", { dir: "auto" }, form ? h("code", {}, value) : value)])),
  ];
}

function readings({ read, searched, requests }) {
  const said = [read.length ? `${read.length === 1 ? "step" : "steps"} ${read.join(", ")}` : null, searched.length ? `searched for ${searched.map((text) => `“${text}”`).join(", ")}` : null];
  return `${said.filter(Boolean).join("; ") || "nothing"}, in ${requests} requests`;
}

/** What the judge was shown, and each of its verdicts: asked for when it is opened. */
function shown({ details }, ask) {
  const body = h("div", {});
  const folded = h("details", { class: "shown" }, h("summary", {}, "What the judge was shown"), body);
  folded.addEventListener("toggle", async () => {
    if (!folded.open || body.childElementCount) return;
    put(body, h("p", { class: "what" }, "One moment."));
    try {
      const { questions, steps, total, same, pack } = await ask();
      put(body,
        h("p", { class: "what" }, `${same ? "By the definition of this evaluation" : "The definition has changed since: by the present one"}${pack.length ? `; asked together with ${pack.join(", ")}` : ""}. ${total > questions.length ? `The first ${questions.length} of ${total} questions.` : "Questions that follow from an answer are not here."}`),
        steps.length ? [h("h4", {}, "Steps that the judge wrote from the criteria"), h("ol", {}, steps.map((step) => h("li", { dir: "auto" }, step)))] : null,
        questions.flatMap(({ instructions, message, pictures }) => [
          h("h4", {}, "Instructions"), h("pre", { tabindex: "0" }, instructions),
          h("h4", {}, `Material${pictures ? `, with ${pictures} pictures` : ""}`), h("pre", { tabindex: "0" }, message)]),
        details ? [h("h4", {}, "Verdicts"), h("pre", { tabindex: "0" }, JSON.stringify(details, (_, value) => (typeof value === "number" ? +value.toPrecision(4) : value), 2))] : null);
    } catch (error) {
      put(body, h("p", { class: "nothing" }, error.message));
    }
  });
  return h("section", {}, folded);
}

/** The judge's own probabilities, a bar for each score it considered. */
function masses(details) {
  const entries = Object.entries(details?.masses ?? details?.probabilities ?? {}).map(([name, mass]) => [name, Number(mass)]);
  if (entries.length === 0) {
    const samples = details?.samples;
    return Array.isArray(samples) ? h("p", { class: "what" }, `The judge's answers: ${samples.join(", ")}`) : null;
  }
  if (details.masses) entries.sort(([a], [b]) => Number(a) - Number(b));
  const said = entries.map(([name, mass]) => `${name}: ${percent(mass)}`).join(", ");
  return h("div", { class: details.masses ? "masses" : "masses labels", role: "img", "aria-label": `Probabilities of the judge's ${details.masses ? "scores" : "labels"}: ${said}` },
    entries.map(([name, mass]) => h("div", {},
      h("span", { class: "what" }, mass >= 0.005 ? percent(mass) : ""),
      h("i", { style: { height: `${Math.max(1, mass * 56)}px` } }),
      h("b", {}, name))));
}

function others(rows, state, open) {
  return h("ul", { class: "others" }, rows.map((row) => h("li", {},
    h("a", {
      href: href({ ...state, evaluation: row.id }),
      onclick: (event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey) return;
        event.preventDefault();
        open(row.id);
      },
    }, chip(row), h("span", { title: row.version }, row.earlier ? `${row.evaluator} (earlier version)` : row.evaluator), h("span", { class: "what", dir: "auto" }, row.excerpt)))));
}

