"""OpenInference (Arize, Phoenix): one attribute per message field, indexed, and the raw request and response beside."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from collector.dialects.call import Call, Kind, Passage, Said, finish_of, listed
from collector.dialects.decode import as_dict, as_list, decoded
from collector.dialects.dialect import Carries, Dialect
from collector.dialects.free_form import Side, answer_in, question_in
from collector.dialects.messages import messages, printed
from collector.dialects.parts import arguments
from collector.dialects.reading import (
    failure,
    indexed,
    looks_like_repr,
    masked_hole,
    passage,
    passages_in,
    text_at,
    texts_in,
    usage_at,
)
from collector.span import Attributes, LogRecord, Span
from evaluators.cases import Feedback, Json, ToolCall

_KIND = "openinference.span.kind"
_JSON = "application/json"
_INPUT = "llm.input_messages."
_OUTPUT = "llm.output_messages."

_KINDS: dict[str, Kind] = {
    "LLM": "model",
    "AGENT": "agent",
    "TOOL": "tool",
    "RETRIEVER": "retrieval",
    "RERANKER": "aside",
    "GUARDRAIL": "aside",
    "EVALUATOR": "aside",
    "EMBEDDING": "other",
    "PROMPT": "other",
}


def read(span: Span, _records: Sequence[LogRecord]) -> Call | None:
    """Read a span by its OpenInference kind; where a limit took that away, by its messages."""
    attributes = span.attributes
    name = text_at(attributes, _KIND)
    if name is None:
        if not any(key.startswith((_INPUT, _OUTPUT)) for key in attributes):
            return None
        name = "LLM"
    kind = "agent" if "crew_inputs" in attributes else _KINDS.get(name.upper(), "chain")  # CrewAI's root is a CHAIN
    if "instructor.response_model" in attributes:
        return _structured(span)
    return _READERS[kind](span, kind)


def _model(span: Span, kind: Kind) -> Call:
    attributes = span.attributes
    given, came = _given(span), _came(span)
    return _common(
        span,
        kind=kind,
        input=given.said,
        output=came.said,
        input_hole=given.hole,
        output_hole=came.hole,
        finish=finish_of(attributes.get("llm.finish_reason")),
        error=failure(span, answered=came.said is not None),
        response_id=_response_id(attributes),
        usage=usage_at(attributes, ("llm.token_count.prompt",), ("llm.token_count.completion",)),
        variables=_variables(attributes),
    )


def _given(span: Span) -> Side:
    conventions = span.attributes.get("gen_ai.input.messages")
    if isinstance(conventions, str) and conventions.startswith("["):
        return Side(None)  # what these were made from, with each tool's answer by itself
    said = _indexed_messages(span.attributes, _INPUT)
    raw = span.attributes.get("input.value")
    if said and _lacks_answers(said, span.attributes):
        said = _with_answers(raw) or said
    if span.attributes.get("llm.provider") == "google":
        said = _called_by_itself(span.attributes.get("output.value")) or said
    if said and not (span.dropped_attributes and isinstance(raw, str)):
        return Side(said)
    prompts = [each.get("prompt.text") for each in indexed(span.attributes, "llm.prompts.")]
    prompts = prompts or span.attributes.get("llm.prompts")
    if prompts and not said:
        return Side(listed(messages(prompts, "user").said))
    if raw is None and not said:
        return _parameters(span.attributes.get("llm.invocation_parameters"))
    return _raw(raw, "user", said)


def _lacks_answers(said: Sequence[Said], attributes: Attributes) -> bool:
    """Whether tools' answers are empty, or fewer than what was asked: early versions keep the last of several."""
    told = [each for each in said if each.role == "tool"]
    if not told:
        return False
    asked = sum(len(each.calls) for each in said)
    return (len(told) < asked and attributes.get("input.mime_type") == _JSON) or not all(each.text for each in told)


