"""OpenInference (Arize, Phoenix): one attribute per message field, indexed, and the raw request and response beside."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from collector.dialects.attributes import find_error, find_redaction, find_text, find_usage, group_indexed, parse_texts
from collector.dialects.call import Call, ChatMessage, Kind, Passage, as_messages, parse_finish_reason
from collector.dialects.decode import as_dict, as_list, decode, looks_like_repr, parse_repr
from collector.dialects.dialect import Coverage, Dialect
from collector.dialects.free_form import Content, exchanged, parse_answer, parse_query, parse_question
from collector.dialects.messages import parse_messages, parse_printed
from collector.dialects.parts import is_free_of_tools, parse_arguments
from collector.dialects.passages import parse_passage, parse_passages
from collector.dialects.plain_messages import convert_plain_messages
from collector.dialects.program_fields import is_list_of_parts
from collector.otlp.span import Attributes, LogRecord, Span
from evaluators.cases import Feedback, Json, ToolCall

_KIND = "openinference.span.kind"
_JSON = "application/json"
_INPUT = "llm.input_messages."
_OUTPUT = "llm.output_messages."
_INPUT_TRANSCRIPT = "input.audio.transcript"
_OUTPUT_TRANSCRIPT = "output.audio.transcript"
_END = "end_reason"
"""The end of a spoken turn: `complete`, `interrupted`, `session_closed`."""

_KINDS: dict[str, Kind] = {
    "LLM": "model",
    "AGENT": "agent",
    "TOOL": "tool",
    "RETRIEVER": "retrieval",
    "RERANKER": "auxiliary",
    "GUARDRAIL": "auxiliary",
    "EVALUATOR": "auxiliary",
    "EMBEDDING": "other",
    "PROMPT": "other",
    "USER": "other",  # the user's words, which the enclosing turn has, too
    "AUDIO": "agent",  # a turn of a conversation by voice
}
_STEPS = frozenset({"CHAIN", "DECISION"})


def read(span: Span, _records: Sequence[LogRecord]) -> Call | None:
    """Read a span by its OpenInference kind; if an attribute limit dropped the kind, by its messages."""
    attributes = span.attributes
    name = find_text(attributes, _KIND)
    if name is None:
        if not _has_messages(attributes):
            return None
        name = "LLM"
    kind = "agent" if "crew_inputs" in attributes else _KINDS.get(name.upper(), "chain")  # CrewAI's root is a CHAIN
    if "instructor.response_model" in attributes:
        return _read_structured(span)
    if kind == "auxiliary" and find_text(attributes, "type") in _GUARDED:
        return _read_guarded(span)
    if name.upper() == "AUDIO":
        return _read_spoken(span)
    if kind == "chain" and name.upper() not in _STEPS and _has_messages(attributes):
        return _read_model(span, kind)  # a kind of its own: a model's call, where it encloses no other
    return _READERS[kind](span, kind)


def _has_messages(attributes: Attributes) -> bool:
    return any(key.startswith((_INPUT, _OUTPUT)) for key in attributes)


def glance(span: Span) -> Kind | None:
    """See `Glance`: a span by its kind; a model's with counts of tokens, and one message of text as its only output."""
    attributes = span.attributes
    name = find_text(attributes, _KIND)
    if name is None or not _UNUSUAL.isdisjoint(attributes) or _may_have_feedback(attributes):
        return None
    kind = _KINDS.get(name.upper(), "chain")
    if name.upper() == "AUDIO" or (kind == "chain" and name.upper() not in _STEPS):
        return None
    return kind if kind != "model" or _has_plain_answer(attributes) else None


_UNUSUAL = frozenset({"crew_inputs", "instructor.response_model", "type"})
"""Attributes that may contradict a span's kind."""


def _has_plain_answer(attributes: Attributes) -> bool:
    output = {key: value for key, value in attributes.items() if key.startswith(_OUTPUT)}
    answer = output.pop(f"{_OUTPUT}0.message.content", None)
    if output != {f"{_OUTPUT}0.message.role": "assistant"} or not isinstance(answer, str) or answer[:1] in {"[", "{"}:
        return False
    if find_usage(attributes, ("llm.token_count.prompt",), ("llm.token_count.completion",)) is None:
        return False
    return bool(answer) and is_free_of_tools(answer) and is_free_of_tools(attributes.get("llm.finish_reason"))


