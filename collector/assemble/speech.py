"""Turns by voice: whether the user interrupted the answer, and how long they waited for it.

Libraries write both beside the words: on the span of the model, of the turn, or of the session around them.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from collector.otlp.span import Attributes, Span
from collector.records.attributes import SPOKEN
from evaluators.cases import Json

INTERRUPTED, LATENCY = SPOKEN

_INTERRUPTIONS: tuple[tuple[str, Json], ...] = (
    ("turn.was_interrupted", True),
    ("lk.interrupted", True),
    ("end_reason", "interrupted"),
)
"""Of Pipecat, LiveKit and OpenInference."""
_LATENCIES = {
    "turn.user_bot_latency_seconds": 1000.0,
    "lk.e2e_latency": 1000.0,
    "time_to_first_token_ms": 1.0,
}
"""With their factor to ms."""
NAMES = frozenset(("turn.was_interrupted", "turn.user_bot_latency_seconds", "lk.interrupted", "lk.e2e_latency"))
"""Those that are on spans which no dialect reads."""
_MOST_SPANS = 32


def describe_speech(spans: Iterable[Span]) -> dict[str, Json]:
    """The attributes of a turn by voice, from its spans and those around them, nearest first; nothing for others."""
    speech: dict[str, Json] = {}
    for span in islice(spans, _MOST_SPANS):
        attributes = span.attributes
        for key, value in _INTERRUPTIONS:
            if key in attributes and attributes[key] == value:
                speech[INTERRUPTED] = "true"
        if LATENCY not in speech and (latency := _find_latency(attributes)) is not None:
            speech[LATENCY] = latency
    return speech


def _find_latency(attributes: Attributes) -> float | None:
    for key, factor in _LATENCIES.items():
        value = attributes.get(key)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < float("inf"):
            return round(value * factor, 1)
    return None
