"""Tells which records concern a person, and makes a record without them."""

import base64
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import orjson

from collector.assemble.collect_trace import TracePiece
from collector.assemble.trace import Assembler
from collector.logs.log import TICK, Log, StoredRecord
from collector.logs.whole_log import read_partitions
from collector.records.epochs import CONTROL_HEADERS
from collector.records.noted_turns import THIN
from collector.records.shared_records import divide_records, is_shared, pieces_of, without_pieces
from collector.records.tenants import in_tenant, tenant_in_key
from collector.records.turns import conversation_key
from collector.service.open_logs import Logs

_PARTS = ("subject", "entry", "subjects", "turns")
"""Fields of evaluations, labels, feedback and conversations that hold ids, too."""
_PLAIN = re.compile(r'[^"\\\x00-\x1f\x7f-\U0010ffff]{16,64}')
"""A part of a text that is the same in every encoding."""
_ALMOST_PLAIN = re.compile(r'[^"\\\x00-\x1f\x7f-\x9f\ud800-\udfff]{8,64}')
"""The same in all but JSON in ASCII: texts in other scripts have nothing else."""
_MOST_TEXTS = 40


@dataclass(slots=True)
class Person:
    """The ids of a person and of the traffic in which they took part, by the names of a record's fields.

    A conversation in which they have a turn is theirs as a whole: each turn repeats the ones before. So is a trace.
    """

    ids: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    texts: set[str] = field(default_factory=set[str])
    """Parts of what was said, by which copies are looked for."""

    async def find(self, logs: Logs, assembler: Assembler) -> None:
        """Add the conversations, traces, turns and evaluations that are in the logs. Raises LogUnavailable."""
        before = -1
        while before != (before := sum(map(len, self.ids.values()))):
            for log in (logs.turns, logs.unlinked):
                if log is not None:
                    async for batch in read_partitions(log):
                        for record in divide_records(batch):
                            self._see(_document(record.value))
            await self._find_traces(logs.spans, assembler)
        async for batch in read_partitions(logs.evaluations):
            for record in batch:
                document = _document(record.value)
                if record.headers == () and self._is_named_in(document):
                    self.ids["evaluation_id"].add(str(document.get("evaluation_id")))

    def _see(self, turn: Mapping[str, Any]) -> None:
        key = turn.get("conversation_id") or turn.get("trace_id") or turn.get("turn_id")
        if turn.get("user_id") not in self.ids["user_id"] and key not in self.ids["conversation_id"]:
            return
        self.ids["conversation_id"].add(str(key))
        for name in ("turn_id", "trace_id"):
            if turn.get(name):
                self.ids[name].add(turn[name])
        for text in (turn.get("input"), turn.get("actual_output")):
            if len(self.texts) < _MOST_TEXTS and isinstance(text, str):
                part = _PLAIN.search(text) or _ALMOST_PLAIN.search(text)
                self.texts.update([part[0]] if part else ())

    async def _find_traces(self, spans: Log, assembler: Assembler) -> None:
        """Traces of which no turn is in the logs yet, or none with its user: those that hold an id are assembled."""
        names = [name.encode() for kind in ("user_id", "conversation_id") for name in self.ids[kind]]
        candidates: set[bytes | None] = set()
        async for batch in read_partitions(spans):
            for record in divide_records(batch):
                if any(name in record.value for name in names) and not self._has_trace(record):
                    candidates.add(record.key)
        traces: dict[bytes, list[TracePiece]] = defaultdict(list)
        async for batch in read_partitions(spans):
            for record in divide_records(batch) if candidates else ():
                if record.key is not None and record.key in candidates:
                    signal = "logs" if record.headers == (("signal", b"logs"),) else "traces"
                    traces[record.key].append(TracePiece(signal, record.value, record.number, record.headers == THIN))
        for key, pieces in traces.items():
            for made in assembler.assemble(pieces).turns:
                turn = in_tenant(made.turn, tenant_in_key(key.decode(errors="replace")))
                self._see({name: getattr(turn, name) for name in (*_TURN, "input", "actual_output")})
                if conversation_key(turn) in self.ids["conversation_id"]:
                    self.ids["trace_id"].add(_trace_of(key))

    def _has_trace(self, record: StoredRecord) -> bool:
        return record.key is not None and _trace_of(record.key) in self.ids["trace_id"]

    def without(self, log: str, record: StoredRecord) -> StoredRecord:
        """The record without them; one that is theirs alone says only that time has passed, as before."""
        if record.is_tick:
            return record
        if is_shared(record):
            gone = {piece.piece for piece in pieces_of(record) if self._concerns(log, piece)}
            rest = without_pieces(record, gone) if gone else record
            return _tick(record) if rest is None else rest
        if record.headers == CONTROL_HEADERS:
            document = _document(record.value)
            rest = self._without_ids(document)
            return record if rest == document else replace(record, value=orjson.dumps(rest))
        if log == "dead_letters":
            return self._without_value(record)
        return _tick(record) if self._concerns(log, record) else record

    def _concerns(self, log: str, record: StoredRecord) -> bool:
        if log in ("spans", "judged_spans"):
            return self._has_trace(record)
        key = (record.key or b"").decode(errors="replace")
        return key in self.ids["conversation_id"] or self._is_named_in(_document(record.value))

    def _is_named_in(self, document: Mapping[str, Any]) -> bool:
        if any(document.get(name) in ids for name, ids in self.ids.items() if isinstance(document.get(name), str)):
            return True
        if document.get("author") in self.ids["user_id"]:
            return True
        parts = [document.get(name) for name in _PARTS]
        inner = [part for each in parts for part in (cast("list[Any]", each) if isinstance(each, list) else [each])]
        return any(isinstance(part, dict) and self._is_named_in(cast("dict[str, Any]", part)) for part in inner)

    def _without_ids(self, value: Any) -> Any:
        """Decisions of the evaluate stage list conversations and evaluations: without these."""
        if isinstance(value, dict):
            plain = cast("dict[str, Any]", value)
            return {name: self._without_ids(inner) for name, inner in plain.items() if not self._has_id(name)}
        if isinstance(value, list):
            return [self._without_ids(inner) for inner in cast("list[Any]", value) if not self._has_id(inner)]
        return value

    def _has_id(self, value: object) -> bool:
        return isinstance(value, str) and any(value in ids for ids in self.ids.values())

    def _without_value(self, record: StoredRecord) -> StoredRecord:
        """A dead letter without what could not be processed, where that mentions them: it could not be read."""
        letter = _document(record.value)
        stored = b"".join(base64.b64decode(letter[name]) for name in ("key", "value") if letter.get(name))
        every = (*self.ids["user_id"], *self.ids["conversation_id"], *self.ids["trace_id"])
        if not any(_occurs_in(name, stored) for name in every):
            return record
        return replace(record, value=orjson.dumps(letter | {"key": None, "value": None, "headers": []}))

    def is_in_line(self, line: bytes) -> bool:
        """Whether a line of JSON, a turn or a conversation or an evaluation, is about them."""
        return self._is_named_in(_document(line))


_TRACE_ID = re.compile("[0-9a-f]{32}")
_TURN = ("turn_id", "trace_id", "conversation_id", "user_id")


def _tick(record: StoredRecord) -> StoredRecord:
    return replace(record, key=None, value=b"", headers=TICK)


def _trace_of(key: bytes) -> str:
    return key.partition(b"@")[0].decode(errors="replace")


def _occurs_in(name: str, data: bytes) -> bool:
    """Whether an id occurs in bytes that could not be read, as a text or as the bytes of a trace id."""
    return name.encode() in data or (_TRACE_ID.fullmatch(name) is not None and bytes.fromhex(name) in data)


def _document(value: bytes) -> dict[str, Any]:
    try:
        document = orjson.loads(value)
    except orjson.JSONDecodeError:
        return {}
    return cast("dict[str, Any]", document) if isinstance(document, dict) else {}
