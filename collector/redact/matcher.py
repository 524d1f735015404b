"""Searches that say only whether a pattern occurs, in linear time."""

from importlib import import_module
from typing import Any

_MEMORY = 32 << 20


class ByteMatcher:
    """Whether a pattern of RE2, whose characters stand for bytes, occurs in data."""

    def __init__(self, pattern: str) -> None:
        re2: Any = import_module("re2")  # untyped
        options = re2.Options()
        options.encoding = re2.Options.Encoding.LATIN1
        options.never_capture = True
        options.max_mem = _MEMORY
        # The objects of `re2.compile` would do, but their search is a generator around this: half of a short look's
        # time.
        native: Any = import_module("re2._re2")
        compiled = native.RE2(pattern.encode("latin-1"), options)
        if not compiled.ok():
            raise ValueError(compiled.error())
        self._match = compiled.Match
        self._anywhere = native.RE2.Anchor.UNANCHORED

    def occurs_in(self, data: bytes) -> bool:
        """Whether it does."""
        return self.find(data, 0) >= 0

    def find(self, data: bytes, start: int) -> int:
        """The start of the first occurrence at `start` or behind it; -1 if there is none."""
        return self._match(self._anywhere, data, start, len(data))[0][0]

    def occurs_in_text(self, text: str) -> bool:
        """The same for UTF-8."""
        return self.occurs_in(text.encode("utf-8", "replace"))
