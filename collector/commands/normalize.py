"""`evalstream turns`: the turns in files, as the service would assemble them."""

import re
import sys
from codecs import BOM_UTF8, getincrementaldecoder
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, TextIO, cast

import orjson

from collector.assemble.collect_trace import TracePiece
from collector.assemble.explain import explain, format_lines
from collector.assemble.trace import Assembler
from collector.assemble.unread.examination import examine
from collector.config.dialects import NO_DIALECTS, DialectSettings
from collector.config.settings import AssembleSettings
from collector.dialects.registry import Dialects
from collector.errors import BadInput, ConfigError
from collector.otlp.decode import Signal, read_request, split_by_trace
from collector.otlp.inline_media import omit_from_json, omit_from_request
from collector.receive.parsed_request import give_traces, list_events_without_trace
from collector.records.attachments import within_limits
from collector.records.foreign_shapes import csv_rows, rows_of, why_no_case
from collector.records.json import turn_to_json
from collector.records.ready_made import is_readymade, turns_in
from collector.service.assembly_builder import build_assembler, link_turns
from collector.telemetry.plain import plain, printable
from evaluators.cases import Turn
from evaluators.texts.exact_json import parse_exactly, place_in_json

STDIN = Path("-")
"""The path that means standard input."""

_SUFFIXES = {".pb", ".bin", ".json", ".jsonl", ".ndjson", ".csv"}
_GZIP = b"\x1f\x8b"
_SIGNALS: tuple[Signal, Signal] = ("traces", "logs")
_SIGNAL_OF = {
    "resourceSpans": "traces", "resource_spans": "traces", "resourceLogs": "logs", "resource_logs": "logs",
}  # fmt: skip


def main(
    paths: Sequence[Path],
    out: TextIO,
    err: TextIO,
    *,
    settings: AssembleSettings = AssembleSettings(),  # noqa: B008 - a frozen value
    dialects: Mapping[str, DialectSettings] = NO_DIALECTS,
    explained: bool = False,
    as_json: bool = False,
) -> int:
    """Print one JSON turn per line, or with `explained` how every span was read; returns the exit status.

    `as_json` prints the explanations as JSON, one object per trace.

    0: done, with a notice to `err` if the files have no turns; 2: a file does not exist or has other content.
    """
    try:
        assembler = build_assembler(settings, dialects)
        if explained:
            lines = _explain(paths, assembler, as_json=as_json)
        else:
            lines = (turn_to_json(turn).decode() for turn in link_turns(normalize(paths, assembler), settings))
        is_empty = True
        for line in lines:
            out.write(f"{printable(line)}\n")
            is_empty = False
    except ConfigError as error:
        err.write(f"evalstream: {plain(str(error))}\n")
        return 2
    if is_empty:
        reason = "no traces found" if explained else "no turns found; --explain shows why"
        err.write(f"evalstream: {', '.join(map(str, paths))}: {reason}\n")
    return 0


def normalize(paths: Sequence[Path], assembler: Assembler | None = None) -> Iterator[Turn]:
    """The turns in files of OTLP requests (protobuf or JSON) or of ready-made turns, in order of appearance.

    A directory stands for its files in name order, `-` for standard input. All files together are one stream: the spans
    of a trace may be spread over several of them.

    Raises:
        ConfigError: a file does not exist or has other content, or a directory has no file with a known suffix; names
            the file, the line and the reason.
    """
    assembler = assembler or Assembler(Dialects.installed())
    traces: dict[str, list[TracePiece] | Turn] = {}
    for path in _find_files(paths):
        for item in _read_file(path, assembler.media.stored_bytes):
            if isinstance(item, Turn):
                traces[f"turn {len(traces)}"] = item
            else:
                items = traces.setdefault(item[0], [])
                if isinstance(items, list):
                    items.append(item[1])
    for items in traces.values():
        if isinstance(items, Turn):
            yield items
        else:
            yield from (turn.turn for turn in assembler.assemble(items).turns)


def pieces_in(
    paths: Sequence[Path], stored_media: int = 0, unread: Counter[str] | None = None
) -> dict[str, list[TracePiece]]:
    """The pieces of the traces in files, by trace id. `unread` counts log records without a trace by their events.

    Raises:
        ConfigError: as for `normalize`.
    """
    traces: dict[str, list[TracePiece]] = {}
    for path in _find_files(paths):
        for item in _read_file(path, stored_media, unread):
            if not isinstance(item, Turn):
                traces.setdefault(item[0], []).append(item[1])
    return traces


