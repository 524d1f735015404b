"""Steps of tools without a dialect of their own: input and output under the names that everybody uses.

Also the spans of Dify and of Alibaba's instrumentations, which have the kind of a step under `gen_ai.span.kind`.
"""

from collections.abc import Sequence
from typing import Literal

from collector.dialects.attributes import find_error, find_redaction, find_sources, find_text, find_usage, find_value
from collector.dialects.call import Call, Kind, as_messages
from collector.dialects.decode import as_list, decode
from collector.dialects.dialect import Coverage, Dialect
from collector.dialects.free_form import Content, exchanged, parse_answer, parse_query, parse_question
from collector.dialects.messages import parse_messages, split_system_prompt
from collector.dialects.parts import parse_arguments
from collector.dialects.passages import parse_passages
from collector.otlp.span import Attributes, LogRecord, Span
from evaluators.cases import Json, ToolCall

_KIND = "gen_ai.span.kind"
_KINDS: dict[str, Kind] = {
    "LLM": "model",
    "AGENT": "agent",
    "TOOL": "tool",
    "RETRIEVER": "retrieval",
    "RERANKER": "auxiliary",
    "EMBEDDING": "other",
}
_STEPS = frozenset({"CHAIN", "TASK", "STEP", "ENTRY"})
_MODELS = (
    "llm.model", "llm.model_name", "llm.request.model", "llm.response.model", "model", "model_name",
    "gen_ai.request.model", "gen_ai.response.model",
)  # fmt: skip
_INPUTS = (
    "input.value", "llm.input", "llm.prompts", "llm.prompt", "llm.request.messages", "llm.messages", "gen_ai.prompt",
    "lk.chat_ctx", "prompt", "input",
)  # fmt: skip
_OUTPUTS = (
    "output.value", "llm.output", "llm.completions", "llm.completion", "llm.response.content", "llm.response",
    "gen_ai.completion", "lk.response.text", "completion", "output", "response",
)  # fmt: skip
_AMBIGUOUS = frozenset({"prompt", "input", "completion", "output", "response"})
"""Names that any program may use for anything: they are evidence only on a span that names a model."""

_OPENINFERENCE_KIND = "openinference.span.kind"


def read(span: Span, _records: Sequence[LogRecord]) -> Call | None:
    """Read a step; None without both an input and an output (a model's call may lack one), or if another defines it."""
    attributes = span.attributes
    if _OPENINFERENCE_KIND in attributes:
        return None
    input_value, input_key = find_value(attributes, *_INPUTS)
    output_value, output_key = find_value(attributes, *_OUTPUTS)
    kind = _find_kind(span, find_text(attributes, _KIND), input_key, output_key)
    if kind is None:
        return None
    if kind == "tool":
        return _read_tool(span, input_value, output_value)
    if kind == "retrieval":
        return _read_retrieval(attributes, input_value, output_value)
    question, answer = _parse_content(input_value, kind, "user"), _parse_content(output_value, kind, "assistant")
    system, rest = split_system_prompt(question.messages or ())
    return Call(
        kind=kind,
        system=system,
        **exchanged(question._replace(messages=as_messages(rest)), answer),
        error=find_error(span, answered=answer.messages is not None) if kind == "model" else None,
        model=find_text(attributes, *_MODELS) if kind in {"model", "chain"} else None,
        usage=find_usage(attributes, _TOKENS_IN, _TOKENS_OUT) if kind == "model" else None,
        agent=span.name if kind == "agent" else None,
        sources=find_sources(attributes, input=input_key, output=output_key),
    )


def glance(span: Span) -> Literal["nothing"] | None:
    """See `Glance`: spans with an OpenInference kind are left to that dialect."""
    return "nothing" if _OPENINFERENCE_KIND in span.attributes else None


_TOKENS_IN = ("llm.usage.prompt_tokens", "llm.usage.input_tokens", "llm.token_count.prompt")
_TOKENS_OUT = ("llm.usage.completion_tokens", "llm.usage.output_tokens", "llm.token_count.completion")


def _find_kind(span: Span, kind_name: str | None, input_key: str, output_key: str) -> Kind | None:
    """The kind of a step. Without a declared one: a model call if it names a model, an agent if it is a root."""
    if kind_name is not None:
        kind = _KINDS.get(kind_name.upper(), "chain")
        is_model = kind_name.upper() not in {*_KINDS, *_STEPS} and find_text(span.attributes, *_MODELS)
        return "workflow" if kind == "chain" and not span.parent_span_id and not is_model else kind
    if not (input_key and output_key):
        is_call = input_key and "gen_ai.operation.name" in span.attributes and find_text(span.attributes, *_MODELS)
        return "model" if is_call else None  # it failed, or called a tool
    if find_text(span.attributes, *_MODELS):
        return "model"
    if input_key in _AMBIGUOUS or output_key in _AMBIGUOUS or input_key.startswith("gen_ai."):
        return None
    if input_key.startswith(("llm.", "lk.")):
        return "model"
    return "chain" if span.parent_span_id else "agent"


def _parse_content(value: Json, kind: Kind, role: str) -> Content:
    texts = as_list(decode(value))
    if kind == "model" and not (texts and all(isinstance(text, str) for text in texts)):
        transcript = parse_messages(value, role)
        if transcript.is_structured and transcript.messages:
            return Content(transcript.messages, transcript.incomplete or find_redaction(value))
    return parse_question(value) if role == "user" else parse_answer(value)


def _read_tool(span: Span, input_value: Json, output_value: Json) -> Call:
    attributes = span.attributes
    call = ToolCall(
        id=find_text(attributes, "gen_ai.tool.call.id"),
        name=find_text(attributes, "tool.name", "gen_ai.tool.name") or span.name,
        arguments=parse_arguments(attributes.get("tool.parameters", input_value)),
        result=decode(output_value),
    )
    return Call(kind="tool", tool=call)


def _read_retrieval(attributes: Attributes, input_value: Json, output_value: Json) -> Call:
    documents, source = find_value(attributes, "retrieval.document", "retrieval.documents")
    return Call(
        kind="retrieval",
        passages=parse_passages(documents) or parse_passages(output_value),
        query=parse_query(attributes.get("retrieval.query", input_value)),
        sources={"passages": source or "output.value"},
    )


DIALECT = Dialect(
    name="generic",
    rank=950,
    read=read,
    glance=glance,
    evidence=(_KIND, *(name for name in (*_INPUTS, *_OUTPUTS) if not name.startswith("gen_ai."))),
    coverage=Coverage(
        libraries="Dify, Alibaba's instrumentations, Pipecat, workflow tools, one's own spans",
        messages="input.value, output.value, llm.prompts, llm.completions and the like",
        tools="tool spans, by gen_ai.span.kind",
        retrieval="retriever spans, by gen_ai.span.kind",
        conversation="session.id, gen_ai.session.id, conversation.id",
        user="user.id, gen_ai.user.id",
    ),
)