_GUARDED_CALL = "guardrails/guard/step/call"
_GUARDED = frozenset({"guardrails/guard", "guardrails/guard/step", _GUARDED_CALL})
"""The spans of Guardrails around the application's own model call; its validators are spans of their own."""


def _read_guarded(span: Span) -> Call:
    """Read a guard around the application's call. Its own input is a shortened repr; the call's has the messages."""
    if span.attributes["type"] != _GUARDED_CALL:
        return Call(kind="chain")
    call = _read_model(span, "model")
    for raw in (span.attributes.get("input.value"), span.attributes.get("llm.invocation_parameters")):
        fields = as_dict(decode(raw)) or as_dict(parse_repr(raw) if isinstance(raw, str) else None)
        # The indexed ones are a placeholder where the application gives messages.
        if messages := parse_messages(fields.get("messages")).messages:
            return call._replace(input=messages, input_incomplete=None)
    return call


def _read_model(span: Span, kind: Kind) -> Call:
    attributes = span.attributes
    input_, output = _parse_input(span), _parse_output(span)
    return _make_call(
        span,
        kind=kind,
        **exchanged(input_, output),
        finish_reason=parse_finish_reason(attributes.get("llm.finish_reason")),
        error=find_error(span, answered=output.messages is not None),
        response_id=_find_response_id(attributes),
        usage=find_usage(attributes, ("llm.token_count.prompt",), ("llm.token_count.completion",)),
        variables=_find_variables(attributes),
    )


def _parse_input(span: Span) -> Content:
    conventions = span.attributes.get("gen_ai.input.messages")
    if isinstance(conventions, str) and conventions.startswith("["):
        return Content(None)  # the originals of these messages, with one tool result each: another reader has them
    messages = _parse_indexed(span.attributes, _INPUT)
    raw = span.attributes.get("input.value")
    if messages and _PRINTED.match(messages[0].text):
        messages = _with_words_of(parse_messages(raw, "user").messages, messages)
    if messages and _lacks_tool_results(messages, span.attributes):
        messages = _parse_with_tool_results(raw) or messages
    if messages and any(map(_lacks_words, messages)):
        messages = _parse_with_words(raw, messages) or messages
    if span.attributes.get("llm.provider") == "google":
        messages = _parse_automatic_calling(span.attributes.get("output.value")) or messages
    if messages and not (span.dropped_attributes and isinstance(raw, str)):
        return Content(messages)
    indexed = [attribute.get("prompt.text") for attribute in group_indexed(span.attributes, "llm.prompts.")]
    prompts: Json = indexed or span.attributes.get("llm.prompts")
    if prompts and not messages:
        return Content(as_messages(parse_messages(prompts, "user").messages))
    if raw is None and not messages:
        return _parse_parameters(span.attributes.get("llm.invocation_parameters"))
    return _parse_raw(raw, "user", messages)


_PRINTED = re.compile(r"(?:System|User)Message \{ ")
"""How Java prints LangChain4j's messages: what its listener wrote as their texts up to 0.1.5."""


def _with_words_of(raw: Sequence[ChatMessage], printed: tuple[ChatMessage, ...]) -> tuple[ChatMessage, ...]:
    """Return the printed messages with the texts that the raw request has in their places."""
    pairs = zip(printed, raw, strict=False)
    return tuple([one._replace(text=other.text) for one, other in pairs]) if len(raw) == len(printed) else printed


def _lacks_tool_results(messages: Sequence[ChatMessage], attributes: Attributes) -> bool:
    """Whether tool results are empty, or fewer than the calls: early versions write only the last of several."""
    results = [message for message in messages if message.role == "tool"]
    if not results:
        return False
    are_few = len(results) < sum(len(message.tool_calls) for message in messages)
    return (are_few and attributes.get("input.mime_type") == _JSON) or not all(message.text for message in results)


