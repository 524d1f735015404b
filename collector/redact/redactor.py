"""Detectors put together: what they find becomes a pseudonym, the same for the same thing.

In the logs a pseudonym is `<EMAIL_k3f7x2ab>`: a keyed hash, so that every process and every replay writes the same one
with no state and no table that leads back. For a judge they are numbered instead, `<EMAIL_1>`, in the order of
appearance in the turn or conversation that is judged.

A turn or conversation is redacted as a log holds it, or for a judge, who sees numbers, the same all through it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache
from itertools import islice
from typing import Any, cast

import orjson

from collector.redact.context import precedes_number
from collector.redact.finding import Detector, Finding, PrefilteringDetector, merge
from collector.redact.patterns import names_secret
from evaluators.cases import Conversation, Json, Turn
from evaluators.promises import FAULTS
from evaluators.texts.exact_json import parse_exactly

_PSEUDONYM = re.compile(r"<([A-Z][A-Z0-9_]{0,39})_([a-z2-7]{8})>")
_PSEUDONYM_BYTES = re.compile(_PSEUDONYM.pattern.encode())
_SPACING = re.compile(r"[\s\-\u200b-\u2013]+")
_SHORTEST = 6  # nothing that is shorter is found
_NESTED_JSON = 4  # arguments of a tool call in a message in an attribute, and one to spare
_DEEPEST = 100
_LONG_NUMBER = 10**12  # a card has at least 13 digits

_LOOKS, _LOOKS_PER_BYTE = 1_000, 2
"""Findings and places looked at in vain that a request may have, and more of them for each of its bytes on the wire: a
look takes up to 15 µs, and a byte on the wire may hold a thousand characters. Different things take more bytes each."""
_MARGIN = 4_096
"""Characters before the place where looking ended that go with the rest: something may have begun in them."""

_LONGEST_KNOWN = 64
"""Characters of a text that is remembered with what was found in it: addresses come again in each span of a request."""

_LONGEST_CLEAN, _MOST_CLEAN = 128, 20_000
"""Bytes of a part of a message that is remembered as clean, and how many are."""

Count = Callable[[str, int], None]
"""Counts what was taken out: the kind, how many."""

Fail = Callable[[], None]
"""Counts a text that could not be looked through."""


class RedactionFailed(Exception):
    """A detector failed. Its input must not be stored or sent. The message holds nothing of the text."""


class CleanParts:
    """Short parts of messages that have no finding: names, addresses of servers, what all spans have alike."""

    def __init__(self) -> None:
        self.known: set[bytes] = {b""}

    def update(self, parts: Iterable[bytes]) -> None:
        """Remember parts, but for long ones."""
        if len(self.known) >= _MOST_CLEAN:  # senders may invent any number of them
            self.known.clear()
        self.known.update([part for part in parts if len(part) <= _LONGEST_CLEAN])


class Redactor:
    """Replaces what detectors find. `key` makes the pseudonyms: who lacks it cannot try out guesses."""

    def __init__(
        self,
        detectors: Sequence[Detector],
        key: bytes,
        count: Count = lambda _kind, _count: None,
        fail: Fail = lambda: None,
    ) -> None:
        self._detectors = tuple(detectors)
        self._skimming = tuple(detector for detector in detectors if isinstance(detector, PrefilteringDetector))
        self._skims = len(self._skimming) == len(self._detectors)
        self._key = hashlib.sha256(key).digest()
        self._count = count
        self._fail = fail
        self._known: dict[str, tuple[str, tuple[str, ...]]] | None = None
        self._looks_left = sys.maxsize
        self._body: bytes | None = None
        self.clean = CleanParts()
        self.times = 1
        """How often what is found counts: in how many places the same stands."""

    def remembering(self, size: int | None = None, body: bytes | None = None) -> Redactor:
        """The same, which remembers what it found in short texts: for as long as one request, not longer.

        `size` are the bytes that a stranger sent over the wire. The work stays in proportion to them: a text with more
        findings than so many bytes can hold of different things is replaced whole from there on. For a `body` that came
        by another way, it is the packed size, measured only if there are many findings.
        """
        remembering = Redactor((), b"", self._count, self._fail)  # `copy.copy` fails where mypyc compiled the class
        remembering._detectors, remembering._skimming, remembering._skims = self._detectors, self._skimming, self._skims
        remembering._key, remembering._known = self._key, {}
        remembering._looks_left, remembering._body = self._looks_left, self._body
        if self._skims:  # else what another detector finds may change
            remembering.clean = self.clean
        if size is not None:
            remembering._looks_left = _LOOKS + _LOOKS_PER_BYTE * size
        if body is not None:
            remembering._looks_left, remembering._body = _LOOKS, body
        return remembering

    def text(self, text: str) -> str:
        """The text with pseudonyms in place of what was found. A text that is JSON stays JSON.

        Raises:
            RedactionFailed: a detector raised.
        """
        return self._text(text, _NESTED_JSON)

    def suspects_of(self, parts: Collection[bytes]) -> Collection[bytes]:
        """Those of some texts or messages of OTLP in which something may be found; the others surely hold nothing."""
        if not self._skims:
            return parts
        return set[bytes]().union(*(detector.suspects_of(parts) for detector in self._skimming))

    def has_no_pii(self, text: str) -> bool:
        """Whether it is known without the detectors that a text is clean, and all that is in it if it is JSON."""
        if not self._skims:
            return False
        for detector in self._skimming:  # noqa: SIM110 - a generator costs as much as the look
            if not detector.has_no_pii(text):
                return False
        return True

    def named(self, name: str, text: str, nested: int = _NESTED_JSON) -> str:
        """The same for the text of a field: one whose name says that it is a secret goes whole."""
        if len(text) < _SHORTEST or not names_secret(name) or _PSEUDONYM.fullmatch(text):
            return self._text(text, nested)
        # Also if something in it has a known kind: the rest would stay, and is the secret.
        self._count("SECRET", self.times)
        return self._pseudonym("SECRET", text)

    def value(self, value: Json) -> Json:
        """The JSON value with every text in it redacted, and numbers that are cards; keys of mappings too.

        Raises:
            RedactionFailed: a detector raised, or the value is nested deeper than 100.
        """
        return self._value(value, _DEEPEST, _NESTED_JSON)

    def _text(self, text: str, nested: int) -> str:
        if len(text) < _SHORTEST:
            return text
        if nested and text.startswith(("{", "[", '"')):
            if self.has_no_pii(text):
                return text
            whole = self._json(text, nested)
            if whole is not None:
                return whole
        return self._plain(text)

    def _json(self, text: str, nested: int) -> str | None:
        """A text that is JSON, redacted inside its strings, so that escapes hide nothing; None if it is not JSON."""
        try:
            value = parse_exactly(text)
        except ValueError:
            return None
        redacted = self._value(value, _DEEPEST, nested - 1)
        if redacted is value:
            return text
        try:
            return orjson.dumps(redacted).decode()
        except (TypeError, ValueError):  # nested deeper than is written, or a lone surrogate
            return None

    def _value(self, value: Any, depth: int, nested: int) -> Any:
        """The same object where nothing was found in it."""
        if isinstance(value, str):
            redacted = self._text(value, nested)
            return value if redacted == value else redacted
        if isinstance(value, int):
            return self._number(value)
        if depth <= 0 and isinstance(value, (Mapping, list, tuple)):
            self._fail()
            raise RedactionFailed("nested too deeply to be looked through")
        if isinstance(value, Mapping):
            items = cast("Mapping[Any, Any]", value).items()
            new = {self._key_of(key): self._named(key, item, depth - 1, nested) for key, item in items}
            return cast("Any", value) if new == value else new
        if isinstance(value, (list, tuple)):
            old = cast("Sequence[Any]", value)
            fresh = [self._value(item, depth - 1, nested) for item in old]
            return old if fresh == list(old) else fresh
        return value

    def _named(self, name: Any, value: Any, depth: int, nested: int) -> Any:
        if isinstance(value, str) and isinstance(name, str):
            return self.named(name, value, nested)
        if isinstance(value, int) and isinstance(name, str) and abs(value) > 99 and precedes_number(name):
            redacted = self._plain(f"{name}: {value}")
            return value if redacted.endswith(f": {value}") else redacted.rpartition(": ")[2]
        return self._value(value, depth, nested)

    def _key_of(self, key: Any) -> Any:
        return self._plain(key) if isinstance(key, str) and len(key) >= _SHORTEST else key

    def _number(self, value: int) -> Json:
        if -_LONG_NUMBER < value < _LONG_NUMBER or value.bit_length() >= 200:
            return value
        redacted = self._plain(str(value))
        return value if redacted == str(value) else redacted

    def _plain(self, text: str) -> str:
        if self._known and text in self._known:
            redacted, kinds = self._known[text]
        elif self.has_no_pii(text):
            return text
        else:
            findings = self._find(text)
            if not findings:
                return text
            redacted, kinds = self._replace(text, findings), tuple(finding.kind for finding in findings)
            if self._known is not None and len(text) <= _LONGEST_KNOWN:
                self._known[text] = redacted, kinds
        for kind in kinds:
            self._count(kind, self.times)
        return redacted

    def _replace(self, text: str, findings: Iterable[Finding]) -> str:
        pieces: list[str] = []
        last = 0
        for finding in findings:
            pieces += (text[last : finding.start], self._pseudonym(finding.kind, text[finding.start : finding.end]))
            last = finding.end
        pieces.append(text[last:])
        return "".join(pieces)

    def _find(self, text: str) -> list[Finding]:
        """The findings; from a place on the whole rest, if looking on would be more work than the sender has left."""
        try:
            findings, is_all = self._look(text) if self._looks_left > 0 else ([], False)
            if not is_all and self._body is not None:
                self._looks_left, self._body = _LOOKS_PER_BYTE * len(zlib.compress(self._body, 1)), None
                findings, is_all = self._look(text)
            if not is_all:
                starts = sorted(finding.start for finding in findings)
                cut = starts[len(starts) // 2] if starts else 0
                self._looks_left = len(starts)  # as much again, as half of it was found already
                findings, is_all = self._look(text[:cut])
                self._looks_left = 0
                findings.append(Finding(max(0, cut - _MARGIN) if is_all else 0, len(text), "REST"))
        except FAULTS as error:  # what was not looked through goes nowhere
            self._fail()
            raise RedactionFailed(f"a redactor failed with {type(error).__name__}") from None
        return [finding for finding in merge(findings) if not _PSEUDONYM.fullmatch(text, finding.start, finding.end)]

    def _look(self, text: str) -> tuple[list[Finding], bool]:
        """The findings of the detectors, and whether they looked through all of it."""
        findings: list[Finding] = []
        for detector in self._detectors:
            findings += islice(detector(text), max(0, self._looks_left - len(findings)))
        self._looks_left -= len(findings)
        return findings, self._looks_left > 0

    def _pseudonym(self, kind: str, text: str) -> str:
        spelling = _SPACING.sub("", text).lower() if kind in _SPELT_FREELY else text
        digest = hmac.digest(self._key, f"{kind}\x1f{spelling}".encode("utf-8", "replace"), "sha256")
        return f"<{kind}_{base64.b32encode(digest[:5]).decode().lower()}>"


_SPELT_FREELY = frozenset({"EMAIL", "PHONE", "CARD", "IBAN", "IP"})


class Numbering:
    """Turns the pseudonyms of one case into numbered ones, in the order of appearance: `<EMAIL_1>`, `<EMAIL_2>`."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], str] = {}
        self._last: Counter[str] = Counter()

    def value(self, value: Json, depth: int = _DEEPEST) -> Json:
        """The JSON value with every text in it numbered, keys of mappings included."""
        if isinstance(value, str):
            return _PSEUDONYM.sub(self._number, value) if "<" in value else value
        if isinstance(value, Mapping) and depth > 0:
            items = cast("Mapping[str, Json]", value).items()
            return {str(self.value(key)): self.value(item, depth - 1) for key, item in items}
        if isinstance(value, (list, tuple)) and depth > 0:
            return [self.value(item, depth - 1) for item in cast("Sequence[Json]", value)]
        return cast("Json", value)

    def _number(self, match: re.Match[str]) -> str:
        kind = match[1]
        known = self._numbers.get((kind, match[2]))
        if known is None:
            self._last[kind] += 1
            known = self._numbers[kind, match[2]] = f"<{kind}_{self._last[kind]}>"
        return known


