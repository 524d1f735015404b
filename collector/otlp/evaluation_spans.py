"""The span of an evaluation, by its id, and the evaluation that runs in a task: the parent of its requests' spans."""

import hashlib
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(slots=True)
class JudgedNow:
    """An evaluation that runs. `failed` is the number of requests that failed since one was answered."""

    evaluation_id: str
    trace_id: str | None
    failed: int = 0


_JUDGED: ContextVar[JudgedNow | None] = ContextVar("judged", default=None)


def span_id(evaluation_id: str) -> bytes:
    """The span id of an evaluation: 8 bytes, the same however often it is exported."""
    return hashlib.sha256(evaluation_id.encode()).digest()[:8]


@contextmanager
def judging(evaluation_id: str, trace_id: str | None) -> Generator[None]:
    """Requests within belong to this evaluation of a subject in a trace."""
    token = _JUDGED.set(JudgedNow(evaluation_id, trace_id))
    try:
        yield
    finally:
        _JUDGED.reset(token)


def judged_now() -> JudgedNow | None:
    """The evaluation to which the running task belongs, if any."""
    return _JUDGED.get()
