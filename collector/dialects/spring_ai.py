"""Spring AI's spans: chat clients, models and vector stores."""

from __future__ import annotations

from collections.abc import Sequence

from collector.dialects.attributes import find_error, find_redaction, find_sources, find_text, parse_passages
from collector.dialects.call import Call, ChatMessage, Kind, Passage, as_messages
from collector.dialects.decode import as_list, decode
from collector.dialects.dialect import Coverage, Dialect
from collector.dialects.messages import parse_messages
from collector.otlp.span import LogRecord, Span
from evaluators.cases import Json

_KIND = "spring.ai.kind"
_PROMPT = "gen_ai.prompt"
_COMPLETION = "gen_ai.completion"
_USER_TEXT = "spring.ai.chat.client.user.text"
_QUERY = "db.vector.query.content"
_DOCUMENTS = "db.vector.query.response.documents"


def read(span: Span, _records: Sequence[LogRecord]) -> Call | None:
    """Read a chat client, a model call with its content on the span, or a vector store's query."""
    attributes = span.attributes
    if "langsmith.span.kind" in attributes or "gen_ai.event.start_time" in attributes:
        return None  # LangSmith and old Strands write something else under the same names
    if _DOCUMENTS in attributes or _QUERY in attributes:
        return Call(
            dialect="spring_ai",
            kind="retrieval",
            passages=_parse_documents(attributes.get(_DOCUMENTS)),
            query=find_text(attributes, _QUERY),
            sources={"passages": _DOCUMENTS},
        )
    if not ({_KIND, _PROMPT, _COMPLETION} & attributes.keys()):
        return None
    is_client = find_text(attributes, _KIND) in {"chat_client", "advisor"}
    if is_client and find_text(attributes, _KIND) == "advisor":
        return Call(dialect="spring_ai", kind="chain")
    return _read_call(span, "workflow" if is_client else "model")


def _read_call(span: Span, kind: Kind) -> Call:
    attributes = span.attributes
    input_messages, output_messages = (
        _parse_texts(attributes.get(_PROMPT), "user"),
        _parse_texts(attributes.get(_COMPLETION), "assistant"),
    )
    user = find_text(attributes, _USER_TEXT)
    if user:
        input_messages = (ChatMessage("user", user),)
    has_content = bool(input_messages or output_messages)
    return Call(
        dialect="spring_ai",
        kind=kind if kind == "workflow" or has_content else "other",
        system=find_text(attributes, "spring.ai.chat.client.system.text"),
        input=as_messages(input_messages),
        output=as_messages(output_messages),
        input_incomplete=find_redaction(attributes.get(_PROMPT)),
        output_incomplete=find_redaction(attributes.get(_COMPLETION)),
        error=find_error(span, answered=bool(output_messages)) if kind == "model" and has_content else None,
        sources=find_sources(attributes, input=_PROMPT, output=_COMPLETION),
    )


def _parse_texts(value: Json, role: str) -> tuple[ChatMessage, ...]:
    """Parse one text, messages, or a list of texts without roles."""
    inner = decode(value)
    texts = [each for each in as_list(inner) if isinstance(each, str)]
    if texts and len(texts) == len(as_list(inner)):
        return tuple(ChatMessage(role, text) for text in texts)
    return parse_messages(value, role).messages


def _parse_documents(value: Json) -> tuple[Passage, ...]:
    inner = decode(value)
    texts = [each for each in as_list(inner) if isinstance(each, str)]
    return tuple(Passage(text) for text in texts) or parse_passages(inner)


DIALECT = Dialect(
    name="spring_ai",
    rank=300,
    read=read,
    evidence=("spring.ai.*", _PROMPT, _COMPLETION, "db.vector.query.*"),
    coverage=Coverage(
        libraries="Spring AI",
        messages="gen_ai.prompt, gen_ai.completion (older versions; newer ones log them)",
        retrieval="vector stores' queries",
        conversation="spring.ai.chat.client.conversation.id",
    ),
)
