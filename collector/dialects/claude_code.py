"""Coding agents: the spans and log records of Claude Code, and the log records of Gemini CLI, Qwen Code and Codex.

The contents of the records depend on the user's opt-ins: prompts, answers (`assistant_response`), or whole requests and
responses with system prompt, history and tools. Without any of these a turn is incomplete. Programs without spans write
a record for each prompt and each answer of a model; Codex never writes answers.
"""

from collections.abc import Sequence
from functools import reduce

from collector.dialects.attributes import find_error, find_redaction, find_text, find_usage, is_masked
from collector.dialects.call import Call, ChatMessage, as_messages, parse_finish_reason
from collector.dialects.decode import as_dict, decode
from collector.dialects.dialect import Coverage, Dialect
from collector.dialects.message_events import join
from collector.dialects.messages import parse_messages, parse_system_text, split_system_prompt
from collector.dialects.parts import parse_arguments
from collector.otlp.span import NOTHING, Attributes, LogRecord, Span
from evaluators.cases import Incomplete, Json, TokenCount, ToolCall

_PROGRAMS = {"gemini_cli.": "gemini_cli", "qwen-code.": "qwen_code", "codex.": "codex"}
"""Beginnings of their events' names, with the dialects' names."""
_EVENTS = ("user_prompt", "api_request", "api_response", "api_error")
PROMPT_LOGS = frozenset({"codex.user_prompt", *(begin + event for begin in tuple(_PROGRAMS)[:2] for event in _EVENTS)})
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


_SCOPE = "com.anthropic.claude_code"
_ANSWER = "response.model_output"
_PREFIX = "claude_code."
_NAMES = frozenset(
    {"user_prompt", "assistant_response", "api_request", "api_error", "api_request_body", "api_response_body"}
)


def read(span: Span, records: Sequence[LogRecord]) -> Call | None:
    """Read a span of an interaction, a request or a tool; or the records of a prompt whose span was not exported."""
    log = _Log(
        [record for record in records if record.event_name.startswith(_PREFIX) or record.scope.startswith(_SCOPE)]
    )
    if span.name.startswith(_PREFIX):
        return _read_span(span, log)
    if log.records:
        return log.read()
    return read_prompt(records) if span.name in PROMPT_LOGS else None


class _Log:
    """The log records of one prompt, in order of time."""

    def __init__(self, records: Sequence[LogRecord]) -> None:
        self.records = records
        self._by_name: dict[str, list[Attributes]] = {}
        for record in records:
            self._by_name.setdefault(record.event_name.removeprefix(_PREFIX), []).append(record.attributes)

    def all(self, name: str) -> Sequence[Attributes]:
        """The attributes of the records of a name."""
        return self._by_name.get(name, ())

    def find_prompt(self) -> str | None:
        """Find what the user wrote; None unless prompts are opted in."""
        return next((text for each in self.all("user_prompt") if (text := find_text(each, "prompt"))), None)

    def parse_run(self) -> tuple[tuple[ChatMessage, ...] | None, Incomplete | None]:
        """Parse what followed the prompt: requested tools with their results, and the answer."""
        steps = [message for body in self._bodies("api_response_body") for message in parse_messages([body]).messages]
        results = [message for message in self._parse_last_request() if message.role == "tool"]
        answers = [text for each in self.all("assistant_response") if (text := find_text(each, "response"))]
        redaction = find_redaction(answers[-1]) if answers else None
        if redaction:
            return None, redaction
        if answers and not any(message.text == answers[-1] for message in steps):
            steps.append(ChatMessage("assistant", answers[-1]))
        requested = {call.id for message in steps for call in message.tool_calls}
        messages = [*steps, *(message for message in results if message.tool_call_id in requested)]
        return as_messages(messages), None if any(message.text for message in steps) else "no_content"

    def parse_history(self) -> tuple[str | None, tuple[ChatMessage, ...]]:
        """Parse system prompt and messages of the first request; nothing unless requests are opted in."""
        bodies = self._bodies("api_request_body")
        body: dict[str, Json] = bodies[0] if bodies else {}
        system, messages = split_system_prompt(
            [message for message in parse_messages(body.get("messages")).messages if message.role != "system"]
        )
        return parse_system_text(body.get("system")) or system, tuple(messages)

    def read(self) -> Call:
        """Read the records of a prompt whose span was not exported."""
        messages, incomplete = _parse_prompt(self.find_prompt())
        system, history = self.parse_history()
        output, output_incomplete = self.parse_run()
        request = next(iter(self.all("api_request")), NOTHING)
        errors = [find_text(each, "error") or "error" for each in self.all("api_error")]
        return Call(
            kind="model",
            system=system,
            input=history or messages,
            input_incomplete=incomplete,
            output=None if output_incomplete or not output else output[-1:] if output[-1].text else output,
            output_incomplete=output_incomplete,
            error=errors[-1] if errors and not request else None,
            model=find_text(request, "model"),
            usage=_find_usage(request),
            sources={"input": "prompt"} if messages else {},
        )

    def _bodies(self, name: str) -> list[dict[str, Json]]:
        return [as_dict(decode(each.get("body"))) for each in self.all(name)]

    def _parse_last_request(self) -> Sequence[ChatMessage]:
        bodies = self._bodies("api_request_body")
        return parse_messages(bodies[-1].get("messages")).messages if bodies else ()


