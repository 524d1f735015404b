// Where the traffic went, what it cost, and what could not be processed.

import { byId, fill, h } from "./dom.js";
import { compact, count, listed, moment, money, percent, plural, span } from "./format.js";

export function showFigures(overview) {
  showFunnel(overview);
  showCost(overview);
  showDead(overview.dead_letters);
}

function showFunnel({ funnel, started, now, deferred }) {
  byId("funnel-note").textContent = `since ${moment(started, now)}, all versions`;
  const monitors = [...new Set([...funnel.outcomes.map((each) => each.monitor), ...Object.keys(funnel.traffic).filter(Boolean)])];
  const unmatched = funnel.traffic[""]?.unmatched;
  fill(
    byId("funnel").querySelector(".body"),
    monitors.map((monitor) => monitorFunnel(monitor, funnel)),
    deferred ? h("p", { class: "what" }, waiting(deferred)) : null,
    unmatched ? h("p", { class: "what" }, `${plural(unmatched, "turn is", "turns are")} watched by no monitor`) : null,
    funnel.unknown ? h("p", { class: "what" }, `Not known here: how many turns matched and were sampled, and how many evaluations wait. ${funnel.unknown} Each process counts its own turns; their sum in Prometheus: `, h("code", {}, "sum by (monitor, outcome) (evalstream_turns_total)")) : null,
  );
}

function waiting({ gathering, submitted, oldest, batches }) {
  if (gathering + submitted === 0) return "in this process, no evaluation waits for batches";
  return `in this process, ${plural(gathering + submitted, "evaluation waits", "evaluations wait")} for batches on purpose (${count(submitted)} submitted, ${plural(batches, "batch", "batches")} under way), the oldest for ${span(oldest)}`;
}

function monitorFunnel(monitor, { traffic, outcomes }) {
  const turns = traffic[monitor];
  const matched = turns ? Object.values(turns).reduce((sum, each) => sum + each, 0) : null;
  const shares = turns ? Object.entries(turns).map(([name, number]) => [name, number, name === "sampled" ? "good" : "muted"]) : [];
  return h(
    "div", { class: "funnel" },
    h("h3", {}, monitor, turns ? h("span", { class: "what" }, ` ${plural(matched, "turn")} matched`) : null),
    shares.length ? bar(shares) : null,
    outcomes.filter((each) => each.monitor === monitor).map(outcomeFunnel),
  );
}

function outcomeFunnel({ evaluator, scored, others, open: { resumed, ...open } }) {
  const of = (outcome) => others.filter(([each]) => each === outcome);
  const sum = (rows) => rows.reduce((all, row) => all + row[2], 0);
  const skipped = of("skipped");
  const failed = of("failed");
  return h(
    "div", { class: "judged" },
    h("p", { class: "evaluator" }, evaluator),
    bar([["scored", scored, "good"], ["skipped", sum(skipped), "muted"], ["failed", sum(failed), "bad"], ...Object.entries(open).map(([name, number]) => [name, number, "muted"])]),
    resumed ? h("p", { class: "what" }, `${plural(resumed, "evaluation was", "evaluations were")} resumed: another process counted their turns`) : null,
    others.length ? h("ul", { class: "why" }, others.map(([outcome, reason, number]) => h("li", {}, `${count(number)} ${outcome}: ${reason.replaceAll("_", " ")}`))) : null,
  );
}

function bar(parts) {
  const all = parts.reduce((sum, [, number]) => sum + number, 0) || 1;
  return h(
    "div", { class: "share" },
    h("div", { class: "bar", "aria-hidden": "true" }, parts.map(([, number, kind]) => number ? h("span", { "data-kind": kind, style: { flexGrow: String(number / all) } }) : null)),
    h("p", {}, parts.map(([name, number, kind]) => h("span", { class: "key", "data-kind": kind }, `${name.replaceAll("_", " ")} `, h("b", {}, count(number))))),
  );
}

function showCost({ tracks, budgets }) {
  const seconds = tracks.length ? tracks[0].width * tracks[0].points.length : 0;
  byId("cost-note").textContent = seconds ? `last ${span(seconds)}, all versions` : "";
  const sum = (name) => tracks.reduce((all, track) => all + track.work[name], 0);
  const unpriced = tracks.filter((track) => track.work.cost_usd === null).map((track) => track.evaluator);
  const least = unpriced.length || tracks.some((track) => track.work.partly_priced);
  const spent = least ? (sum("cost_usd") ? `at least ${money(sum("cost_usd"))}` : "unknown") : money(sum("cost_usd"));
  fill(
    byId("cost").querySelector(".body"),
    h("dl", { class: "sums" },
      pair("spent", spent), pair("calls", compact(sum("calls"))), pair("tokens", compact(sum("tokens")))),
    unpriced.length ? h("p", { class: "what" }, `The cost of ${listed([...new Set(unpriced)])} is unknown: when the judge was asked, neither the configuration nor a list had its price.`) : null,
    seconds ? h("p", { class: "what" }, "For evaluations that were made in this time. Golden sets, canaries and cases that alerts score again cost extra.") : null,
    (budgets || []).map(budget),
    h("table", {},
      h("thead", {}, h("tr", {}, ["evaluator", "spent", "calls", "tokens"].map((name, index) => h("th", { scope: "col", class: index ? "number" : null }, name)))),
      h("tbody", {}, tracks.map((track) => h("tr", {},
        h("th", { scope: "row" }, track.evaluator, h("span", { class: "what" }, ` ${track.monitor}`)),
        h("td", { class: "number" }, track.work.cost_usd === null ? "unknown" : (track.work.partly_priced ? "at least " : "") + money(track.work.cost_usd)),
        h("td", { class: "number" }, compact(track.work.calls)),
        h("td", { class: "number" }, compact(track.work.tokens)))))),
  );
}

function pair(name, value) {
  return h("div", {}, h("dd", {}, value), h("dt", {}, name));
}

function budget({ monitor, period, limit_usd: limit, spent_usd: spent }) {
  const name = monitor ?? "all monitors";
  if (spent === null) return h("div", { class: "budget" }, h("p", {}, h("b", {}, name), `: how much of the budget of ${money(limit)} was spent in the last ${period} is not known yet`));
  const share = limit > 0 ? spent / limit : 1;
  const text = `the budget paid ${money(spent)} of ${money(limit)} in the last ${period}`;
  return h("div", { class: "budget" },
    h("p", {}, h("b", {}, name), `: ${text}`, h("span", { class: "what" }, ` ${percent(share)}`)),
    h("div", { class: "bar", role: "meter", "aria-label": `Budget of ${name}`, "aria-valuemin": 0, "aria-valuemax": limit, "aria-valuenow": spent, "aria-valuetext": text },
      h("span", { "data-kind": share >= 1 ? "bad" : share >= 0.8 ? "warn" : "good", style: { width: `${Math.min(100, share * 100)}%` } })));
}

function showDead(letters) {
  byId("dead").hidden = !letters || letters.length === 0;
  fill(byId("dead").querySelector(".body"), h("ul", { class: "why" },
    (letters || []).map((each) => h("li", {}, `${count(each.count)} at ${each.stage}: ${each.reason.replaceAll("_", " ")}`))));
}
