"""Spring AI's spans: chat clients, models and vector stores."""

from collections.abc import Mapping, Sequence

from collector.dialects.attributes import find_error, find_redaction, find_sources, find_text
from collector.dialects.call import Call, ChatMessage, Kind, as_messages
from collector.dialects.decode import decode
from collector.dialects.dialect import Coverage, Dialect
from collector.dialects.messages import parse_messages, split_system_prompt
from collector.dialects.parts import parse_arguments
from collector.dialects.passages import parse_passages
from collector.otlp.span import LogRecord, Span
from evaluators.cases import ToolCall

_KIND = "spring.ai.kind"
_PROMPT = "gen_ai.prompt"
_COMPLETION = "gen_ai.completion"
_QUERY = "db.vector.query.content"
_DOCUMENTS = "db.vector.query.response.documents"
_MODEL_PROMPT = "org.springframework.ai.chat.observation.ChatModelPromptContentObservationHandler"
_MODEL_COMPLETION = "org.springframework.ai.chat.observation.ChatModelCompletionObservationHandler"
_CLIENT_PROMPT = "org.springframework.ai.chat.client.observation.ChatClientPromptContentObservationHandler"
_CLIENT_COMPLETION = "org.springframework.ai.chat.client.observation.ChatClientCompletionObservationHandler"
_LOGGERS = frozenset({_MODEL_PROMPT, _MODEL_COMPLETION, _CLIENT_PROMPT, _CLIENT_COMPLETION})


def read(span: Span, records: Sequence[LogRecord]) -> Call | None:
    """Read a chat client, a model call with its content on the span or in log records, or a vector store's query."""
    attributes = span.attributes
    logged = {
        record.kind: record.body for record in records if record.kind in _LOGGERS and isinstance(record.body, str)
    }
    if logged:
        return _read_logged(span, logged)
    is_other = "langsmith.span.kind" in attributes or "gen_ai.event.start_time" in attributes
    if is_other or span.scope.startswith("io.quarkus"):
        return None  # LangSmith, old Strands and Quarkus write something else under the same names
    if _DOCUMENTS in attributes or _QUERY in attributes:
        return Call(
            kind="retrieval",
            passages=parse_passages(attributes.get(_DOCUMENTS)),
            query=find_text(attributes, _QUERY),
            sources={"passages": _DOCUMENTS},
        )
    if find_text(attributes, _KIND) == "tool_call":
        return _read_tool(span)
    if not ({_KIND, _PROMPT, _COMPLETION} & attributes.keys()):
        return None
    is_client = find_text(attributes, _KIND) in {"chat_client", "advisor"}
    if is_client and find_text(attributes, _KIND) == "advisor":
        return Call(kind="chain")
    return _read_call(span, "workflow" if is_client else "model")


def _read_call(span: Span, kind: Kind) -> Call:
    attributes = span.attributes
    input_messages = parse_messages(attributes.get(_PROMPT), "user").messages
    output_messages = parse_messages(attributes.get(_COMPLETION), "assistant").messages
    has_content = bool(input_messages or output_messages)
    return Call(
        kind=kind if kind == "workflow" or has_content else "other",
        input=as_messages(input_messages),
        output=as_messages(output_messages),
        input_incomplete=find_redaction(attributes.get(_PROMPT)),
        output_incomplete=find_redaction(attributes.get(_COMPLETION)),
        error=find_error(span, answered=bool(output_messages)) if kind == "model" and has_content else None,
        sources=find_sources(attributes, input=_PROMPT, output=_COMPLETION),
    )


def _read_tool(span: Span) -> Call:
    attributes = span.attributes
    tool = ToolCall(
        name=find_text(attributes, "spring.ai.tool.definition.name") or span.name.removeprefix("tool_call "),
        arguments=parse_arguments(attributes.get("spring.ai.tool.call.arguments")),
        result=decode(attributes.get("spring.ai.tool.call.result")),
    )
    return Call(kind="tool", tool=tool)


def _read_logged(span: Span, logged: Mapping[str, str]) -> Call:
    """Read a call whose content is in log records: lists of texts in quotes, without roles for a model's prompt."""
    is_client = _CLIENT_PROMPT in logged or _CLIENT_COMPLETION in logged
    prompt = _split_logged(logged.get(_CLIENT_PROMPT if is_client else _MODEL_PROMPT))
    answers = _split_logged(logged.get(_CLIENT_COMPLETION if is_client else _MODEL_COMPLETION))
    system, messages = split_system_prompt(_name_roles(prompt) if is_client else _guess_roles(prompt))
    output = tuple(ChatMessage("assistant", answer) for answer in answers)
    return Call(
        kind="workflow" if is_client else "model",
        system=system,
        input=as_messages(messages),
        output=output or None,
        error=None if is_client else find_error(span, answered=bool(output)),
        uncertain=not is_client and len(messages) > 1,
        sources={"input": "log records", "output": "log records"},
    )


def _split_logged(body: str | None) -> list[str]:
    """Split `Heading:` and a list of texts in quotes below it. Quotes inside texts are not escaped."""
    _, _, listing = (body or "").partition(":\n[")
    listing = listing.rstrip().removesuffix("]")
    return listing[1:-1].split('", "') if len(listing) > 1 else []


def _name_roles(items: Sequence[str]) -> list[ChatMessage]:
    """A client's prompt, whose items are `role":"text`."""
    return [ChatMessage(role, text) for role, _, text in (item.partition('":"') for item in items)]


def _guess_roles(items: Sequence[str]) -> list[ChatMessage]:
    """A model's prompt: the last message is the user's, user and assistant alternate, before them the system's.

    A requested tool is logged as "null", and its result as "".
    """
    texts = [item for item in items if item not in {"", "null"}]
    roles = ("user", "assistant")
    messages = [ChatMessage(roles[(len(texts) - 1 - index) % 2], text) for index, text in enumerate(texts)]
    if messages and messages[0].role == "assistant":
        messages[0] = messages[0]._replace(role="system")
    return messages


DIALECT = Dialect(
    name="spring_ai",
    rank=300,
    read=read,
    evidence=("spring.ai.*", _PROMPT, _COMPLETION, "db.vector.query.*"),
    records=_LOGGERS,
    own_records=_LOGGERS,
    coverage=Coverage(
        libraries="Spring AI",
        messages="log records of prompts and completions (1.0 and newer); gen_ai.prompt, gen_ai.completion",
        tools="tool spans",
        retrieval="vector stores' queries",
        conversation="spring.ai.chat.client.conversation.id",
    ),
)