def _parse_with_tool_results(raw: Json) -> tuple[ChatMessage, ...] | None:
    """Parse the raw request if it has the tool results, which Haystack leaves out of the indexed messages."""
    transcript = parse_messages(raw)
    has_results = (
        transcript.is_structured
        and not transcript.incomplete
        and any(message.role == "tool" and message.text for message in transcript.messages)
    )
    return transcript.messages if has_results else None


def _lacks_words(message: ChatMessage) -> bool:
    """Whether a message has nothing: instrumentations of JavaScript leave out messages that come in parts."""
    return message.role != "tool" and not (message.text or message.tool_calls or message.attachments)


def _parse_with_words(raw: Json, messages: Sequence[ChatMessage]) -> tuple[ChatMessage, ...] | None:
    """Parse the raw request if it has the words that are missing from these messages, and all of theirs."""
    transcript = parse_messages(raw, "user")
    if not transcript.is_structured or transcript.incomplete:
        return None
    if sum(map(_lacks_words, transcript.messages)) >= sum(map(_lacks_words, messages)):
        return None
    texts = {message.text for message in transcript.messages}
    missing = [message for message in messages if message.text and message.text not in texts]
    if any(message.role not in {"system", "tool"} for message in missing):
        return None  # another conversation
    return (*(message for message in missing if message.role == "system"), *transcript.messages)


def _parse_automatic_calling(response: Json) -> tuple[ChatMessage, ...] | None:
    """Parse the messages of a client that runs tools by itself: google-genai writes them into its response only."""
    if not isinstance(response, str) or '"automatic_function_calling_history":[{' not in response:
        return None
    return as_messages(parse_messages(as_dict(decode(response)).get("automatic_function_calling_history")).messages)


def _parse_parameters(value: Json) -> Content:
    """Parse a prompt among the parameters, under the names that Bedrock's models use."""
    parameters = as_dict(decode(value))
    if isinstance(parameters.get("chat_history"), list) or isinstance(parameters.get("messages"), list):
        return Content(as_messages(parse_messages(parameters).messages))
    prompt = find_text(parameters, "inputText", "message", "prompt")
    return Content((ChatMessage("user", prompt),) if prompt else None)


def _parse_output(span: Span) -> Content:
    messages = _parse_indexed(span.attributes, _OUTPUT)
    if messages and any(message.text or message.tool_calls for message in messages):
        return Content(messages)
    spoken = find_text(span.attributes, _OUTPUT_TRANSCRIPT)
    if spoken and not messages:
        return Content((ChatMessage("assistant", spoken),))
    raw = span.attributes.get("output.value")
    if messages:  # a refusal is in the raw response only
        content = (
            _parse_raw(raw, "assistant", messages)
            if span.attributes.get("output.mime_type") == _JSON
            else Content(messages)
        )
        return content if content.messages and any(message.text for message in content.messages) else Content(messages)
    texts = [attribute.get("completion.text") for attribute in group_indexed(span.attributes, "llm.choices.")]
    if any(isinstance(text, str) for text in texts):
        return Content(tuple(ChatMessage("assistant", text) for text in texts if isinstance(text, str)))
    if raw == "None":  # the library does not know the shape of this provider's responses
        return Content(None, "no_content")
    if "messages" in as_dict(decode(raw)):  # a prepared request, not an answer
        return Content(None)
    if isinstance(raw, str) and raw.startswith("assistant: "):
        raw = raw.removeprefix("assistant: ")
    return _parse_raw(raw, "assistant", None, json_type=span.attributes.get("output.mime_type") == _JSON)


def _parse_raw(raw: Json, role: str, fallback: tuple[ChatMessage, ...] | None, *, json_type: bool = True) -> Content:
    """Parse the raw request or response; if it cannot be parsed, fall back to the indexed attributes."""
    redaction = find_redaction(raw)
    if redaction or raw is None:
        return Content(fallback, None if fallback else redaction)
    transcript = parse_messages(raw, role)
    if fallback and not (transcript.is_structured and not transcript.incomplete):
        return Content(fallback)
    if not transcript.is_structured and not isinstance(decode(raw), str):  # JSON, but not messages
        return Content(as_messages(transcript.messages) if role == "assistant" and not json_type else None)
    messages = [message for message in transcript.messages if not looks_like_repr(message.text)]
    return Content(
        as_messages(messages), transcript.incomplete or ("no_content" if transcript.messages and not messages else None)
    )


