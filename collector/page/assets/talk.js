// A conversation as the user saw it, with what happened in between.

import { h, prose } from "./dom.js";
import { clock } from "./format.js";

const WHO = { user: "user", assistant: "application", tool: "tool", system: "system prompt", developer: "system prompt" };

/** All kept turns of the conversation; the judged one is marked. */
export function talk(turns, subject) {
  if (turns.length === 0) {
    return h("p", { class: "nothing" }, "The text of this conversation is not kept any more; its trace may still have it.");
  }
  const known = !subject.turn_id || turns.some((turn) => turn.turn_id === subject.turn_id);
  return h("div", { class: "talk" },
    system(turns[0]),
    (turns[0].history || []).filter((message) => !["system", "developer"].includes(message.role)).map(past),
    known ? null : h("p", { class: "nothing" }, "The judged turn itself is not kept any more; these are others of its conversation."),
    turns.map((turn) => exchange(turn, turns.length > 1 && turn.judged && Boolean(subject.turn_id))));
}

function system(turn) {
  const said = turn.system_prompt || (turn.history || []).find((message) => ["system", "developer"].includes(message.role))?.content;
  return said ? h("details", { class: "aside" }, h("summary", {}, "System prompt"), prose(said)) : null;
}

function past(message) {
  return h("div", { class: "said past", "data-role": message.role === "user" ? "user" : "application" },
    h("p", { class: "who" }, WHO[message.role] || message.role),
    message.content ? prose(message.content) : null,
    (message.tool_calls || []).map(tool));
}

function exchange(turn, judged) {
  return h("div", { class: "turn", "data-judged": judged ? "yes" : null, "data-turn": turn.turn_id },
    judged ? h("p", { class: "what judged-mark" }, "judged turn") : null,
    bubble("user", turn.input, turn.started_at),
    (turn.tools_called || []).map(tool),
    retrieved(turn.retrieval_context || [], turn.judged),
    turn.error ? h("p", { class: "broken" }, "The application failed: ", h("code", { dir: "auto" }, turn.error)) : null,
    turn.incomplete ? h("p", { class: "broken" }, `Not complete in the trace: ${turn.incomplete.replaceAll("_", " ")}`) : null,
    bubble("application", turn.actual_output, turn.ended_at, turn.model));
}

function bubble(role, text, at, model) {
  if (!text) return null;
  return h("div", { class: "said", "data-role": role },
    h("p", { class: "who" }, role, model ? h("span", { class: "what" }, ` ${model}`) : null,
      at ? h("time", { class: "what", datetime: at }, ` ${clock(Date.parse(at) / 1000)}`) : null),
    prose(text));
}

function tool(call) {
  const has = (value) => value !== null && value !== undefined;
  return h("details", { class: "aside" },
    h("summary", {}, "Tool ", h("code", {}, call.name)),
    has(call.arguments) ? [h("p", { class: "who" }, "called with"), prose(asText(call.arguments))] : null,
    h("p", { class: "who" }, has(call.result) ? "gave" : "its result is not in the trace"),
    has(call.result) ? prose(asText(call.result)) : null);
}

function retrieved(passages, open) {
  if (passages.length === 0) return null;
  const title = passages.length === 1 ? "Retrieved 1 passage" : `Retrieved ${passages.length} passages`;
  return h("details", { class: "aside", open: open && passages.length <= 3 },
    h("summary", {}, title), h("ol", {}, passages.map((passage) => h("li", {}, prose(passage, 1500)))));
}

const asText = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2));
