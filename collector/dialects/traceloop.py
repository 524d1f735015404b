"""OpenLLMetry (Traceloop): indexed messages, still widely deployed, and workflow, task and tool spans.

Newer versions write messages by the conventions, which `otel_genai` reads. Clients that do not know a model's API
(SageMaker's, an application's own) record bodies as they were on the wire; the text of a streamed answer has one JSON
document a line, or server-sent events.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from collector.dialects.attributes import find_error, find_sources, find_text, find_usage, parse_texts, parse_usage
from collector.dialects.call import Call, ChatMessage, Kind, Passage, as_messages, parse_finish_reason
from collector.dialects.decode import as_dict, as_list, decode, decode_json, parse_repr
from collector.dialects.dialect import Coverage, Dialect
from collector.dialects.free_form import Content, exchanged, parse_answer, parse_query, parse_question
from collector.dialects.indexed_messages import COMPLETION, PROMPT, parse_indexed_messages
from collector.dialects.messages import parse_messages, parse_tool_calls, split_input, split_system_prompt
from collector.dialects.parts import JsonObject, parse_arguments
from collector.dialects.passages import parse_passage, parse_passages
from collector.otlp.span import LogRecord, Span
from evaluators.cases import Json, ToolCall

_MAX_LINES = 20_000
_IGNORED = ("event:", "id:", "retry:", ":", "[DONE]")
_TEXTS = ("content", "text", "generated_text", "outputs", "completion")


def parse_raw_stream(value: Json) -> tuple[ChatMessage, ...] | None:
    """Join the pieces of an answer; None if the value is no stream's body, or has a line that cannot be read."""
    if not isinstance(value, str) or "\n" not in value.strip():
        return None
    chunks: list[JsonObject] = []
    for line in value.split("\n")[:_MAX_LINES]:
        event = line.strip().removeprefix("data:").strip()
        if not event or event.startswith(_IGNORED):
            continue
        chunk = as_dict(decode(event)) if event.startswith("{") else {}
        if not chunk:
            return None
        chunks.append(chunk)
    deltas = [find_delta for chunk in chunks for find_delta in _find_deltas(chunk)]
    texts = [text for delta in deltas if (text := find_text(delta, *_TEXTS)) is not None]
    tools = _join_tool_calls(deltas)
    return (ChatMessage("assistant", "".join(texts), parse_tool_calls(tools)),) if texts or tools else None


def _find_deltas(chunk: JsonObject) -> Iterable[JsonObject]:
    """Find what a chunk adds: to the first choice, to a block (Anthropic), a token (TGI), or a text of its own."""
    choices = as_list(chunk.get("choices"))
    if choices:
        choice = as_dict(choices[0])
        yield as_dict(choice.get("delta")) or choice
    elif chunk.get("delta") is not None:
        yield as_dict(chunk["delta"]) or {"text": chunk["delta"]}
    elif chunk.get("token") is not None:
        token = as_dict(chunk["token"])
        yield {} if token.get("special") else token
    else:
        yield chunk


def _join_tool_calls(deltas: Sequence[JsonObject]) -> list[Any]:
    """Join the pieces of tool calls by their index: the first has the name, the others more of the arguments."""
    calls: dict[Json, dict[str, Any]] = {}
    for each in (as_dict(call) for delta in deltas for call in as_list(delta.get("tool_calls"))):
        function = as_dict(each.get("function"))
        call = calls.setdefault(repr(each.get("index")), {"id": None, "function": {"name": "", "arguments": ""}})
        call["id"] = call["id"] or each.get("id")
        for key in ("name", "arguments"):
            call["function"][key] += find_text(function, key) or ""
    return list(calls.values())


_INPUT = "traceloop.entity.input"
_OUTPUT = "traceloop.entity.output"
_QUERY_RESULT = "db.query.result"

