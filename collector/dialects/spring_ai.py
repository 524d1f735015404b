"""Spring AI: chat clients, models and vector stores."""

from __future__ import annotations

from collections.abc import Sequence

from collector.dialects.call import Call, Kind, Passage, Said, listed
from collector.dialects.decode import as_list, decoded
from collector.dialects.dialect import Carries, Dialect
from collector.dialects.messages import messages
from collector.dialects.reading import failure, masked_hole, passages_in, text_at
from collector.span import LogRecord, Span
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
        return None  # LangSmith and old Strands write another thing under the same names
    if _DOCUMENTS in attributes or _QUERY in attributes:
        return Call(
            dialect="spring_ai",
            kind="retrieval",
            passages=_passages(attributes.get(_DOCUMENTS)),
            query=text_at(attributes, _QUERY),
            found={"passages": _DOCUMENTS},
        )
    if not ({_KIND, _PROMPT, _COMPLETION} & attributes.keys()):
        return None
    is_client = text_at(attributes, _KIND) in {"chat_client", "advisor"}
    if is_client and text_at(attributes, _KIND) == "advisor":
        return Call(dialect="spring_ai", kind="chain")
    return _exchange(span, "workflow" if is_client else "model")


def _exchange(span: Span, kind: Kind) -> Call:
    attributes = span.attributes
    given, came = _texts(attributes.get(_PROMPT), "user"), _texts(attributes.get(_COMPLETION), "assistant")
    user = text_at(attributes, _USER_TEXT)
    if user:
        given = (Said("user", user),)
    has_content = bool(given or came)
    return Call(
        dialect="spring_ai",
        kind=kind if kind == "workflow" or has_content else "other",
        system=text_at(attributes, "spring.ai.chat.client.system.text"),
        input=listed(given),
        output=listed(came),
        input_hole=masked_hole(attributes.get(_PROMPT)),
        output_hole=masked_hole(attributes.get(_COMPLETION)),
        error=failure(span, answered=bool(came)) if kind == "model" and has_content else None,
        found={field: key for field, key in (("input", _PROMPT), ("output", _COMPLETION)) if key in attributes},
    )


def _texts(value: Json, role: str) -> tuple[Said, ...]:
    """One text, messages, or a list of texts without roles."""
    inner = decoded(value)
    texts = [each for each in as_list(inner) if isinstance(each, str)]
    if texts and len(texts) == len(as_list(inner)):
        return tuple(Said(role, text) for text in texts)
    return messages(value, role).said


def _passages(value: Json) -> tuple[Passage, ...]:
    inner = decoded(value)
    texts = [each for each in as_list(inner) if isinstance(each, str)]
    return tuple(Passage(text) for text in texts) or passages_in(inner)


DIALECT = Dialect(
    name="spring_ai",
    rank=300,
    read=read,
    evidence=("spring.ai.*", _PROMPT, _COMPLETION, "db.vector.query.*"),
    carries=Carries(
        libraries="Spring AI",
        messages="gen_ai.prompt, gen_ai.completion (older versions; newer ones log them)",
        retrieval="vector stores' queries",
        conversation="spring.ai.chat.client.conversation.id",
    ),
)
