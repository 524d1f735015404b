"""LlamaIndex's own OpenTelemetry integration: a span's contents are in its events, named by LlamaIndex's classes."""

from collections.abc import Mapping, Sequence

from collector.dialects.attributes import find_error, find_text, find_usage
from collector.dialects.call import Call, ChatMessage, as_messages
from collector.dialects.decode import decode
from collector.dialects.dialect import Coverage, Dialect
from collector.dialects.free_form import parse_answer, parse_question
from collector.dialects.messages import parse_messages, split_input
from collector.dialects.passages import parse_passages
from collector.otlp.span import Attributes, LogRecord, Span
from evaluators.cases import Json

_CHAT, _COMPLETION, _PIECE = "LLMChat", "LLMCompletion", "StreamChatDeltaReceivedEvent"
_STARTS = {f"{_CHAT}StartEvent": "messages", f"{_COMPLETION}StartEvent": "prompt"}
_ENDS = {f"{_CHAT}EndEvent": "messages", f"{_COMPLETION}EndEvent": "prompt"}
_RETRIEVAL, _QUERY, _RESPONSE = "RetrievalEndEvent", "QueryStartEvent", "QueryEndEvent"
_MESSAGE = "response.message."
_NOTHING: Attributes = {}


def read(span: Span, _records: Sequence[LogRecord]) -> Call | None:
    """Read a span by its events: a model's, a retriever's, or a query engine's; None for any other."""
    events: dict[str, Attributes] = {event.name: event.attributes for event in span.events}
    if _RETRIEVAL in events:
        retrieval = events[_RETRIEVAL]
        query = find_text(retrieval, "str_or_query_bundle.query_str", "str_or_query_bundle")
        return Call(kind="retrieval", passages=parse_passages(retrieval.get("nodes")), query=query)
    if _QUERY in events or _RESPONSE in events:
        return _read_query(events.get(_QUERY, _NOTHING), events.get(_RESPONSE, _NOTHING))
    if _PIECE in events:  # the words of a stream, beside the span of its request
        pieces = [str(event.attributes.get("delta", "")) for event in span.events if event.name == _PIECE]
        message = ChatMessage("assistant", "".join(pieces))
        return Call(kind="model", output=(message,), sources={"output": f"event:{_PIECE}:delta"})
    return _read_model(span, events)


def _read_query(start: Attributes, end: Attributes) -> Call:
    question = parse_question(find_text(end, "query.query_str", "query") or find_text(start, "query"))
    answer = parse_answer(find_text(end, "response.response", "response"))
    return Call(kind="chain", input=question.messages, output=answer.messages)


def _read_model(span: Span, events: Mapping[str, Attributes]) -> Call | None:
    start = next((events[name] for name in _STARTS if name in events), _NOTHING)
    end = next((events[name] for name in _ENDS if name in events), _NOTHING)
    if not (start or end):
        return None
    places = {name: key for name, key in {**_STARTS, **_ENDS}.items() if key in events.get(name, _NOTHING)}
    name = next(iter(places), "")
    prompt = parse_messages(events[name][places[name]], "user") if name else parse_messages(None, "user")
    answer = parse_messages(_find_answer(end), "assistant")
    error = find_error(span, answered=bool(answer.messages))
    return Call(
        kind="model",
        **split_input(prompt.messages),
        output=as_messages(answer.messages),
        input_incomplete=prompt.incomplete,
        output_incomplete=answer.incomplete or (None if end or error else "no_content"),
        error=error,
        model=find_text(end, "response.raw.model") or find_text(start, "model_dict.model_name", "model_dict.model"),
        response_id=find_text(end, "response.raw.id"),
        usage=find_usage(end, _TOKENS_IN, _TOKENS_OUT),
        sources={"input": f"event:{name}:{places[name]}"} if name else {},
    )


_TOKENS_IN = ("response.raw.usage.prompt_tokens", "response.raw.usage.input_tokens")
_TOKENS_OUT = ("response.raw.usage.completion_tokens", "response.raw.usage.output_tokens")


def _find_answer(end: Attributes) -> Json:
    """The message of a response, whose fields have names of their own."""
    fields = {key[len(_MESSAGE) :]: decode(value) for key, value in end.items() if key.startswith(_MESSAGE)}
    calls = fields.pop("additional_kwargs.tool_calls", None)
    if fields:
        return {**fields, **({"tool_calls": calls} if calls else {})}
    return find_text(end, "response.text")


DIALECT = Dialect(
    name="llamaindex",
    rank=340,
    read=read,
    events=frozenset({*_STARTS, *_ENDS, _RETRIEVAL, _QUERY, _RESPONSE, _PIECE}),
    coverage=Coverage(
        libraries="LlamaIndex (its own OpenTelemetry integration)",
        messages="events of model calls; answers of streamed agents are not written",
        tools="messages",
        retrieval="RetrievalEndEvent",
        conversation="none (the application's own)",
    ),
)
