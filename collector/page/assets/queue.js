// The queue for people: one answer after the other, the judge's score only after one's own verdict.

import * as api from "./api.js";
import { byId, h, put } from "./dom.js";
import { clock, day, percent } from "./format.js";
import { talk } from "./talk.js";

const NAME = "evalstream.name";
const who = byId("who");
let item = null;
let last = null; // the id of what was labelled last, which can be undone
let done = false; // whether what is shown is labelled
let busy = false;

async function next() {
  if (!who.elements.by.value.trim()) {
    byId("ask").showModal();
    return;
  }
  const answer = await asked();
  fill(answer.evaluators);
  show(answer);
}

function asked() {
  return api.queueNext({ by: who.elements.by.value.trim(), evaluator: who.elements.evaluator.value });
}

function fill(evaluators) {
  const select = who.elements.evaluator;
  if (select.options.length > 1) return;
  select.append(...evaluators.map((name) => h("option", { value: name }, name)));
}

function show({ item: found, progress }) {
  item = found;
  done = false;
  showProgress(progress);
  status("");
  put(byId("item"), item
    ? [h("p", { class: "what" }, `${item.evaluator} · ${item.monitor} · one ${item.scope}`), item.asks && h("p", { class: "asks" }, item.asks), talk(item.conversation, item.subject)]
    : h("p", { class: "nothing" }, "Nothing is left for you."));
  buttons();
  document.body.dataset.ready = "yes";
  document.body.dataset.item = item?.id ?? "";
}

function showProgress(progress) {
  byId("progress").textContent = `${progress.labelled} of ${progress.drawn} drawn are labelled, ${progress.mine} by you; ${progress.left} left for you`;
  byId("since").textContent = progress.since
    ? `Drawn from the newest scores, since ${day(progress.since)}, ${clock(progress.since, false)}. Your labels represent this time.`
    : "";
  byId("bar").value = progress.drawn ? progress.labelled / progress.drawn : 0;
  byId("people").textContent = progress.pairs
    ? `Two people agree about ${percent(progress.agreement)} of ${progress.pairs} answers (95 %: ${percent(progress.low)} to ${percent(progress.high)}).`
    : "No answer is labelled by two people yet.";
}

function buttons() {
  byId("verdicts").hidden = !item && !last;
  for (const button of byId("verdicts").children) {
    button.hidden = button.value === "next" ? !done : button.value === "undo" ? !last : done || !item;
  }
}

async function say(verdict) {
  if (busy || !item || done) return;
  await send(item.id, verdict, (answer) => {
    last = item.id;
    done = true;
    const { score, explanation } = answer.judge;
    status(`You: ${verdict === "unsure" ? "cannot tell" : verdict}. The judge: ${score.toFixed(2)}${explanation ? `. ${explanation}` : ""}`);
    buttons();
  });
  if (done) showProgress((await asked()).progress);
}

async function undo() {
  if (busy || !last) return;
  await send(last, "undo", () => { last = null; });
  await next();
}

async function send(id, verdict, then) {
  busy = true;
  try {
    then(await api.queueLabel(id, { by: who.elements.by.value.trim(), verdict }));
  } catch (error) {
    status(`Not saved: ${error.message}`, "wrong");
  } finally {
    busy = false;
  }
}

function status(text, state = "") {
  byId("judge").textContent = text;
  byId("judge").dataset.state = state;
}

const ACTIONS = {
  g: () => say("good"), b: () => say("bad"), x: () => say("unsure"), u: undo,
  Enter: () => (done ? guarded(next) : undefined),
};
const BUTTONS = { good: ACTIONS.g, bad: ACTIONS.b, unsure: ACTIONS.x, undo: ACTIONS.u, next: ACTIONS.Enter };

async function guarded(action) {
  try {
    await action();
  } catch (error) {
    status(error.message, "wrong");
    document.body.dataset.ready = "yes";
  }
}

function start() {
  try { who.elements.by.value = localStorage.getItem(NAME) ?? ""; } catch { /* private mode */ }
  who.addEventListener("submit", (event) => { event.preventDefault(); document.activeElement.blur(); guarded(next); });
  who.addEventListener("change", (event) => {
    event.target.blur?.();
    try { localStorage.setItem(NAME, who.elements.by.value.trim()); } catch { /* private mode */ }
    guarded(next);
  });
  byId("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    who.elements.by.value = event.target.elements.name.value.trim();
    if (!who.elements.by.value) return;
    byId("ask").close();
    document.activeElement.blur();
    who.dispatchEvent(new Event("change"));
  });
  byId("verdicts").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) guarded(BUTTONS[button.value]);
  });
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, button")) return;
    if (!(event.key in ACTIONS)) return;
    event.preventDefault();
    guarded(ACTIONS[event.key]);
  });
  document.body.dataset.ready = "yes";
  guarded(next);
}

start();
