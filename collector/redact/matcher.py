"""Searches that say only whether a pattern occurs, in linear time."""

from __future__ import annotations

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
        self._search = re2.compile(pattern.encode("latin-1"), options).search

    def occurs_in(self, data: bytes) -> bool:
        """Whether it does."""
        return self._search(data) is not None

    def occurs_in_text(self, text: str) -> bool:
        """The same for UTF-8."""
        return self._search(text.encode("utf-8", "replace")) is not None