_KINDS: dict[str, Kind] = {"workflow": "workflow", "agent": "agent", "tool": "tool"}  # task: a step around others
_REQUESTS: dict[str, Kind] = {"chat": "model", "completion": "model", "embedding": "other", "rerank": "auxiliary"}
_OPERATIONS: dict[str, Kind] = {
    **dict.fromkeys(("chat", "text_completion", "generate_content"), "model"),
    "execute_tool": "tool",
    "invoke_agent": "agent",
}


_RAW_SCOPES = ("opentelemetry.instrumentation.sagemaker",)
"""Instrumentations of clients that know nothing of the model: bodies as they were, and nothing of a failed call."""

_GO = ("llm.prompts.", "llm.completions.")
"""Messages of the SDK for Go, which writes names that those for other languages have left."""

_MESSAGE = re.compile(r"gen_ai\.(?:prompt|completion)\.\d")
"""The beginning of a message's attribute. The conventions have `gen_ai.prompt.name`, which is none."""


def read(span: Span, _records: Sequence[LogRecord]) -> Call | None:
    """Read a span that has indexed messages, a request type, or an entity."""
    attributes = span.attributes
    if span.scope == "litellm":
        return None  # uses the same names
    request = find_text(attributes, "llm.request.type")
    if request or any(map(_MESSAGE.match, attributes)):
        return _read_model(span, _REQUESTS.get(request or "chat", "model"))
    kind = find_text(attributes, "traceloop.span.kind")
    if kind is not None:
        operation = _OPERATIONS.get(find_text(attributes, "gen_ai.operation.name") or "")
        return _read_entity(span, operation or _KINDS.get(kind, "chain"))
    if span.scope.startswith(_RAW_SCOPES):
        return _read_raw(span)
    if "crewai.crew.result" in attributes:
        return _read_crew(span)
    results = [event.attributes for event in span.events if event.name == _QUERY_RESULT]
    if results:
        plain = [{key.removeprefix(f"{_QUERY_RESULT}."): value for key, value in of.items()} for of in results]
        return Call(kind="retrieval", passages=tuple(map(parse_passage, plain)))
    return None


def _read_model(span: Span, kind: Kind) -> Call:
    attributes = span.attributes
    encoded = span.scope.startswith("opentelemetry.instrumentation.bedrock")
    prompt, completion = _GO if any(key.startswith(_GO) for key in attributes) else (PROMPT, COMPLETION)
    system, input_messages = split_system_prompt(parse_indexed_messages(attributes, prompt, "user", encoded=encoded))
    output_messages = as_messages(parse_indexed_messages(attributes, completion, "assistant", encoded=encoded))
    if output_messages and span.scope.startswith("opentelemetry.instrumentation.google_generativeai"):
        output_messages = tuple(_strip_none_chunks(output_messages)) or None
    finish = output_messages[0].finish_reason if output_messages else None
    places = ("input", prompt, input_messages), ("output", completion, output_messages)
    return Call(
        kind=kind,
        system=system,
        input=as_messages(input_messages),
        output=output_messages,
        finish_reason=finish or parse_finish_reason(decode_json(attributes.get("llm.response.finish_reason"))),
        error=find_error(span, answered=output_messages is not None or "gen_ai.output.messages" in attributes),
        model=find_text(attributes, *_MODELS),
        provider=find_text(attributes, "gen_ai.system", "llm.vendor"),
        usage=find_usage(attributes, _TOKENS_IN, _TOKENS_OUT) if kind == "model" else None,
        sources={field: f"{beginning}*" for field, beginning, messages in places if messages},
    )


_NONE_CHUNKS = re.compile(r"\A(?:None)+(?=[A-Z]|\Z)")


def _strip_none_chunks(messages: Sequence[ChatMessage]) -> Iterable[ChatMessage]:
    """Strip `None` from Gemini's streams, where it was written for every chunk without a text."""
    for message in messages:
        text = _NONE_CHUNKS.sub("", message.text)
        if text or message.tool_calls or not message.text:
            yield message._replace(text=text)