def _parse_indexed(attributes: Attributes, beginning: str) -> tuple[ChatMessage, ...] | None:
    groups = [_to_openai_message(group) for group in group_indexed(attributes, beginning)]
    plain = convert_plain_messages(groups)
    if plain is None:
        return as_messages([message for group in groups for message in parse_messages([group]).messages])
    return as_messages(plain)


_PLAIN_KEYS = 2
"""Keys of a message with a role and a text, as nearly all are."""


def _to_openai_message(group: dict[str, Json]) -> dict[str, Any]:
    """Convert `message.role`, `message.contents.0.message_content.text`, … to one message as OpenAI writes it."""
    text = group.get("message.content")
    if len(group) == _PLAIN_KEYS and "message.role" in group and isinstance(text, str) and text[:1] != "[":
        return {"role": group["message.role"], "content": text}
    message: dict[str, Any] = {}
    nested = False
    for key, value in group.items():
        name = key.removeprefix("message.")
        if "." in name:
            nested = True
        else:
            message[name] = value
    message.setdefault("role", "assistant" if nested else "user")
    if message.get("tool_call_id") and message["role"] == "user":  # Anthropic's way of writing a tool result
        message["role"] = "tool"
    content = message.get("content")
    if isinstance(content, str) and content[:1] == "[" and is_list_of_parts(content):
        message["content"] = decode(content)
    if nested:
        answers = [decode(value) for key, value in group.items() if key.startswith("function.")]
        if answers:  # AutoGen
            return {"role": "tool", "content": answers}
        contents = [_to_content_part(each) for each in group_indexed(group, "message.contents.")]
        if contents:
            message["content"] = contents
        calls = [_to_tool_call(each) for each in group_indexed(group, "message.tool_calls.")]
        if calls:
            message["tool_calls"] = calls
        if function := find_text(group, "message.function_call_name"):
            arguments = group.get("message.function_call_arguments_json")
            message["function_call"] = {"name": function, "arguments": arguments}
    return message


def _to_content_part(group: dict[str, Json]) -> dict[str, Any]:
    part: dict[str, Any] = {key.removeprefix("message_content."): value for key, value in group.items()}
    part.setdefault("type", "text" if "text" in part else "image")
    for kind in ("image", "audio"):  # `image.image.url` and `audio.audio.mime_type` are fields of the same object
        names = [name for name in part if name.startswith(f"{kind}.")]
        fields = {name.removeprefix(f"{kind}.{kind}."): part.pop(name) for name in names}
        if fields:
            part[kind] = fields
    return part


def _to_tool_call(group: dict[str, Json]) -> dict[str, Any]:
    return {
        "id": group.get("tool_call.id"),
        "name": group.get("tool_call.function.name"),
        "arguments": group.get("tool_call.function.arguments", ""),  # some libraries omit empty arguments
    }


_PLACEHOLDERS = ("Execution Started", "Execution Completed")
"""LangChain4j's listeners write these around the calls of a service: nobody has said them."""


def _read_enclosing(span: Span, kind: Kind) -> Call:
    attributes = span.attributes
    texts = (attributes.get(key) for key in ("input.value", "output.value"))
    values = [None if text in _PLACEHOLDERS else text for text in texts]
    question, answer = parse_question(values[0]), parse_answer(values[1])
    task = _find_crew_task(attributes) if kind == "agent" else None
    return _make_call(
        span,
        kind=kind,
        input=(ChatMessage("user", task),) if task else question.messages,
        output=answer.messages,
        input_incomplete=question.incomplete,
        output_incomplete=answer.incomplete,
        error=find_error(span, answered=answer.messages is not None) if kind == "agent" else None,
        variables=_find_variables(attributes),
        passages=_parse_documents(attributes, "reranker.output_documents.") if kind == "auxiliary" else (),
    )


