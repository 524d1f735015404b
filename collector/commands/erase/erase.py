"""`evalstream erase`: one person's traffic out of all logs and files, with a search through the bytes afterwards.

Records that concern a person are found by the ids of that person's traffic, and made again without them.
"""

import asyncio
import base64
import hashlib
import os
import re
import shutil
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import orjson

from collector.assemble.collect_trace import TracePiece
from collector.assemble.trace import Assembler
from collector.commands.log_copy.log_copy import WholeAlready, copy_logs, opened_as_they_are, require_unused
from collector.config.configured import Config, OptionalLogs
from collector.config.settings import KafkaLogSettings
from collector.dialects.decode import as_dict
from collector.errors import ConfigError
from collector.evaluate.recovery.generated_steps import GeneratedStepsStore
from collector.export.jsonl import JsonlSettings
from collector.logs.kafka import KafkaSettings
from collector.logs.kafka.topics import delete, prefixes, require_rights, states
from collector.logs.log import TICK, Log, LogError, LogUnavailable, StoredRecord
from collector.logs.sqlite import SqliteLog
from collector.logs.whole_log import read_partitions, read_records
from collector.records.epochs import CONTROL_HEADERS
from collector.records.json import indented_json
from collector.records.shared_records import divide_records, is_shared, pieces_of, without_pieces
from collector.records.tenants import in_tenant, tenant_in_key
from collector.records.turns import conversation_key
from collector.redact.open_redactor import open_redactors
from collector.service.assembly_builder import build_assembler
from collector.service.kafka_settings import settings_of_log
from collector.service.open_logs import AGAIN, COPIED, OWN_KEY, Logs, names_of, open_logs, open_stored_logs
from collector.wording import listed, plural
from evaluators.private_files import open_private

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

    A conversation in which the person has a turn is erased as a whole: each turn repeats the ones before. So is a
    trace.
    """

    ids: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    texts: set[str] = field(default_factory=set[str])
    """Parts of the person's texts, to search for copies."""
    others: set[str] = field(default_factory=set[str])
    """Ids of other people that go on where one of theirs ends, as `user-12` does after `user-1`: they are no find."""
    examples: list[str] = field(default_factory=list[str])
    """Some of the records in which an id is still found."""

    @property
    def note(self) -> str:
        """The key of the note that a copy without them was made, which does not name them."""
        ids = orjson.dumps(sorted(self.ids["user_id"] | self.ids["conversation_id"]))
        return f"{COPIED} without {hashlib.sha256(ids).hexdigest()}"

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
        async for record in read_records(logs.evaluations):
            document = _document(record.value)
            if record.headers == () and self.is_named_in(document):
                self.ids["evaluation_id"].add(str(document.get("evaluation_id")))

    def _see(self, turn: Mapping[str, Any]) -> None:
        key = turn.get("conversation_id") or turn.get("trace_id") or turn.get("turn_id")
        if turn.get("user_id") not in self.ids["user_id"] and key not in self.ids["conversation_id"]:
            theirs = self.ids["user_id"] | self.ids["conversation_id"]
            seen = {str(turn[name]) for name in ("user_id", "conversation_id") if turn.get(name)}
            self.others |= {name for name in seen if any(_is_cut_out(each, name) for each in theirs)}
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
        """Traces that have no turn in the logs yet, or none with its user: those that hold an id are assembled."""
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
                    traces[record.key].append(TracePiece(signal, record.value, record.number))
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
        return key in self.ids["conversation_id"] or self.is_named_in(_document(record.value))

    def is_named_in(self, document: Mapping[str, Any]) -> bool:
        """Whether a turn, a conversation, an evaluation or the like is about them."""
        if any(document.get(name) in ids for name, ids in self.ids.items() if isinstance(document.get(name), str)):
            return True
        if document.get("author") in self.ids["user_id"]:
            return True
        parts = [document.get(name) for name in _PARTS]
        inner = [part for each in parts for part in (cast("list[Any]", each) if isinstance(each, list) else [each])]
        return any(isinstance(part, dict) and self.is_named_in(cast("dict[str, Any]", part)) for part in inner)

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

    def count(self, needle: bytes, data: bytes) -> int:
        """How often an id or a text stands in data, outside longer ids of other people."""
        return _without(data, self.longer(needle)).count(needle)

    def longer(self, needle: bytes) -> list[bytes]:
        """Ids of other people that contain an id, the longest first."""
        others = self.others - self.ids["user_id"] - self.ids["conversation_id"]
        return sorted((each for name in others if needle in (each := name.encode())), key=len, reverse=True)


_TRACE_ID = re.compile("[0-9a-f]{32}")
_TURN = ("turn_id", "trace_id", "conversation_id", "user_id")