_MODELS = ("gen_ai.response.model", "llm.response.model", "gen_ai.request.model", "llm.request.model")
_TOKENS_IN = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.usage.prompt_tokens")
_TOKENS_OUT = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.usage.completion_tokens")


def _read_raw(span: Span) -> Call:
    """Read the bodies of a request and its answer, in any shape of messages; a stream's body is its pieces."""
    attributes = span.attributes
    output_value = decode_json(attributes.get(_OUTPUT))
    question = parse_messages(attributes.get(_INPUT))
    output_messages = parse_raw_stream(output_value) or as_messages(parse_messages(output_value, "assistant").messages)
    return Call(
        kind="model",
        **split_input(question.messages),
        output=output_messages,
        input_incomplete=question.incomplete,
        error=find_error(span, answered=output_messages is not None),
        model=find_text(as_dict(output_value), "model") or find_text(attributes, "gen_ai.request.model"),
        response_id=find_text(as_dict(output_value), "id"),
        usage=parse_usage(as_dict(output_value).get("usage")),
        sources=find_sources(attributes, input=_INPUT, output=_OUTPUT),
    )


def _read_entity(span: Span, kind: Kind) -> Call:
    attributes = span.attributes
    input_value, output_value = attributes.get(_INPUT), decode_json(attributes.get(_OUTPUT))
    if kind == "chain" and isinstance(input_value, str) and '"run_type": "prompt"' in input_value:
        # one of LangChain's prompt templates, whose inputs are the variables of a prompt
        variables = parse_texts(as_dict(decode(input_value)).get("inputs"))
        return Call(variables=variables, sources={"variables": _INPUT})
    is_request = isinstance(input_value, str) and input_value.startswith(_LLAMAINDEX_REQUEST)
    if kind == "chain" and (is_request or as_dict(output_value).keys() >= _LLAMAINDEX_COMPLETION):
        return _read_llamaindex_task(span, input_value, output_value)
    documents = _parse_documents(output_value) if kind == "chain" else ()
    if documents:
        kind = "retrieval"
    elif {"tool_name", "raw_output"} <= as_dict(output_value).keys():  # LlamaIndex marks its tools as tasks
        kind = "tool"
    if "agno.team.name" in attributes:
        kind = "agent"
    if "crewai.task.description" in attributes:
        kind, input_value = "agent", input_value or attributes["crewai.task.description"]
    question, answer = _parse_contents(input_value, attributes.get(_OUTPUT), kind)
    return Call(
        kind=kind,
        **exchanged(question, answer),
        error=find_error(span, answered=answer.messages is not None) if kind == "agent" else None,
        agent=find_text(attributes, "traceloop.entity.name") if kind in {"agent", "workflow"} else None,
        tool=_parse_tool(span, input_value, output_value) if kind == "tool" else None,
        passages=documents,
        query=parse_query(input_value) if documents else None,
        sources=find_sources(attributes, input=_INPUT, output=_OUTPUT),
    )


_LLAMAINDEX_REQUEST = '{"messages": [{"role": '


_LLAMAINDEX_COMPLETION = {"text", "raw", "additional_kwargs"}


def _read_llamaindex_task(span: Span, input_value: Json, output_value: Json) -> Call:
    """Read a task that is LlamaIndex' model call: only the shape of its request and response identifies it."""
    response = as_dict(output_value)
    if output_value is not None and "raw" not in response:
        return Call(kind="chain")
    input_messages = (
        parse_messages(input_value).messages
        if "message" in response or output_value is None
        else parse_question(input_value).messages or ()
    )
    output_messages = parse_messages(response.get("message", response.get("text")), "assistant").messages
    raw = as_dict(response.get("raw"))
    return Call(
        kind="model",
        **split_input(input_messages),
        output=as_messages(output_messages),
        error=find_error(span, answered=bool(output_messages)),
        model=find_text(raw, "model"),
        response_id=find_text(raw, "id"),
        usage=parse_usage(raw.get("usage")),
        sources={"input": _INPUT, **({"output": _OUTPUT} if output_messages else {})},
    )


