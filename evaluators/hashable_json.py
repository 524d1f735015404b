"""JSON values that can be compared by their hash: equal ones are found without comparing each with each."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import cast

from evaluators.cases import Json


def to_hashable(value: Json, *, bool_is_number: bool = True) -> Hashable:
    """A value that is equal to another's exactly if the JSON values are. For Python, `true` is 1; for JSON Schema not.

    Raises:
        RecursionError: it is nested too deeply.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool) and not bool_is_number:
        return (bool, value)
    if isinstance(value, Mapping):
        items = cast("Mapping[str, Json]", value).items()
        return (dict, frozenset((key, to_hashable(each, bool_is_number=bool_is_number)) for key, each in items))
    if isinstance(value, Sequence):
        each_of = cast("Sequence[Json]", value)
        return (list, tuple([to_hashable(each, bool_is_number=bool_is_number) for each in each_of]))
    return cast("Hashable", value)