_NO_TEXT = frozenset(
    {
        "turn_id", "conversation_id", "trace_id", "span_id", "parent_span_id", "response_id", "service", "dialect",
        "model", "user_id", "started_at", "ended_at", "usage", "incomplete", "role", "closed_by", "revision",
        "kind", "place", "media_type", "size", "sha256", "data",
    }
)  # fmt: skip
"""Fields that say which case it is; no judge is shown them."""


def redact_case(case: Turn | Conversation, redactor: Redactor) -> Turn | Conversation:
    """The case with every text redacted, and with `<EMAIL_1>` for each pseudonym.

    Raises:
        RedactionFailed: a text could not be looked through; the case must not be sent.
    """
    if _is_clean(case, redactor):
        return case
    numbering = Numbering()
    return cast("Turn | Conversation", _walk(case, lambda value: numbering.value(redactor.value(value))))


def redact_as_stored(case: Turn | Conversation, redactor: Redactor) -> Turn | Conversation:
    """The case with every text redacted as in a log: what evaluators without a judge see in the service.

    Raises:
        RedactionFailed: a text could not be looked through.
    """
    return cast("Turn | Conversation", _walk(case, redactor.value))


def _is_clean(case: Turn | Conversation, redactor: Redactor) -> bool:
    """Whether it is known at one glance at all texts that nothing is found in them, and that none is a pseudonym."""
    try:
        texts = orjson.dumps(case, _texts_of, orjson.OPT_PASSTHROUGH_DATACLASS)
    except TypeError:  # it is no JSON, or nested too deeply
        return False
    return not (redactor.suspects_of((texts,)) or (b"<" in texts and _PSEUDONYM_BYTES.search(texts)))


def _texts_of(value: object) -> list[object]:
    """The fields of a dataclass that may hold texts, where they hold anything."""
    kind: Any = type(value)  # mypy, which compiles this, takes not every type for hashable
    return [field for name in _names_of(kind) if (field := getattr(value, name))]


def _walk(value: Any, change: Callable[[Json], Json]) -> Any:
    if isinstance(value, tuple):
        return tuple(_walk(each, change) for each in cast("tuple[Any, ...]", value))
    if not is_dataclass(value) or isinstance(value, type):
        return change(value)
    changed: dict[str, Any] = {}
    for name in _names_of(type(value)):
        old = getattr(value, name)
        if old and (new := _walk(old, change)) != old:
            changed[name] = new
    return replace(value, **changed) if changed else value  # a turn has 28 fields: most need no copy


@cache
def _names_of(kind: Any) -> tuple[str, ...]:
    """The names of a dataclass's fields that may hold texts."""
    return tuple(field.name for field in fields(kind) if field.name not in _NO_TEXT)