def _read_spoken(span: Span) -> Call:
    """Read a turn by voice; a span with only one side belongs to another span's exchange."""
    attributes = span.attributes
    question = find_text(attributes, _INPUT_TRANSCRIPT, "input.value")
    answer = find_text(attributes, _OUTPUT_TRANSCRIPT, "output.value")
    if not (question and answer) and _END not in attributes and not span.failed:
        return _make_call(span, kind="other")
    return _make_call(
        span,
        kind="agent",
        system=find_text(as_dict(decode(attributes.get("llm.invocation_parameters"))), "instructions"),
        input=(ChatMessage("user", question),) if question else None,
        output=(ChatMessage("assistant", answer),) if answer else None,
        input_incomplete=find_redaction(question),
        output_incomplete=find_redaction(answer),
        error=find_error(span, answered=answer is not None),
    )._replace(agent=find_text(attributes, "agent.name"))


def _find_crew_task(attributes: Attributes) -> str | None:
    """Find the task of CrewAI's agent, or of its crew if that has a single task."""
    if "crew_tasks" in attributes:
        tasks = as_list(decode(attributes["crew_tasks"]))
        return find_text(as_dict(tasks[0]), "description") if len(tasks) == 1 else None
    if "task_id" not in attributes:
        return None
    result = as_dict(decode(attributes.get("output.value")))
    return find_text(result, "description") if "raw" in result else None


def _read_structured(span: Span) -> Call:
    """Read Instructor's own span: the messages, and the object parsed from the answer; the call may be below it."""
    answer = find_text(span.attributes, "output.value")
    return _make_call(
        span,
        kind="agent",
        input=_parse_input(span).messages,
        output=(ChatMessage("assistant", answer),) if answer else None,
        input_incomplete=find_redaction(span.attributes.get("input.value")),
        output_incomplete=find_redaction(answer),
        error=find_error(span, answered=answer is not None),
    )


def _read_retrieval(span: Span, kind: Kind) -> Call:
    attributes = span.attributes
    passages = _parse_documents(attributes, "retrieval.documents.") or parse_passages(attributes.get("output.value"))
    return _make_call(span, kind=kind, passages=passages, query=parse_query(attributes.get("input.value")))


def _parse_documents(attributes: Attributes, beginning: str) -> tuple[Passage, ...]:
    groups = group_indexed(attributes, beginning)
    return tuple(
        parse_passage({key.removeprefix("document."): value for key, value in group.items()}) for group in groups
    )


def _read_tool(span: Span, kind: Kind) -> Call:
    attributes = span.attributes
    call = ToolCall(
        id=find_text(attributes, "tool_call.id", "tool.id"),
        name=find_text(attributes, "tool.name", "tool_call.function.name") or span.name.removesuffix(".__call__"),
        arguments=_parse_tool_arguments(attributes.get("input.value")),
        result=_parse_tool_output(attributes.get("output.value")),
    )
    return _make_call(span, kind=kind, tool=call)


def _parse_tool_arguments(value: Json) -> Json:
    """Parse a tool's arguments out of a Python call: its keyword arguments, if there are no positional ones."""
    call_arguments = parse_arguments(value)
    fields = as_dict(call_arguments)
    is_call = not fields.get("args") and fields.keys() <= {"args", "kwargs", "sanitize_inputs_outputs"}
    return as_dict(fields["kwargs"]) if is_call and isinstance(fields.get("kwargs"), dict) else call_arguments


def _parse_tool_output(value: Json) -> Json:
    fields = as_dict(decode(value))
    if "raw_output" in fields:  # LlamaIndex
        return decode(fields["raw_output"])
    text = fields["output"] if fields.keys() == {"output"} else value
    message = parse_printed(text, "tool") if isinstance(text, str) else None
    if message is not None:
        return decode(message.text)
    messages = parse_messages(fields, "tool").messages if {"lc", "data", "tool_call_id"} & fields.keys() else ()
    return decode(messages[-1].text) if messages else decode(value)


def _read_other(span: Span, kind: Kind) -> Call:
    return _make_call(span, kind=kind, variables=_find_variables(span.attributes))