def _with_answers(raw: Json) -> tuple[Said, ...] | None:
    """The raw request, where it has the tools' answers: Haystack's leaves them out of the indexed messages."""
    heard = messages(raw)
    there = heard.shaped and not heard.hole and any(each.role == "tool" and each.text for each in heard.said)
    return heard.said if there else None


def _called_by_itself(response: Json) -> tuple[Said, ...] | None:
    """The whole exchange of a client that runs tools by itself: google-genai tells it in its response only."""
    if not isinstance(response, str) or '"automatic_function_calling_history":[{' not in response:
        return None
    return listed(messages(as_dict(decoded(response)).get("automatic_function_calling_history")).said)


def _parameters(value: Json) -> Side:
    """A prompt among the parameters, under the name that Bedrock's models have for it."""
    held = as_dict(decoded(value))
    if isinstance(held.get("chat_history"), list) or isinstance(held.get("messages"), list):
        return Side(listed(messages(held).said))
    prompt = text_at(held, "inputText", "message", "prompt")
    return Side((Said("user", prompt),) if prompt else None)


def _came(span: Span) -> Side:
    said = _indexed_messages(span.attributes, _OUTPUT)
    if said and any(each.text or each.calls for each in said):
        return Side(said)
    raw = span.attributes.get("output.value")
    if said:  # a refusal is in the raw response only
        found = _raw(raw, "assistant", said) if span.attributes.get("output.mime_type") == _JSON else Side(said)
        return found if found.said and any(each.text for each in found.said) else Side(said)
    texts = [each.get("completion.text") for each in indexed(span.attributes, "llm.choices.")]
    if any(isinstance(text, str) for text in texts):
        return Side(tuple(Said("assistant", text) for text in texts if isinstance(text, str)))
    if raw == "None":  # a response of a provider whose shape the library does not know
        return Side(None, "no_content")
    if "messages" in as_dict(decoded(raw)):  # a prepared request, not an answer
        return Side(None)
    if isinstance(raw, str) and raw.startswith("assistant: "):
        raw = raw.removeprefix("assistant: ")
    json_type = span.attributes.get("output.mime_type") == _JSON
    return _raw(raw, "assistant", None, json_type=json_type)


def _raw(raw: Json, role: str, fallback: tuple[Said, ...] | None, *, json_type: bool = True) -> Side:
    """The raw request or response; where it cannot be read, what the indexed attributes say."""
    hole = masked_hole(raw)
    if hole or raw is None:
        return Side(fallback, None if fallback else hole)
    heard = messages(raw, role)
    if fallback and not (heard.shaped and not heard.hole):
        return Side(fallback)
    if not heard.shaped and not isinstance(decoded(raw), str):  # JSON, but nothing that was said
        return Side(listed(heard.said) if role == "assistant" and not json_type else None)
    said = [each for each in heard.said if not looks_like_repr(each.text)]
    return Side(listed(said), heard.hole or ("no_content" if heard.said and not said else None))


def _indexed_messages(attributes: Attributes, beginning: str) -> tuple[Said, ...] | None:
    groups = indexed(attributes, beginning)
    if not groups:
        return None
    return listed([said for group in groups for said in messages([_message(group)]).said])


def _message(group: dict[str, Json]) -> dict[str, Any]:
    """One message as OpenAI would write it, from `message.role`, `message.contents.0.message_content.text`, …"""
    message: dict[str, Any] = {}
    nested = False
    for key, value in group.items():
        name = key.removeprefix("message.")
        if "." in name:
            nested = True
        else:
            message[name] = value
    message.setdefault("role", "assistant" if nested else "user")
    if message.get("tool_call_id") and message["role"] == "user":  # Anthropic's way to tell what a tool gave
        message["role"] = "tool"
    answers = [decoded(value) for key, value in group.items() if key.startswith("function.")]
    if answers:  # AutoGen
        return {"role": "tool", "content": answers}
    if nested:
        contents = [_content(each) for each in indexed(group, "message.contents.")]
        if contents:
            message["content"] = contents
        calls = [_call(each) for each in indexed(group, "message.tool_calls.")]
        if calls:
            message["tool_calls"] = calls
        name = text_at(group, "message.function_call_name")
        if name:
            message["function_call"] = {"name": name, "arguments": group.get("message.function_call_arguments_json")}
    return message


