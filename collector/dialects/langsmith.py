"""LangSmith's OTel export: the raw request and response of every run."""

from collections.abc import Sequence

from collector.dialects.attributes import find_error, find_sources, find_text, parse_texts, parse_usage
from collector.dialects.call import Call, Kind, read_by_kind
from collector.dialects.decode import as_dict, decode
from collector.dialects.dialect import Coverage, Dialect
from collector.dialects.free_form import exchanged, parse_content, parse_query
from collector.dialects.messages import parse_messages
from collector.dialects.parts import parse_arguments
from collector.dialects.passages import parse_passages
from collector.otlp.span import LogRecord, Span
from evaluators.cases import Json, ToolCall

_KIND = "langsmith.span.kind"
_PROMPT = "gen_ai.prompt"
_COMPLETION = "gen_ai.completion"
_KINDS: dict[str, Kind] = {
    "llm": "model",
    "tool": "tool",
    "retriever": "retrieval",
    **dict.fromkeys(("embedding", "prompt", "parser"), "other"),
}
_STEPS = frozenset({"chain"})


def read(span: Span, _records: Sequence[LogRecord]) -> Call | None:
    """Read a run. A failed one may have status OK: then its exception event and the missing output identify it."""
    name = find_text(span.attributes, _KIND)
    if name is None:
        return None
    return read_by_kind(name, _KINDS, _STEPS, span, lambda kind: _read_as(kind, span, name))


def _read_as(kind: Kind, span: Span, name: str) -> Call:
    attributes = span.attributes
    input_value, output_value = attributes.get(_PROMPT), attributes.get(_COMPLETION)
    question, answer = parse_content(input_value, kind, "user"), parse_content(output_value, kind, "assistant")
    return Call(
        kind=kind,
        **exchanged(question, answer),
        error=find_error(span, answered=answer.messages is not None) if kind == "model" else None,
        model=find_text(
            attributes, "gen_ai.response.model", "gen_ai.request.model", "langsmith.metadata.ls_model_name"
        ),
        usage=parse_usage(attributes.get("langsmith.metadata.usage_metadata")) if kind == "model" else None,
        tool=_parse_tool(span, input_value, output_value) if kind == "tool" else None,
        passages=parse_passages(output_value) if kind == "retrieval" else (),
        query=parse_query(input_value) if kind == "retrieval" else None,
        variables=parse_texts(input_value) if name == "prompt" else {},
        sources=find_sources(attributes, input=_PROMPT, output=_COMPLETION),
    )


def _parse_tool(span: Span, input_value: Json, output_value: Json) -> ToolCall:
    tool_arguments = decode(input_value)
    if as_dict(tool_arguments).keys() == {"input"}:  # LangChain: the arguments' repr
        tool_arguments = as_dict(tool_arguments)["input"]
    result = decode(output_value)
    result = as_dict(result).get("output", result)
    messages = parse_messages(result, "tool").messages if "lc" in as_dict(result) else ()
    return ToolCall(
        id=messages[-1].tool_call_id if messages else None,
        name=find_text(span.attributes, "gen_ai.tool.name", "langsmith.trace.name") or span.name,
        arguments=parse_arguments(tool_arguments),
        result=decode(messages[-1].text if messages else result),
    )


DIALECT = Dialect(
    name="langsmith",
    rank=210,
    read=read,
    evidence=(_KIND,),
    coverage=Coverage(
        libraries="LangSmith SDK's OTel export (LangChain, wrapped OpenAI, traceable functions)",
        messages="raw request and response",
        tools="messages, tool runs",
        retrieval="retriever runs, templates' variables",
        conversation="langsmith.metadata.session_id, .thread_id, .conversation_id",
        user="langsmith.metadata.user_id",
    ),
)
