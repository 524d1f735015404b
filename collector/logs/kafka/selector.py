"""What kafka-python waits for its sockets with."""

from __future__ import annotations

import selectors
from typing import Any


class SilentSelector(selectors.DefaultSelector):
    """A selector that does not describe what it does not know.

    kafka-python asks before each wait whether a socket is registered, and mostly it is not: the standard library then
    writes the socket into two errors, for which it asks the system for its addresses four times.
    """

    def __init__(self) -> None:
        super().__init__()
        self._keys: dict[int, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """Wait for these events, too."""
        key = self._keys[fileobj.fileno()] = super().register(fileobj, events, data)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        """Wait for it no more."""
        key = super().unregister(fileobj)
        del self._keys[key.fd]
        return key

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """Wait for other events."""
        key = super().modify(fileobj, events, data)
        self._keys[key.fd] = key
        return key

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        """What is waited for.

        Raises:
            KeyError: nothing.
        """
        number = fileobj.fileno()
        return super().get_key(fileobj) if number < 0 else self._keys[number]  # a closed one is found by what it is