def _content(group: dict[str, Json]) -> dict[str, Any]:
    part = {key.removeprefix("message_content."): value for key, value in group.items()}
    part.setdefault("type", "text" if "text" in part else "image")
    return part


def _call(group: dict[str, Json]) -> dict[str, Any]:
    return {
        "id": group.get("tool_call.id"),
        "name": group.get("tool_call.function.name"),
        "arguments": group.get("tool_call.function.arguments", ""),  # some leave empty ones out
    }


def _wrapper(span: Span, kind: Kind) -> Call:
    attributes = span.attributes
    given, came = question_in(attributes.get("input.value")), answer_in(attributes.get("output.value"))
    task = _crews_task(attributes) if kind == "agent" else None
    return _common(
        span,
        kind=kind,
        input=(Said("user", task),) if task else given.said,
        output=came.said,
        input_hole=given.hole,
        output_hole=came.hole,
        error=failure(span, answered=came.said is not None) if kind == "agent" else None,
        variables=_variables(attributes),
        passages=_documents(attributes, "reranker.output_documents.") if kind == "aside" else (),
    )


def _crews_task(attributes: Attributes) -> str | None:
    """What CrewAI's agent, or its crew if that has a single task, was asked to do."""
    if "crew_tasks" in attributes:
        tasks = as_list(decoded(attributes["crew_tasks"]))
        return text_at(as_dict(tasks[0]), "description") if len(tasks) == 1 else None
    if "task_id" not in attributes:
        return None
    made = as_dict(decoded(attributes.get("output.value")))
    return text_at(made, "description") if "raw" in made else None


def _structured(span: Span) -> Call:
    """Instructor's own span: the messages, and the object that was made of the answer; the call may be below."""
    came = text_at(span.attributes, "output.value")
    return _common(
        span,
        kind="agent",
        input=_given(span).said,
        output=(Said("assistant", came),) if came else None,
        input_hole=masked_hole(span.attributes.get("input.value")),
        output_hole=masked_hole(came),
        error=failure(span, answered=came is not None),
    )


def _retrieval(span: Span, kind: Kind) -> Call:
    attributes = span.attributes
    passages = _documents(attributes, "retrieval.documents.") or passages_in(attributes.get("output.value"))
    asked = question_in(attributes.get("input.value")).said
    return _common(span, kind=kind, passages=passages, query=asked[-1].text if asked else None)


def _documents(attributes: Attributes, beginning: str) -> tuple[Passage, ...]:
    groups = indexed(attributes, beginning)
    return tuple(passage({key.removeprefix("document."): value for key, value in group.items()}) for group in groups)


def _tool(span: Span, kind: Kind) -> Call:
    attributes = span.attributes
    given = _arguments(attributes.get("input.value"))
    call = ToolCall(
        id=text_at(attributes, "tool_call.id", "tool.id"),
        name=text_at(attributes, "tool.name", "tool_call.function.name") or span.name,
        arguments=given,
        result=_tool_result(attributes.get("output.value")),
    )
    return _common(span, kind=kind, tool=call)


def _arguments(value: Json) -> Json:
    """A tool's arguments, where a function was called with them: beside its positional ones and its switches."""
    given = arguments(value)
    held = as_dict(given)
    named = held.get("kwargs")
    if (
        isinstance(named, dict)
        and not held.get("args")
        and held.keys() <= {"args", "kwargs", "sanitize_inputs_outputs"}
    ):
        return as_dict(named)
    return given