def _explain(paths: Sequence[Path], assembler: Assembler, *, as_json: bool) -> Iterator[str]:
    """How each trace was read; at the end comes the unread text of all of them."""
    unread: Counter[str] = Counter()
    traces = pieces_in(paths, assembler.media.stored_bytes, unread)
    for trace_id, pieces in traces.items():
        explained = explain(trace_id, pieces, assembler)
        yield from [orjson.dumps(explained).decode()] if as_json else map(plain, format_lines(explained))
    if examination := examine(traces.values(), assembler):
        yield from [orjson.dumps(examination.as_json()).decode()] if as_json else examination.lines()
    if unread:
        yield orjson.dumps({"records_without_trace": unread}).decode() if as_json else describe_unread(unread)


_MOST_EVENTS = 6


def describe_unread(unread: Counter[str]) -> str:
    """Say how many log records without a trace were not read, by event."""
    named = ", ".join(f"{name or 'no event name'} ({count})" for name, count in unread.most_common(_MOST_EVENTS))
    more = ", …" if len(unread) > _MOST_EVENTS else ""
    return f"not read: {unread.total()} log records with neither a trace id nor a prompt's id: {named}{more}"


def _find_files(paths: Sequence[Path]) -> Iterator[tuple[Path, bool]]:
    """The files, and whether each was named by the user rather than found in a directory."""
    for path in paths:
        if path.is_dir():
            files = sorted(file for file in path.iterdir() if file.is_file() and file.suffix in _SUFFIXES)
            if not files:
                raise ConfigError(f"{path}: no file with the suffix {', '.join(sorted(_SUFFIXES))}")
            yield from ((file, False) for file in files)
        elif path == STDIN or path.exists():
            yield path, True
        else:
            raise ConfigError(f"{path}: no such file or directory")


def _read_file(
    file: tuple[Path, bool], stored_media: int, unread: Counter[str] | None = None
) -> Iterator[Turn | tuple[str, TracePiece]]:
    path, is_named = file
    name = "standard input" if path == STDIN else str(path)
    try:
        data = sys.stdin.buffer.read() if path == STDIN else path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{name}: {error.strerror or 'cannot be read'}") from None
    data = data.removeprefix(BOM_UTF8)  # as files saved on Windows begin
    if path.suffix in _TABLES:
        raise ConfigError(f"{name}: {_TABLES[path.suffix]} is not read; save it as CSV or as JSON lines")
    if is_named and not data.strip():
        raise ConfigError(f"{name}: is empty; give OTLP, or turns with one JSON object per line")
    is_json = data.lstrip()[:1] in {b"{", b"["}
    if path.suffix not in {".pb", ".bin", ".csv"} and data.strip() and not is_json and _is_text(data):
        raise ConfigError(f"{name}: {_what_it_is(data, path)}")  # else many a text is protobuf of unknown fields
    try:
        if path.suffix == ".csv":
            yield from _parse_csv(data, path, stored_media)
        elif path.suffix in {".pb", ".bin"} or not is_json:
            yield from _parse_protobuf(data, _possible_signals(path), stored_media, unread)
        else:
            yield from _parse_json(data, path, stored_media, unread, is_named=is_named)
    except BadInput as error:
        reason = str(error)
        if path.suffix != ".csv" and (not is_json or not _is_text(data)):
            reason = _what_it_is(data, path)
        raise ConfigError(f"{name}: {reason}") from None


_NO_NUMBER = re.compile(rb"[:\[,]\s*-?(?:NaN|Infinity)\b")
_JSON = frozenset({".json", ".jsonl", ".ndjson"})
_TABLES = {".xlsx": "an Excel workbook", ".xls": "an Excel workbook", ".parquet": "a Parquet file", ".tsv": "TSV"}


def _what_it_is(data: bytes, path: Path) -> str:
    """Why a file that is no JSON cannot be read, with what to do."""
    if data.startswith(_GZIP):
        return "is compressed; decompress it first: gunzip"
    if data.startswith(b"PK"):
        return "is an archive or an Office document; unpack it, or save it as CSV or as JSON lines"
    if path.suffix in _JSON and not _is_text(data):
        return f"{_undecodable_line(data)}is not UTF-8; save it as UTF-8"
    if path.suffix in _JSON or _is_text(data[:1000]):
        return "not JSON; give OTLP, or turns with one JSON object per line"
    return f"not an OTLP protobuf request of {' or '.join(_possible_signals(path))}; a file holds one request"


def _is_text(data: bytes) -> bool:
    try:
        text = getincrementaldecoder("utf-8")().decode(data)  # its last character may be cut
    except UnicodeDecodeError:
        return False
    return all(character.isprintable() or character.isspace() for character in text)


