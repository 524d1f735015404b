"""The state of a batch, and the results of its requests."""

from dataclasses import dataclass
from typing import Literal

from evaluators.judges.error_mapping import HttpStatusError, meaning_of

_REDIRECTS = 300

TRANSIENT = frozenset({"transient", "rate limited"})
"""Meanings of refusals after which a request may succeed later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchState:
    """The state of a batch, in the provider's words; `done` counts requests that have a result.

    `results` says where the results are, once it has ended. `problem` is the code of the fault that ended the whole
    batch.
    """

    status: str
    ended: bool
    done: int = 0
    results: tuple[str, ...] = ()
    problem: str = ""


Missing = Literal["expired", "cancelled", "failed"]
"""Why a request has no answer: not done within a day, cancelled, deleted, or a passing fault."""


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The result of one request: the status and body of its response, or why there is no response."""

    name: str
    status: int | None
    content: bytes
    missing: Missing | None = None


def answered(name: str, status: int, content: bytes) -> BatchResult:
    """The result of an answered request; a refusal that may pass counts as no answer."""
    transient = status >= _REDIRECTS and meaning_of(HttpStatusError(status, {}, content)) in TRANSIENT
    return BatchResult(name, status, content, "failed" if transient else None)
