"""Items in groups of one key each, and each answer once."""

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


def without_repeats(items: Iterable[V], draw: Callable[[V], tuple[Hashable, float, str]]) -> list[V]:
    """The items by which each answer counts once: if several monitors judged it, those of the one that draws most.

    `draw` gives an item's answer, its weight and its monitor. Draws are nested, so this monitor has judged all that the
    others have, and its weights are those of the traffic of all.
    """
    draws = [(item, *draw(item)) for item in items]
    monitors = {answer: monitor for _, answer, _, monitor in sorted(draws, key=lambda one: one[2:], reverse=True)}
    return [item for item, answer, _, monitor in draws if monitors[answer] == monitor]