def _tool_result(value: Json) -> Json:
    held = as_dict(decoded(value))
    if "raw_output" in held:  # LlamaIndex
        return decoded(held["raw_output"])
    text = held["output"] if held.keys() == {"output"} else value
    shown = printed(text, "tool") if isinstance(text, str) else None
    if shown is not None:
        return decoded(shown.text)
    said = messages(held, "tool").said if {"lc", "data", "tool_call_id"} & held.keys() else ()  # LangChain
    return decoded(said[-1].text) if said else decoded(value)


def _other(span: Span, kind: Kind) -> Call:
    return _common(span, kind=kind, variables=_variables(span.attributes))


_READERS: dict[Kind, Callable[[Span, Kind], Call]] = {
    "model": _model,
    "agent": _wrapper,
    "chain": _wrapper,
    "aside": _wrapper,
    "retrieval": _retrieval,
    "tool": _tool,
    "other": _other,
}


def _common(span: Span, **given: Any) -> Call:
    attributes = span.attributes
    kind: Kind = given["kind"]
    return Call(
        dialect="openinference",
        model=text_at(attributes, "llm.response.model_name", "llm.model_name", "llm.request.model_name"),
        provider=text_at(attributes, "llm.provider", "llm.system"),
        agent=text_at(attributes, "agent.name") or (span.name if kind == "agent" else None),
        feedback=_feedback(attributes),
        found=_places(attributes, kind),
        **given,
    )


def _places(attributes: Attributes, kind: Kind) -> dict[str, str]:
    if kind == "retrieval":
        return {"passages": "retrieval.documents.*"}
    places: dict[str, str] = {}
    for field, beginning, raw in (("input", _INPUT, "input.value"), ("output", _OUTPUT, "output.value")):
        if kind == "model" and any(key.startswith(beginning) for key in attributes):
            places[field] = f"{beginning}*"
        elif raw in attributes:
            places[field] = raw
    return places


_ID_FIRST = re.compile(r'\{"id":\s?"([^"]{1,200})"')


def _response_id(attributes: Attributes) -> str | None:
    raw = attributes.get("output.value")
    found = _ID_FIRST.match(raw) if isinstance(raw, str) else None
    return found[1] if found else None


def _variables(attributes: Attributes) -> dict[str, str]:
    return texts_in(attributes.get("llm.prompt_template.variables"))


_FEEDBACK = tuple(
    (f"{level}{group}s.", f"{group}.") for level in ("", "trace.", "session.") for group in ("annotation", "evaluation")
)
_FEEDBACK_BEGINNINGS = tuple(beginning for beginning, _ in _FEEDBACK)


def _feedback(attributes: Attributes) -> tuple[Feedback, ...]:
    found: list[Feedback] = []
    if not any(key.startswith(_FEEDBACK_BEGINNINGS) for key in attributes):
        return ()
    for beginning, prefix in _FEEDBACK:
        for group in indexed(attributes, beginning):
            said = {key.removeprefix(prefix): value for key, value in group.items()}
            score, who = said.get("score"), said.get("annotator_kind")
            found.append(
                Feedback(
                    name=text_at(said, "name") or "annotation",
                    value=score if isinstance(score, (int, float)) else None,
                    label=text_at(said, "label"),
                    comment=text_at(said, "explanation"),
                    source={"HUMAN": "user"}.get(who, who.lower()[:40]) if isinstance(who, str) else None,
                )
            )
    return tuple(found)


DIALECT = Dialect(
    name="openinference",
    rank=100,
    read=read,
    evidence=(_KIND, f"{_INPUT}*", f"{_OUTPUT}*"),
    carries=Carries(
        libraries="Arize and Phoenix instrumentations (OpenAI, LangChain, LlamaIndex, CrewAI, Agents, …)",
        messages="indexed attributes, raw request and response",
        tools="messages, tool spans",
        retrieval="documents with text",
        conversation="session.id",
        user="user.id",
        feedback="annotations on spans",
    ),
)
