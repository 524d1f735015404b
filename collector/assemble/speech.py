"""Turns by voice: whether the user interrupted the answer, and how long they waited for it.

Libraries write both beside the words: on the span of the model, of the turn, or of the session around them.
"""

from collections.abc import Iterable
from itertools import islice
from math import inf

from collector.assemble.read_spans import SpanTree
from collector.otlp.span import Span
from collector.records.attributes import SPOKEN
from evaluators.cases import Json

INTERRUPTED, LATENCY = SPOKEN

_WAS_INTERRUPTED = "turn.was_interrupted"
_INTERRUPTIONS: dict[str, Json] = {_WAS_INTERRUPTED: True, "lk.interrupted": True, "end_reason": "interrupted"}
"""The attributes of Pipecat, LiveKit and OpenInference, with their values in that case."""
_LATENCIES = {"turn.user_bot_latency_seconds": 1000.0, "lk.e2e_latency": 1000.0, "time_to_first_token_ms": 1.0}
"""With their factor to ms."""
_KEYS = (*_INTERRUPTIONS, *_LATENCIES)
KEYS = frozenset(_KEYS)
NAMES = frozenset((_WAS_INTERRUPTED, "turn.user_bot_latency_seconds", "lk.interrupted", "lk.e2e_latency"))
"""The ones on spans that no dialect reads."""
_MOST_SPANS = 32


def was_interrupted(span: Span) -> bool:
    """Whether a span says that the user cut the answer off; then its text is what was heard."""
    keys = [key for key in _INTERRUPTIONS if key in span.attributes]
    return any(span.attributes[key] == _INTERRUPTIONS[key] for key in keys) if keys else False


def describe_speech(spans: Iterable[Span], tree: SpanTree) -> dict[str, Json]:
    """The attributes of a turn by voice, from its spans and those around them, nearest first; nothing for others."""
    speech: dict[str, Json] = {}
    for span in islice(spans, _MOST_SPANS):
        attributes = span.attributes
        for key in [key for key in _KEYS if key in attributes]:
            value = attributes[key]
            if key in _INTERRUPTIONS:
                if value == _INTERRUPTIONS[key] and not (key == _WAS_INTERRUPTED and _is_last(span, tree)):
                    speech[INTERRUPTED] = "true"
            elif isinstance(value, (int, float)) and value is not True and 0 <= value < inf:
                speech.setdefault(LATENCY, round(value * _LATENCIES[key], 1))
    return speech


def _is_last(span: Span, tree: SpanTree) -> bool:
    """Whether the session ended with this turn; Pipecat calls that an interruption, too: no turn follows it."""
    siblings = (other for other in tree.spans.values() if other.parent_span_id == span.parent_span_id)
    return span.parent_span_id in tree.spans and not any(
        other.name == span.name and other.start >= span.end for other in siblings
    )
