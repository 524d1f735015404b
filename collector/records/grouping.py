"""Items in groups of one key each."""

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def group_by(items: Iterable[V], key: Callable[[V], K]) -> dict[K, list[V]]:
    """The items by key, both in the order in which they come."""
    groups: dict[K, list[V]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups
