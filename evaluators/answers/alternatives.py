"""How many alternatives of each token a question wants to see, by the form of its answer."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel

from evaluators.answers.schemas import nodes_of, schema_of

_MOST, _LEAST, _SPARE = 20, 10, 2


@cache
def alternatives_for(reply: type[BaseModel]) -> int:
    """The number of alternatives per token to ask for: two more than the field with the most options has. The two are
    for an option that is written in several ways, like `8` and ` 8`. At least 10, and at most 20; 20 if no field has
    options. More alternatives would carry little weight: see the figures in tests/bench/LEVERS.md.
    """
    counts = [count for node in nodes_of(schema_of(reply)) if (count := _options(node))]
    return min(_MOST, max(_LEAST, max(counts) + _SPARE)) if counts else _MOST


def _options(field: Mapping[str, Any]) -> int:
    """The number of values that a field may have; 0 if its form does not tell."""
    if "enum" in field:
        return len(field["enum"])
    if field.get("type") == "boolean":
        return 2
    if field.get("type") == "integer" and "minimum" in field and "maximum" in field:
        return int(field["maximum"]) - int(field["minimum"]) + 1
    return 0