def _tick(record: StoredRecord) -> StoredRecord:
    return replace(record, key=None, value=b"", headers=TICK)


def _is_cut_out(name: str, longer: str) -> bool:
    """Whether an id is in a longer one, within a word or a number."""
    sides = pairwise(longer.split(name))
    return name in longer and all(left[-1:].isalnum() or right[:1].isalnum() for left, right in sides)


def _without(data: bytes, names: Sequence[bytes]) -> bytes:
    """Data in which names are blank."""
    for name in names:
        data = data.replace(name, bytes(len(name)))
    return data


def _trace_of(key: bytes) -> str:
    return key.partition(b"@")[0].decode(errors="replace")


def _occurs_in(name: str, data: bytes) -> bool:
    """Whether an id occurs in bytes that could not be read, as a text or as the bytes of a trace id."""
    return name.encode() in data or (_TRACE_ID.fullmatch(name) is not None and bytes.fromhex(name) in data)


def _document(value: bytes) -> dict[str, Any]:
    try:
        return as_dict(orjson.loads(value))
    except orjson.JSONDecodeError:
        return {}


Say = Callable[[str], None]

CLEAN, LEFT = 0, 1
_SHORTEST = 6
"""Bytes: a shorter id occurs everywhere, so it is searched for in quotation marks, as JSON has it."""
_BLOCK = 8 << 20
_EXAMPLES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseOptions:
    """Whom to erase: users and conversations by their ids. `files` are JSONL files of turns or evaluations.

    `to` is the configuration of the topics that take what is left of logs in Kafka. With `dry_run` nothing changes.
    """

    users: Sequence[str] = ()
    conversations: Sequence[str] = ()
    files: Sequence[Path] = ()
    to: Config | None = None
    dry_run: bool = False
    json: bool = False


async def erase(config: Config, options: EraseOptions, say: Say) -> int:
    """Erase, search, and report what is left and what cannot be reached; the exit status: 1 if an id was still found.

    Raises:
        ConfigError: a process consumes the logs, they cannot be read, or `to` does not fit.
    """
    kafka = config.settings.log.kafka
    _check(options, kafka=kafka is not None)
    person = Person()
    person.ids["user_id"].update(_as_stored(config, options.users))
    person.ids["conversation_id"].update(_as_stored(config, options.conversations))
    exported = [each.path for each in config.exporters.values() if isinstance(each, JsonlSettings)]
    files = [path.resolve() for path in (*options.files, *exported)]  # a link would be replaced, and what it names stay
    try:
        # A file may have logs that another configuration has written.
        wanted = config.optional_logs if kafka else OptionalLogs(linking=True, judged_spans=True)
        async with open_stored_logs(config.settings.log, **wanted) as logs:
            if not options.dry_run:
                await require_unused(config, logs)
                if kafka is not None:
                    await asyncio.to_thread(require_rights, *_old_topics(config, kafka), "DELETE")
            await person.find(logs, build_assembler(config.settings.assemble, config.settings.dialects))
            changed = await _rewrite(logs, person, write=not (kafka or options.dry_run))
            changed |= {str(path): _erase_lines(path, person, options) for path in files if path.exists()}
            mentions = Counter[str]() if kafka or options.dry_run else await _search_file(config, logs, person)
            notes = await logs.generated_steps()
            key, copied = await notes.load(OWN_KEY), await notes.load(person.note)
        if options.to is not None and kafka is not None and not options.dry_run:
            await _copy_rest(config, options.to, person, copied, say)
            async with open_logs(options.to.settings.log, **config.optional_logs) as logs:
                _, mentions = await _count(logs, person)
            # Also if records of others mention an id: they are in the copy, too.
            settings, topics = _old_topics(config, kafka)
            topics.remove(f"{kafka.prefix}.definitions")  # its note keeps a service from starting here again
            await asyncio.to_thread(delete, settings, topics)
        if kafka is not None and key is not None:
            target = options.to and options.to.settings.log.kafka
            mentions += await _count_copies(kafka, {kafka.prefix, (target or kafka).prefix}, key, person)
    except LogUnavailable as error:
        raise ConfigError(f"log: {error}; {AGAIN}") from error
    if not options.dry_run:
        mentions += _left_in(files, person)
    _report(config, options, person, changed, +mentions, say)
    return LEFT if +mentions and not options.dry_run else CLEAN


def _check(options: EraseOptions, *, kafka: bool) -> None:
    if not options.users and not options.conversations:
        raise ConfigError("name whom to erase: --user ID or --conversation ID")
    if kafka and options.to is None and not options.dry_run:
        raise ConfigError(
            "records of a topic cannot be changed: name with --to a configuration with another log.kafka.prefix; "
            "what is left is copied there, and the present topics are deleted"
        )
    if options.to is not None and not kafka:
        raise ConfigError("--to is for logs in Kafka; a SQLite file is changed in its place")
    if missing := [path for path in options.files if not path.exists()]:
        raise ConfigError(f"--file: {missing[0]}: no such file, so nothing was erased; correct the path")


