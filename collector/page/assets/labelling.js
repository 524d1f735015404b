// What a person says of an evaluation.

import { h } from "./dom.js";
import { clock, day } from "./format.js";

const NAME = "evalstream.name";

/** The form; `save` is called with what was said and answers with a promise. */
export function labelForm({ evaluation, label }, save) {
  const note = h("textarea", { name: "note", rows: 1, maxlength: 4000, placeholder: "What did the judge miss?" });
  note.value = label?.note ?? "";
  const own = h("input", { name: "score", type: "number", min: 0, max: 1, step: "any", inputmode: "decimal", value: label?.score ?? "" });
  const status = h("p", { class: "status", role: "status" }, label ? given(label) : "");
  const button = h("button", { type: "submit", class: "primary" }, "Save label");
  const form = h(
    "form", {
      class: "labelling", "aria-label": "Your label",
      onsubmit: async (event) => {
        event.preventDefault();
        await send(form, status, button, save);
      },
    },
    evaluation.outcome === "scored"
      ? h("fieldset", { class: "opinions" }, h("legend", {}, evaluation.judge ? "Is the judge right?" : "Is the score right?"),
        choice("agree", "✓ Agree", label?.opinion), choice("disagree", "✗ Disagree", label?.opinion))
      : null,
    h("label", { class: "own" }, h("span", {}, "Your score, 0–1"), own),
    h("label", { class: "by" }, h("span", {}, "Your name"), h("input", { name: "by", maxlength: 80, autocomplete: "nickname", value: remembered() })),
    h("label", { class: "note" }, h("span", {}, "Note"), note),
    button,
    status,
  );
  return form;
}

function choice(value, text, chosen) {
  return h("label", { class: "choice" }, h("input", { type: "radio", name: "opinion", value, checked: chosen === value }), h("span", {}, text));
}

async function send(form, status, button, save) {
  const said = { opinion: form.elements.opinion?.value || null, note: form.elements.note.value, by: form.elements.by.value };
  const own = form.elements.score.value;
  said.score = own === "" ? null : Number(own);
  status.dataset.state = "";
  if (!said.opinion && said.score === null && !said.note.trim()) {
    status.textContent = form.elements.opinion ? "Say agree or disagree, give a score, or write a note." : "Give a score, or write a note.";
    status.dataset.state = "wrong";
    return;
  }
  button.disabled = true;
  try {
    status.textContent = given(await save(said));
    remember(said.by);
  } catch (error) {
    status.textContent = `Not saved: ${error.message}`;
    status.dataset.state = "wrong";
  } finally {
    button.disabled = false;
  }
}

function given(label) {
  const at = Date.parse(label.given_at) / 1000;
  return `Saved ${day(at)}, ${clock(at, false)}${label.given_by ? ` by ${label.given_by}` : ""}.`;
}

function remembered() {
  try { return localStorage.getItem(NAME) ?? ""; } catch { return ""; }
}

function remember(name) {
  try { localStorage.setItem(NAME, name); } catch { /* private mode: asked again next time */ }
}
