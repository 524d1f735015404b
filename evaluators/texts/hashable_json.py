"""Equality of JSON values: true is not 1, but 1 is 1.0. Hashes find equal values without comparing all pairs."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import cast

from evaluators.cases import Json


def to_hashable(value: Json) -> Hashable:
    """A hashable value: two are equal exactly if their JSON values are equal.

    Raises:
        RecursionError: it is nested too deeply.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return (bool, value)
    if isinstance(value, Mapping):
        return (dict, frozenset((key, to_hashable(item)) for key, item in cast("Mapping[str, Json]", value).items()))
    if isinstance(value, Sequence):
        return (list, tuple([to_hashable(item) for item in cast("Sequence[Json]", value)]))
    return cast("Hashable", value)


def equal(ours: Json, theirs: Json, normal: Callable[[str], str] = str) -> bool:
    """Whether two JSON values are equal, however deep; texts and keys as `normal` makes them."""
    pairs: list[tuple[Json, Json]] = [(ours, theirs)]
    while pairs:
        one, other = pairs.pop()
        if isinstance(one, dict) and isinstance(other, dict):
            mine = {normal(key): value for key, value in cast("dict[str, Json]", one).items()}
            yours = {normal(key): value for key, value in cast("dict[str, Json]", other).items()}
            if mine.keys() != yours.keys():
                return False
            pairs += [(value, yours[key]) for key, value in mine.items()]
        elif isinstance(one, list) and isinstance(other, list):
            items, others = cast("list[Json]", one), cast("list[Json]", other)
            if len(items) != len(others):
                return False
            pairs += zip(items, others, strict=True)
        elif not _equal_scalars(one, other, normal):
            return False
    return True


def _equal_scalars(one: Json, other: Json, normal: Callable[[str], str]) -> bool:
    if isinstance(one, str) and isinstance(other, str):
        return normal(one) == normal(other)
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return (type(one) in _NUMBERS and type(other) in _NUMBERS and one == other) or one is other is None


_NUMBERS = (int, float)