def _as_stored(config: Config, ids: Sequence[str]) -> set[str]:
    """The ids as they may stand in the logs: as they are, and as pseudonyms."""
    redactors = open_redactors(config.settings.redact)
    every = [redactors.everybody, *redactors.by_tenant.values()]
    return {*ids, *(redactor.text(name) for redactor in every if redactor is not None for name in ids)}


async def _rewrite(logs: Logs, person: Person, *, write: bool) -> Counter[str]:
    """Take them out of every record, by log; how many were changed."""
    changed = Counter[str]()
    for log in logs:
        async for batch in read_partitions(log):
            rewritten = [person.without(log.name, record) for record in batch]
            changes = [after for before, after in zip(batch, rewritten, strict=True) if after != before]
            changed[log.name] += len(changes)
            if changes and write:
                await cast("SqliteLog", log).rewrite(changes)
    return changed


class _Without:
    """A log as it would be without the person, for a copy."""

    def __init__(self, log: Log, person: Person) -> None:
        self._log = log
        self._person = person

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def read(self, partition: int, start: int) -> AsyncIterator[Sequence[StoredRecord]]:
        async for batch in self._log.read(partition, start):
            yield [self._person.without(self._log.name, record) for record in batch]


def _erase_lines(path: Path, person: Person, options: EraseOptions) -> int:
    """Write the lines that stay to a new file, and put it in the old one's place; how many are gone."""
    rest = path.with_name(f"{path.name}.rest")
    gone = 0
    try:
        with path.open("rb") as old, open(rest, "wb", opener=open_private) as new:
            shutil.copystat(path, rest)
            for line in old:
                if person.is_named_in(_document(line)):
                    gone += 1
                else:
                    new.write(line)
            new.flush()
            os.fsync(new.fileno())
        if gone and not options.dry_run:
            rest.replace(path)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be rewritten ({error.strerror})") from error
    finally:
        rest.unlink(missing_ok=True)
    return gone


def _left_in(files: Sequence[Path], person: Person) -> Counter[str]:
    """How often ids still stand in files, by file."""
    ids, _ = _needles(person)
    return Counter(
        {str(path): sum(_occurrences(path, name, person) for name in ids) for path in files if path.exists()}
    )


def _needles(person: Person) -> tuple[list[bytes], list[bytes]]:
    """The ids and the texts to search for."""
    ids = [name.encode() for kind in ("user_id", "conversation_id") for name in person.ids[kind]]
    in_place = [name if len(name) >= _SHORTEST else orjson.dumps(name.decode()) for name in ids]
    return in_place, [text.encode() for text in person.texts]


async def _count(logs: Iterable[Log], person: Person) -> tuple[Counter[bytes], Counter[str]]:
    """How often ids and texts stand in records; and the records with an id, by log."""
    ids, texts = _needles(person)
    counts, places = Counter[bytes](), Counter[str]()
    for log in logs:
        async for record in read_records(log):
            content = (record.key or b"") + record.value + b"".join(value for _, value in record.headers)
            seen = [needle for needle in (*ids, *texts) if needle in content]
            here = +Counter({needle: person.count(needle, content) for needle in seen})
            counts += here
            named = [name.decode() for name in ids if name in here]
            if named and places[f"log {log.name}"] < _EXAMPLES:
                at = f"partition {record.partition}, offset {record.offset}"
                person.examples.append(f"log {log.name}, {at}: {listed(named[:_EXAMPLES])}")
            places[f"log {log.name}"] += bool(named)
    return counts, +places


async def _search_file(config: Config, logs: Logs, person: Person) -> Counter[str]:
    """Search the records, and the bytes of the file and those beside it; where an id is, or a text in no record."""
    path = Path(config.settings.log.path)
    live, places = await _count(logs, person)
    if _beyond(path, person, live):  # pages that an earlier version freed without overwriting them
        await cast("SqliteLog", logs.turns).compact()
    return places + _beyond(path, person, live)


def _beyond(path: Path, person: Person, live: Counter[bytes]) -> Counter[str]:
    """The ids and texts that files have more often than their records do, by file."""
    ids, texts = _needles(person)
    beyond = Counter[str]()
    for file in sorted(path.parent.glob(f"{path.name}*")):
        known = live if file == path else Counter[bytes]()
        for needle in (*ids, *texts):
            beyond[str(file)] += max(0, _occurrences(file, needle, person) - known[needle])
    return +beyond


