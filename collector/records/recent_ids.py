"""The ids that came last: an append that was made twice repeats its ids soon."""

from collections import OrderedDict

REMEMBERED = 10_000
"""The number of ids that are remembered."""


class RecentIds:
    """The newest ids, at most `REMEMBERED`."""

    def __init__(self) -> None:
        self._ids: OrderedDict[str | bytes, None] = OrderedDict()

    def repeats(self, identifier: str | bytes) -> bool:
        """Whether an id has come before. The id is remembered for later calls."""
        if identifier in self._ids:
            return True
        self._ids[identifier] = None
        if len(self._ids) > REMEMBERED:
            self._ids.popitem(last=False)
        return False