def _read_span(span: Span, log: _Log) -> Call | None:
    attributes = span.attributes
    match span.name:
        case "claude_code.interaction":
            return _read_interaction(attributes, log)
        case "claude_code.llm_request":
            answer = None if is_masked(attributes.get(_ANSWER)) else find_text(attributes, _ANSWER)
            failed = attributes.get("success") in (False, "false")
            error = find_error(span, answered=True) or (find_text(attributes, "error") or "error" if failed else None)
            return Call(
                kind="model",
                output=(ChatMessage("assistant", answer),) if answer else None,
                output_incomplete=None if answer else find_redaction(attributes.get(_ANSWER)) or "no_content",
                error=error,
                finish_reason=parse_finish_reason(attributes.get("stop_reason")),
                model=find_text(attributes, "model", "gen_ai.request.model"),
                usage=_find_usage(attributes),
            )
        case "claude_code.tool":
            name = find_text(attributes, "tool_name")
            _, _, text = (find_text(attributes, "tool_input") or "").rpartition("]\n")
            tool = ToolCall(name=name, arguments=parse_arguments(text) if text else None) if name else None
            return Call(kind="tool", tool=tool) if tool else None
        case _:
            return Call()


def _read_interaction(attributes: Attributes, log: _Log) -> Call:
    """Read one prompt and all that the agent did about it."""
    messages, incomplete = _parse_prompt(find_text(attributes, "user_prompt") or log.find_prompt())
    system, history = log.parse_history()
    output, output_incomplete = log.parse_run()
    return Call(
        kind="agent",
        system=system,
        input=(*_without_question(history), *messages) if messages else None,
        output=output,
        input_incomplete=incomplete,
        output_incomplete=output_incomplete,
        sources={**({"input": "user_prompt"} if messages else {}), **({"output": "log records"} if output else {})},
    )


def _without_question(messages: Sequence[ChatMessage]) -> Sequence[ChatMessage]:
    """The messages before the last one of the user."""
    questions = (index for index in range(len(messages) - 1, -1, -1) if messages[index].role == "user")
    return messages[: next(questions, 0)]


def _parse_prompt(text: str | None) -> tuple[tuple[ChatMessage, ...] | None, Incomplete | None]:
    incomplete = find_redaction(text)
    return ((ChatMessage("user", text),), None) if text and incomplete is None else (None, incomplete)


def _find_usage(attributes: Attributes) -> TokenCount | None:
    return find_usage(attributes, ("input_tokens",), ("output_tokens",))


DIALECT = Dialect(
    name="claude_code",
    rank=320,
    read=read,
    scopes=(_SCOPE,),
    records=_NAMES | {_PREFIX + name for name in _NAMES} | PROMPT_LOGS,
    own_records=_NAMES | {_PREFIX + name for name in _NAMES},
    coverage=Coverage(
        libraries="Claude Code and the Claude Agent SDK (log records, and the spans of its beta); "
        "Gemini CLI, Qwen Code and Codex by their log records (Codex writes no answers)",
        messages="prompts, answers, requests and responses, as far as they are opted in",
        tools="responses; else tool spans, names alone",
        conversation="session.id",
        user="user.id",
    ),
)
