"""Claude Code: log records of prompts and requests. They hold no answers, so their turns cannot be judged."""

from __future__ import annotations

from collections.abc import Sequence

from collector.dialects.call import Call, Said
from collector.dialects.dialect import Carries, Dialect
from collector.dialects.reading import masked_hole, text_at, usage_at
from collector.span import NOTHING, LogRecord, Span

_PROMPTS = frozenset({"claude_code.user_prompt", "user_prompt"})
_REQUESTS = frozenset({"claude_code.api_request", "api_request"})
_ERRORS = frozenset({"claude_code.api_error", "api_error"})
_SCOPE = "com.anthropic.claude_code"


def read(_span: Span, records: Sequence[LogRecord]) -> Call | None:
    """Read the records of a prompt: what was asked if that was opted in, tokens, and errors."""
    mine = [each for each in records if each.event_name.startswith("claude_code.") or each.scope.startswith(_SCOPE)]
    if not mine:
        return None
    prompt = next((text_at(each.attributes, "prompt") for each in mine if each.event_name in _PROMPTS), None)
    request = next((each.attributes for each in mine if each.event_name in _REQUESTS), NOTHING)
    errors = [text_at(each.attributes, "error") or "error" for each in mine if each.event_name in _ERRORS]
    hidden = prompt is None or masked_hole(prompt) is not None
    return Call(
        dialect="claude_code",
        kind="model",
        input=None if hidden else (Said("user", prompt or ""),),
        input_hole=masked_hole(prompt),
        output_hole="no_content",
        error=errors[-1] if errors and not request else None,
        model=text_at(request, "model"),
        usage=usage_at(request, ("input_tokens",), ("output_tokens",)),
        found={} if hidden else {"input": "prompt"},
    )


DIALECT = Dialect(
    name="claude_code",
    rank=320,
    read=read,
    evidence=(),
    records=_PROMPTS | _REQUESTS | _ERRORS,
    carries=Carries(
        libraries="Claude Code (log records)",
        messages="prompts, if opted in; no answers",
        conversation="session.id",
        user="user.id",
    ),
)
