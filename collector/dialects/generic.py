"""What tools without a dialect of their own write: input and output of a step, under the names everybody uses.

Also the spans of Dify and of Alibaba's instrumentations, which say what a step is under `gen_ai.span.kind`.
"""

from __future__ import annotations

from collections.abc import Sequence

from collector.dialects.call import Call, Kind, listed
from collector.dialects.decode import as_list, decoded
from collector.dialects.dialect import Carries, Dialect
from collector.dialects.free_form import Side, answer_in, question_in
from collector.dialects.messages import messages, system_and_rest
from collector.dialects.parts import arguments
from collector.dialects.reading import failure, found_at, masked_hole, passages_in, text_at, usage_at
from collector.span import Attributes, LogRecord, Span
from evaluators.cases import Json, ToolCall

_KIND = "gen_ai.span.kind"
_KINDS: dict[str, Kind] = {
    "LLM": "model",
    "AGENT": "agent",
    "TOOL": "tool",
    "RETRIEVER": "retrieval",
    "RERANKER": "aside",
    "EMBEDDING": "other",
}  # CHAIN, TASK, STEP, ENTRY: a step around others
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
_BARE = frozenset({"prompt", "input", "completion", "output", "response"})
"""Names that any program may use for anything: they count only on a span that names a model."""

_OTHERS = "openinference.span.kind"


def read(span: Span, _records: Sequence[LogRecord]) -> Call | None:
    """Read a step; None without both an input and an output, or where another dialect says what the step is."""
    attributes = span.attributes
    if _OTHERS in attributes:
        return None
    given, given_at = found_at(attributes, *_INPUTS)
    came, came_at = found_at(attributes, *_OUTPUTS)
    said = text_at(attributes, _KIND)
    kind = _kind(span, said, given_at, came_at)
    if kind is None:
        return None
    if kind == "tool":
        return _tool(span, given, came)
    if kind == "retrieval":
        return _retrieval(attributes, given, came)
    asked, answered = _side(given, kind, "user"), _side(came, kind, "assistant")
    system, rest = system_and_rest(asked.said or ())
    return Call(
        dialect="generic",
        kind=kind,
        system=system,
        input=listed(rest),
        output=answered.said,
        input_hole=asked.hole,
        output_hole=answered.hole,
        error=failure(span, answered=answered.said is not None) if kind == "model" else None,
        model=text_at(attributes, *_MODELS) if kind == "model" else None,
        usage=usage_at(attributes, _TOKENS_IN, _TOKENS_OUT) if kind == "model" else None,
        agent=span.name if kind == "agent" else None,
        found={field: place for field, place in (("input", given_at), ("output", came_at)) if place},
    )


_TOKENS_IN = ("llm.usage.prompt_tokens", "llm.usage.input_tokens", "llm.token_count.prompt")
_TOKENS_OUT = ("llm.usage.completion_tokens", "llm.usage.output_tokens", "llm.token_count.completion")


def _kind(span: Span, said: str | None, given_at: str, came_at: str) -> Kind | None:
    """What a step is. Without a word about it: a model's call if it names a model, else what a root of a trace is."""
    if said is not None:
        kind = _KINDS.get(said.upper(), "chain")
        return "workflow" if kind == "chain" and not span.parent_span_id else kind
    if not (given_at and came_at):
        return None
    if text_at(span.attributes, *_MODELS):
        return "model"
    if given_at in _BARE or came_at in _BARE or given_at.startswith("gen_ai."):
        return None
    if given_at.startswith(("llm.", "lk.")):
        return "model"
    return "chain" if span.parent_span_id else "agent"


def _side(value: Json, kind: Kind, role: str) -> Side:
    texts = as_list(decoded(value))
    is_texts = bool(texts) and all(isinstance(each, str) for each in texts)
    if kind == "model" and not is_texts:
        heard = messages(value, role)
        if heard.shaped and heard.said:
            return Side(heard.said, heard.hole or masked_hole(value))
    return question_in(value) if role == "user" else answer_in(value)


def _tool(span: Span, given: Json, came: Json) -> Call:
    attributes = span.attributes
    asked = attributes.get("tool.parameters", given)
    name = text_at(attributes, "tool.name", "gen_ai.tool.name") or span.name
    call = ToolCall(
        id=text_at(attributes, "gen_ai.tool.call.id"), name=name, arguments=arguments(asked), result=decoded(came)
    )
    return Call(dialect="generic", kind="tool", tool=call)


def _retrieval(attributes: Attributes, given: Json, came: Json) -> Call:
    documents, place = found_at(attributes, "retrieval.document", "retrieval.documents")
    asked = question_in(attributes.get("retrieval.query", given)).said
    return Call(
        dialect="generic",
        kind="retrieval",
        passages=passages_in(documents) or passages_in(came),
        query=asked[-1].text if asked else None,
        found={"passages": place or "output.value"},
    )


DIALECT = Dialect(
    name="generic",
    rank=950,
    read=read,
    evidence=(_KIND, *(name for name in (*_INPUTS, *_OUTPUTS) if not name.startswith("gen_ai."))),
    carries=Carries(
        libraries="Dify, Alibaba's instrumentations, LiveKit, Pipecat, workflow tools, an application's own spans",
        messages="input.value, output.value, llm.prompts, llm.completions and the like",
        tools="tool spans, by gen_ai.span.kind",
        retrieval="retriever spans, by gen_ai.span.kind",
        conversation="session.id, gen_ai.session.id, conversation.id",
        user="user.id, gen_ai.user.id",
    ),
)