def _read_crew(span: Span) -> Call:
    """Read a run of CrewAI's crew, whose result is the answer to the user."""
    attributes = span.attributes
    return Call(
        kind="workflow",
        output=parse_answer(attributes["crewai.crew.result"]).messages,
        agent=find_text(attributes, "crewai.crew.name"),
        sources={"output": "crewai.crew.result"},
    )


def _parse_contents(input_value: Json, output_value: Json, kind: Kind) -> tuple[Content, Content]:
    if kind in {"agent", "workflow", "chain"}:
        return parse_question(input_value), parse_answer(decode_json(output_value))
    if kind != "model":
        return Content(None), Content(None)
    question, answer = parse_messages(input_value), parse_messages(output_value, "assistant")
    return (
        Content(as_messages(question.messages) if question.is_structured else None, question.incomplete),
        Content(as_messages(answer.messages) if answer.is_structured else None, answer.incomplete),
    )


def _parse_documents(output_value: Json) -> tuple[Passage, ...]:
    """Parse a task's output if it is a list of documents: Traceloop has no other attribute for them."""
    items = [as_dict(decode(each)) for each in as_list(output_value)]
    marks = {"id", "score", "metadata", "page_content", "doc_id", "node"}
    if items and all(marks & item.keys() and parse_passage(item).text for item in items):
        return parse_passages(output_value)
    return ()


_AGNO_RESULT = re.compile(r"status='\w+' result=(.*?) error=(?=None|')", re.DOTALL)


def _parse_agno_result(output_value: Json) -> Json:
    """Parse a tool's result out of Agno's description of it."""
    match = _AGNO_RESULT.match(output_value) if isinstance(output_value, str) else None
    return output_value if match is None else parse_repr(match[1])


def _parse_tool(span: Span, input_value: Json, output_value: Json) -> ToolCall:
    input_fields = as_dict(decode(input_value))
    tool_arguments: Json = input_fields.get("kwargs") or input_fields.get("args") or input_fields
    if "input_str" in input_fields:  # LangChain: the arguments' repr
        tool_arguments = parse_arguments(input_fields["input_str"])
    output_fields = as_dict(output_value)
    name = find_text(output_fields, "tool_name")
    output = output_fields.get("raw_output", output_fields.get("output", _parse_agno_result(output_value)))
    messages = parse_messages(output, "tool").messages if {"lc", "kwargs"} & as_dict(output).keys() else ()
    return ToolCall(
        id=find_text(span.attributes, "gen_ai.tool.call.id"),
        name=name or find_text(span.attributes, "gen_ai.tool.name", "traceloop.entity.name") or span.name,
        arguments=tool_arguments,
        result=decode(messages[-1].text if messages else output),
    )


DIALECT = Dialect(
    name="traceloop",
    rank=240,
    read=read,
    evidence=(
        "traceloop.span.kind",
        "traceloop.entity.*",
        f"{PROMPT}*",
        f"{COMPLETION}*",
        "llm.request.type",
        "crewai.crew.result",
    ),
    scopes=_RAW_SCOPES,
    events=frozenset({_QUERY_RESULT}),
    coverage=Coverage(
        libraries="OpenLLMetry and the Traceloop SDK, all generations (SageMaker among them)",
        messages="gen_ai.prompt.N, gen_ai.completion.N (≤ 0.4x); by the conventions since",
        tools="messages, tool spans",
        retrieval="tasks that give documents, templates' inputs, vector databases' events",
        conversation="traceloop.association.properties.session_id, .thread_id, .chat_id",
        user="traceloop.association.properties.user_id",
    ),
)