_READERS: dict[Kind, Callable[[Span, Kind], Call]] = {
    "model": _read_model,
    "agent": _read_enclosing,
    "chain": _read_enclosing,
    "auxiliary": _read_enclosing,
    "retrieval": _read_retrieval,
    "tool": _read_tool,
    "other": _read_other,
}


def _make_call(span: Span, **fields: Any) -> Call:
    attributes = span.attributes
    kind: Kind = fields["kind"]
    return Call(
        model=find_text(attributes, "llm.response.model_name", "llm.model_name", "llm.request.model_name"),
        provider=find_text(attributes, "llm.provider", "llm.system"),
        agent=find_text(attributes, "agent.name") or (span.name if kind == "agent" else None),
        feedback=_parse_feedback(attributes),
        sources=_find_message_sources(span, kind, fields.get("input")),
        **fields,
    )


def _find_message_sources(span: Span, kind: Kind, messages: tuple[ChatMessage, ...] | None) -> dict[str, str]:
    attributes = span.attributes
    if kind == "retrieval":
        other = "output.value" in attributes and "retrieval.documents." not in "\n".join(attributes)
        return {"passages": "output.value" if other else "retrieval.documents.*"}
    sources: dict[str, str] = {}
    names = "\n".join(attributes)
    for field, beginning, raw in (("input", _INPUT, "input.value"), ("output", _OUTPUT, "output.value")):
        if kind == "model" and (names.startswith(beginning) or f"\n{beginning}" in names):
            is_evicted = field == "input" and span.dropped_attributes and raw in attributes
            is_raw = is_evicted and messages not in (None, _parse_indexed(attributes, beginning))
            sources[field] = raw if is_raw else f"{beginning}*"
        elif raw in attributes:
            sources[field] = raw
    for field, spoken in (("input", _INPUT_TRANSCRIPT), ("output", _OUTPUT_TRANSCRIPT)):
        if spoken in attributes and kind in {"model", "agent"}:
            sources.setdefault(field, spoken)
    return sources


_ID_FIRST = re.compile(r'\{"id":\s?"([^"]{1,200})"')


def _find_response_id(attributes: Attributes) -> str | None:
    raw = attributes.get("output.value")
    match = _ID_FIRST.match(raw) if isinstance(raw, str) else None
    return match[1] if match else None


def _find_variables(attributes: Attributes) -> dict[str, str]:
    return parse_texts(attributes.get("llm.prompt_template.variables"))


_FEEDBACK = tuple(
    (f"{level}{group}s.", f"{group}.") for level in ("", "trace.", "session.") for group in ("annotation", "evaluation")
)


def _may_have_feedback(attributes: Attributes) -> bool:
    names = " ".join(attributes)
    return "annotations." in names or "evaluations." in names


def _parse_feedback(attributes: Attributes) -> tuple[Feedback, ...]:
    feedback: list[Feedback] = []
    if not _may_have_feedback(attributes):
        return ()
    for beginning, prefix in _FEEDBACK:
        for group in group_indexed(attributes, beginning):
            annotation = {key.removeprefix(prefix): value for key, value in group.items()}
            score, who = annotation.get("score"), annotation.get("annotator_kind")
            feedback.append(
                Feedback(
                    name=find_text(annotation, "name") or "annotation",
                    value=score if isinstance(score, (int, float)) else None,
                    label=find_text(annotation, "label"),
                    comment=find_text(annotation, "explanation"),
                    source={"HUMAN": "user"}.get(who, who.lower()[:40]) if isinstance(who, str) else None,
                )
            )
    return tuple(feedback)


DIALECT = Dialect(
    name="openinference",
    rank=100,
    read=read,
    glance=glance,
    evidence=(_KIND, f"{_INPUT}*", f"{_OUTPUT}*"),
    coverage=Coverage(
        libraries="Arize and Phoenix instrumentations (OpenAI, LangChain, LlamaIndex, CrewAI, DSPy, Agents, BeeAI, "
        "Instructor, Google Gen AI, …), Guardrails",
        messages="indexed attributes, raw request and response",
        tools="messages, tool spans",
        retrieval="documents with text",
        conversation="session.id",
        user="user.id",
        feedback="annotations on spans",
    ),
)