def _undecodable_line(data: bytes) -> str:
    """The first line that is not UTF-8, as the beginning of a sentence; empty where all are."""
    before, bad, _ = data.decode(errors="replace").partition("\ufffd")
    return f"line {before.count(chr(10)) + 1} " if bad else ""


def _possible_signals(path: Path) -> Sequence[Signal]:
    """The signals that a protobuf file may have: one if its name says so, else both."""
    name = path.name.lower()
    if "log" in name:
        return ("logs",)
    return ("traces",) if "trace" in name or "span" in name else _SIGNALS


def _parse_protobuf(
    data: bytes, signals: Sequence[Signal], stored_media: int, unread: Counter[str] | None
) -> Iterator[tuple[str, TracePiece]]:
    """Parse the pieces of a request. Every possible signal is tried: a wrong one gives an error or no trace ids."""
    problem: BadInput | None = None
    for signal in signals:
        try:
            request = read_request(data, signal)
            omitted = omit_from_request(request, data, stored_media) + give_traces(request)  # as the service does
            split = split_by_trace(request, None if omitted or data.lstrip()[:1] == b"{" else data)
        except BadInput as error:
            problem = problem or error
            continue
        if split.pieces or signal == signals[-1]:
            if unread is not None:
                unread.update(list_events_without_trace(request))
            yield from ((trace_id, TracePiece(signal, value)) for trace_id, value in split.pieces)
            return
    if problem is not None:
        raise problem


def _parse_json(
    data: bytes, path: Path, stored_media: int, unread: Counter[str] | None, *, is_named: bool
) -> Iterator[Turn | tuple[str, TracePiece]]:
    """Parse the requests or turns of a JSON file: one document, or one per line."""
    data, _ = omit_from_json(data, stored_media)
    for number, (line, text, document) in enumerate(_load_documents(data), 1):
        signal = _find_signal(document)
        values = rows_of(document) or (cast("list[object]", document) if isinstance(document, list) else [document])
        if signal is not None:
            yield from _parse_protobuf(text, [signal], stored_media, unread)
        elif values and all(map(is_readymade, values)):
            for index, value in enumerate(values):
                place = f"line {line}" if line else f"element {index + 1}" if len(values) > 1 else ""
                yield from _turns(value, f"{path.name}:{number}.{index}", place, stored_media)
        elif is_named:
            place = f"line {line}" if line else "the file"
            why = why_no_case(cast("object", document))
            raise BadInput(f"{place} is neither an OTLP request nor a turn, a conversation or a chat: {why}")


def _parse_csv(data: bytes, path: Path, stored_media: int) -> Iterator[Turn]:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadInput(f"{_undecodable_line(data)}is not UTF-8; save it as CSV UTF-8") from None
    for number, row in enumerate(csv_rows(text), 1):
        yield from _turns(row, f"{path.name}:{number}.0", f"row {number}", stored_media)


def _turns(value: object, where: str, place: str, stored_media: int) -> Iterator[Turn]:
    """The turns of a document; `where` is part of their ids, `place` is where a message says it stands."""
    try:
        for turn in turns_in(value, where):
            yield replace(turn, attachments=within_limits(turn.attachments, stored_media))
    except BadInput as error:
        raise BadInput(f"{place}: {error}" if place else str(error)) from None


def _load_documents(data: bytes) -> list[tuple[int, bytes, object]]:
    """The documents with their texts and line numbers, counted from 1; a file that is one document has line 0."""
    try:
        return [(0, data, parse_exactly(data))]
    except ValueError as error:
        if data.split(maxsplit=1)[0] in (b"[", b"{") or data.lstrip()[:1] == b"[":
            raise _not_json(data, f"is not JSON{place_in_json(error)}", "correct it there") from None
        lines = [(number, line) for number, line in enumerate(data.splitlines(), 1) if line.strip()]
        return [(number, line, _load_line(line, number)) for number, line in lines]


def _load_line(line: bytes, number: int) -> object:
    try:
        return parse_exactly(line)
    except ValueError:
        raise _not_json(line, f"line {number} is not JSON", "write one JSON object a line, or remove it") from None


def _not_json(line: bytes, problem: str, remedy: str) -> BadInput:
    if _NO_NUMBER.search(line):
        remedy = "write null for NaN and Infinity"
    elif line.rstrip().endswith((b"},", b"],")):  # else it is cut off
        remedy = "remove the comma at its end"
    elif line.lstrip().startswith(b"{'"):
        remedy = "JSON has double quotes"
    return BadInput(f"{problem}; {remedy}")


def _find_signal(document: object) -> Literal["traces", "logs"] | None:
    if isinstance(document, dict):
        for key, signal in _SIGNAL_OF.items():
            if key in document:
                return "traces" if signal == "traces" else "logs"
    return None
