"""Claude Code: spans and log records of prompts and requests. They hold no answers, so their turns cannot be judged."""

from __future__ import annotations

from collections.abc import Sequence

from collector.dialects.call import Call, Said, finish_of
from collector.dialects.dialect import Carries, Dialect
from collector.dialects.reading import failure, masked_hole, text_at, usage_at
from collector.span import NOTHING, Attributes, LogRecord, Span
from evaluators.cases import Incomplete, TokenCount, ToolCall

_PROMPTS = frozenset({"claude_code.user_prompt", "user_prompt"})
_REQUESTS = frozenset({"claude_code.api_request", "api_request"})
_ERRORS = frozenset({"claude_code.api_error", "api_error"})
_SCOPE = "com.anthropic.claude_code"


def read(span: Span, records: Sequence[LogRecord]) -> Call | None:
    """Read a span of an interaction, a request or a tool; or the records of a prompt."""
    if span.name.startswith("claude_code."):
        return _span(span)
    mine = [each for each in records if each.event_name.startswith("claude_code.") or each.scope.startswith(_SCOPE)]
    return _records(mine) if mine else None


def _span(span: Span) -> Call | None:
    attributes = span.attributes
    match span.name:
        case "claude_code.interaction":
            said, hole = _prompt(text_at(attributes, "user_prompt"))
            found = {"input": "user_prompt"} if said else {}
            return Call(
                dialect="claude_code", kind="agent", input=said, input_hole=hole, output_hole="no_content", found=found
            )
        case "claude_code.llm_request":
            failed = attributes.get("success") in (False, "false")
            error = failure(span, answered=True) or (text_at(attributes, "error") or "error" if failed else None)
            return Call(
                dialect="claude_code",
                kind="model",
                output_hole="no_content",
                error=error,
                finish=finish_of(attributes.get("stop_reason")),
                model=text_at(attributes, "model", "gen_ai.request.model"),
                usage=_usage(attributes),
            )
        case "claude_code.tool":
            name = text_at(attributes, "tool_name")
            return Call(dialect="claude_code", kind="tool", tool=ToolCall(name=name)) if name else None
        case _:
            return Call(dialect="claude_code")


def _prompt(text: str | None) -> tuple[tuple[Said, ...] | None, Incomplete | None]:
    hole = masked_hole(text)
    return ((Said("user", text),), None) if text and hole is None else (None, hole)


def _usage(attributes: Attributes) -> TokenCount | None:
    return usage_at(attributes, ("input_tokens",), ("output_tokens",))


def _records(records: Sequence[LogRecord]) -> Call:
    """What was asked if that was opted in, tokens, and errors."""
    prompt = next((text_at(each.attributes, "prompt") for each in records if each.event_name in _PROMPTS), None)
    request = next((each.attributes for each in records if each.event_name in _REQUESTS), NOTHING)
    errors = [text_at(each.attributes, "error") or "error" for each in records if each.event_name in _ERRORS]
    said, hole = _prompt(prompt)
    return Call(
        dialect="claude_code",
        kind="model",
        input=said,
        input_hole=hole,
        output_hole="no_content",
        error=errors[-1] if errors and not request else None,
        model=text_at(request, "model"),
        usage=_usage(request),
        found={"input": "prompt"} if said else {},
    )


DIALECT = Dialect(
    name="claude_code",
    rank=320,
    read=read,
    evidence=(),
    scopes=(_SCOPE,),
    records=_PROMPTS | _REQUESTS | _ERRORS,
    carries=Carries(
        libraries="Claude Code (log records, and the spans of its beta)",
        messages="prompts, if opted in; no answers",
        tools="tool spans, names alone",
        conversation="session.id",
        user="user.id",
    ),
)
