"""Log records of Gemini CLI, its fork Qwen Code, and Codex: one prompt of a user, and what followed.

Without spans these programs write a record for each prompt and each answer of a model. Codex never writes answers.
"""

from collections.abc import Sequence
from functools import reduce

from collector.dialects.attributes import find_redaction, find_text, find_usage
from collector.dialects.call import Call, ChatMessage, as_messages
from collector.dialects.decode import decode
from collector.dialects.message_events import join
from collector.dialects.messages import parse_messages
from collector.otlp.span import Attributes, LogRecord
from evaluators.cases import Incomplete

_PROGRAMS = {"gemini_cli.": "gemini_cli", "qwen-code.": "qwen_code", "codex.": "codex"}
"""Beginnings of their events' names, with the dialects' names."""
_EVENTS = ("user_prompt", "api_request", "api_response", "api_error")
NAMES = frozenset({"codex.user_prompt", *(begin + event for begin in tuple(_PROGRAMS)[:2] for event in _EVENTS)})
"""The events that are read."""

_MAIN = (None, "", "main")  # a sequence: what a log says may be no text
"""Roles of the calls that answer the user; others choose a model, shorten the history, or are sub-agents."""


def read_prompt(records: Sequence[LogRecord]) -> Call | None:
    """Read the records of one prompt; None if there is none among them."""
    prompt = next((record for record in records if record.event_name.endswith(".user_prompt")), None)
    if prompt is None:
        return None
    begin = prompt.event_name.removesuffix("user_prompt")
    responses = [
        record.attributes
        for record in records
        if record.event_name == f"{begin}api_response" and record.attributes.get("role") in _MAIN
    ]
    if len(records) == 1 and begin != "codex.":
        return None  # the calls are spans, in a trace that the prompt does not name
    steps = [step for attributes in responses if (step := _parse_response(attributes)) is not None]
    text = find_text(prompt.attributes, "prompt")
    redaction = find_redaction(text)
    error = _find_error(records, begin)
    incomplete: Incomplete | None = None if steps and steps[-1].text else "no_content"
    last: Attributes = responses[-1] if responses else prompt.attributes
    return Call(
        dialect=_PROGRAMS[begin],
        kind="agent" if steps else "model",
        input=None if redaction or not text else (*_parse_history(records, begin), ChatMessage("user", text)),
        input_incomplete=redaction,
        output=as_messages(steps),
        output_incomplete=None if error else incomplete,
        error=error,
        model=find_text(last, "model"),
        usage=find_usage(last, ("input_token_count",), ("output_token_count",)),
        conversation_id=find_text(prompt.attributes, "session.id", "conversation.id"),
        sources={"input": f"{begin}user_prompt", **({"output": f"{begin}api_response"} if steps else {})},
    )


def _parse_response(attributes: Attributes) -> ChatMessage | None:
    """Parse a model's answer, which may be in the chunks of its stream; None if it is addressed to the program."""
    written = find_text(attributes, "response_text")
    messages = [message for message in parse_messages(written).messages if message.role == "assistant"]
    if not messages:
        return None
    answer = reduce(join, messages)
    is_for_program = "role" not in attributes and isinstance(decode(answer.text), dict)
    return None if is_for_program or not (answer.text or answer.tool_calls) else answer


def _parse_history(records: Sequence[LogRecord], begin: str) -> Sequence[ChatMessage]:
    """The messages before the prompt, from the first request that answers it."""
    for record in records:
        if record.event_name == f"{begin}api_request" and record.attributes.get("role") in _MAIN:
            messages = parse_messages(record.attributes.get("request_text")).messages
            last = max((index for index, message in enumerate(messages) if message.role == "user"), default=0)
            return messages[:last]
    return ()


def _find_error(records: Sequence[LogRecord], begin: str) -> str | None:
    """The error of the last call, if no answer followed."""
    names = (f"{begin}api_error", f"{begin}api_response")
    calls = [record for record in records if record.event_name in names and record.attributes.get("role") in _MAIN]
    if not calls or calls[-1].event_name != names[0]:
        return None
    return find_text(calls[-1].attributes, "error.message", "error") or "error"
