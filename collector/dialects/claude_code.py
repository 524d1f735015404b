"""Claude Code's spans and log records of prompts and requests. They have no answers, so these turns are incomplete."""

from __future__ import annotations

from collections.abc import Sequence

from collector.dialects.attributes import find_error, find_redaction, find_text, find_usage
from collector.dialects.call import Call, ChatMessage, parse_finish_reason
from collector.dialects.dialect import Coverage, Dialect
from collector.otlp.span import NOTHING, Attributes, LogRecord, Span
from evaluators.cases import Incomplete, TokenCount, ToolCall

_PROMPTS = frozenset({"claude_code.user_prompt", "user_prompt"})
_REQUESTS = frozenset({"claude_code.api_request", "api_request"})
_ERRORS = frozenset({"claude_code.api_error", "api_error"})
_SCOPE = "com.anthropic.claude_code"


def read(span: Span, records: Sequence[LogRecord]) -> Call | None:
    """Read a span of an interaction, a request or a tool; or the records of a prompt."""
    if span.name.startswith("claude_code."):
        return _read_span(span)
    own_records = [
        each for each in records if each.event_name.startswith("claude_code.") or each.scope.startswith(_SCOPE)
    ]
    return _read_records(own_records) if own_records else None


def _read_span(span: Span) -> Call | None:
    attributes = span.attributes
    match span.name:
        case "claude_code.interaction":
            messages, incomplete = _parse_prompt(find_text(attributes, "user_prompt"))
            sources = {"input": "user_prompt"} if messages else {}
            return Call(
                dialect="claude_code",
                kind="agent",
                input=messages,
                input_incomplete=incomplete,
                output_incomplete="no_content",
                sources=sources,
            )
        case "claude_code.llm_request":
            failed = attributes.get("success") in (False, "false")
            error = find_error(span, answered=True) or (find_text(attributes, "error") or "error" if failed else None)
            return Call(
                dialect="claude_code",
                kind="model",
                output_incomplete="no_content",
                error=error,
                finish_reason=parse_finish_reason(attributes.get("stop_reason")),
                model=find_text(attributes, "model", "gen_ai.request.model"),
                usage=_find_usage(attributes),
            )
        case "claude_code.tool":
            name = find_text(attributes, "tool_name")
            return Call(dialect="claude_code", kind="tool", tool=ToolCall(name=name)) if name else None
        case _:
            return Call(dialect="claude_code")


def _parse_prompt(text: str | None) -> tuple[tuple[ChatMessage, ...] | None, Incomplete | None]:
    incomplete = find_redaction(text)
    return ((ChatMessage("user", text),), None) if text and incomplete is None else (None, incomplete)


def _find_usage(attributes: Attributes) -> TokenCount | None:
    return find_usage(attributes, ("input_tokens",), ("output_tokens",))


def _read_records(records: Sequence[LogRecord]) -> Call:
    """Read the prompt (only written after opting in), tokens and errors."""
    prompt = next((find_text(each.attributes, "prompt") for each in records if each.event_name in _PROMPTS), None)
    request = next((each.attributes for each in records if each.event_name in _REQUESTS), NOTHING)
    errors = [find_text(each.attributes, "error") or "error" for each in records if each.event_name in _ERRORS]
    messages, incomplete = _parse_prompt(prompt)
    return Call(
        dialect="claude_code",
        kind="model",
        input=messages,
        input_incomplete=incomplete,
        output_incomplete="no_content",
        error=errors[-1] if errors and not request else None,
        model=find_text(request, "model"),
        usage=_find_usage(request),
        sources={"input": "prompt"} if messages else {},
    )


DIALECT = Dialect(
    name="claude_code",
    rank=320,
    read=read,
    evidence=(),
    scopes=(_SCOPE,),
    records=_PROMPTS | _REQUESTS | _ERRORS,
    coverage=Coverage(
        libraries="Claude Code (log records, and the spans of its beta)",
        messages="prompts, if opted in; no answers",
        tools="tool spans, names alone",
        conversation="session.id",
        user="user.id",
    ),
)