def _occurrences(file: Path, needle: bytes, person: Person) -> int:
    longer = person.longer(needle)
    count, rest, overlap = 0, b"", max(map(len, (needle, *longer))) - 1
    with file.open("rb") as opened:
        while block := opened.read(_BLOCK):
            data = rest + block
            end = max(0, len(data) - overlap)
            count += _without(data, longer).count(needle, 0, end + len(needle) - 1)
            rest = data[end:]
    return count + _without(rest, longer).count(needle)


async def _copy_rest(config: Config, to: Config, person: Person, copied: str | None, say: Say) -> None:
    """Copy the logs without the person, unless they are `copied` to the same target: deletion has failed then.

    Raises:
        ConfigError: the copy does not add up, or the target holds something else.
    """
    try:
        if await copy_logs(config, to, say, lambda log: cast("Log", _Without(log, person)), person.note):
            raise ConfigError("log: the copy does not add up, so the old topics are kept; see what is said above")
    except WholeAlready:
        if copied != to.source:
            raise


async def _count_copies(log: KafkaLogSettings, own: Collection[str], key: str, person: Person) -> Counter[str]:
    """The records with an id in copies of the same logs, in topics whose prefix is not one of our `own`, by place."""
    settings, counts = settings_of_log(log), Counter[str]()
    for prefix in sorted(set(await asyncio.to_thread(prefixes, settings, ".definitions")) - set(own)):
        topics = {name: f"{prefix}.{name}" for name in names_of(linking=True, page=True, judged_spans=True)}
        with suppress(LogError):  # topics of others, which this user may not read
            there = await asyncio.to_thread(states, settings, list(topics.values()))
            async with opened_as_they_are(settings, topics, there) as logs:
                if await (await GeneratedStepsStore.open(logs["definitions"])).load(OWN_KEY) == key:
                    counts[f"topics {prefix}.*"] += (await _count(logs.values(), person))[1].total()
    return counts


def _old_topics(config: Config, log: KafkaLogSettings) -> tuple[KafkaSettings, list[str]]:
    return settings_of_log(log), [f"{log.prefix}.{name}" for name in names_of(page=True, **config.optional_logs)]


def _report(
    config: Config, options: EraseOptions, person: Person, changed: Counter[str], mentions: Counter[str], say: Say
) -> None:
    beyond = list(_out_of_reach(config, options))
    numbers = {name: len(person.ids[f"{name}_id"]) for name in ("conversation", "turn", "trace", "evaluation")}
    if options.json:
        ids = {name: sorted(values) for name, values in person.ids.items()}
        plain = {"ids": ids, "changed": changed, "found": mentions, "beyond": beyond, "dry_run": options.dry_run}
        say(indented_json(plain))
        return
    say(f"Found {listed(plural(number, name) for name, number in numbers.items())}; one may be in several records.")
    verb = "Would change" if options.dry_run else "Changed"
    for name, number in changed.items():
        if number:
            say(f"{verb} {plural(number, 'record')} of {name}.")
    if not options.dry_run:
        ids, texts = _needles(person)
        searched = f"{plural(len(ids), 'id')} and {plural(len(texts), 'text')}"
        say(f"Searched all bytes for {searched}: {'still found some' if mentions else 'found nothing'}.")
    for place, number in mentions.items():
        other = "records of other people that mention an id are kept"
        say(f"  {place}: {number}; {'an earlier copy of these logs: delete it' if place.endswith('.*') else other}")
    for example in person.examples:
        say(f"    {example}")
    say("Out of reach of this command:")
    for each in beyond:
        say(f"  - {each}")
    if options.to is not None and not options.dry_run:
        say(f"Next: evalstream run -c {options.to.source}")


def _out_of_reach(config: Config, options: EraseOptions) -> Iterator[str]:
    for name in config.exporters:
        if name not in ("prometheus", "jsonl"):
            yield f"export.{name}: what it has sent stays at its destination"
    for source in config.settings.receive.kafka:
        topics = listed([*source.traces, *source.logs, *source.turns])
        yield f"receive.kafka: {topics} keep records as long as their own retention says"
    for name in config.settings.judges:
        yield f"judges.{name}: what its endpoint keeps of questions and of files of batches"
    if options.to is not None:
        yield "Kafka: brokers delete the files of a topic some time after it (file.delete.delay.ms)"
        yield "Kafka: earlier copies on other clusters, and in topics that this user may not read"
    if config.settings.log.kafka is not None and "jsonl" in config.exporters:
        yield (
            "export.jsonl: files of other processes and machines; bring them here and name each with --file in this "
            "run, as no later one knows the conversations"
        )
    yield "Parquet and other files that commands have written, rotated files and backups; --file takes those of JSONL"
    yield "Prometheus: sums and exemplars, which have no texts and no users"
