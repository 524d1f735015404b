"""`evalstream normalize`: the turns that files hold, as the service would assemble them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, TextIO

import orjson

from collector.assemble.explain import explain, lines_of
from collector.assemble.gather import Piece
from collector.assemble.trace import Assembler
from collector.assembling import assembler_of, linked
from collector.config.settings import AssembleSettings
from collector.dialects.registry import Dialects
from collector.errors import BadInput, ConfigError
from collector.otlp import Signal, read_request, split_by_trace
from collector.readymade import is_readymade, turns_in
from collector.records import turn_to_json
from evaluators.cases import Turn

_ENDINGS = {".pb", ".bin", ".json", ".jsonl", ".ndjson"}
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
    explained: bool = False,
    as_json: bool = False,
) -> int:
    """Print one JSON turn per line, or with `explained` how every span was read; gives the exit status.

    `as_json` makes the explanations JSON, too: one object per trace.

    0: done; 1: a file holds what cannot be read; 2: there is no such file.
    """
    try:
        assembler = assembler_of(settings)
        if explained:
            lines = _explanations(paths, assembler, as_json=as_json)
        else:
            lines = map(_line, linked(normalize(paths, assembler), settings))
        out.writelines(f"{line}\n" for line in lines)
    except ConfigError as error:
        err.write(f"evalstream: {error}\n")
        return 2
    except BadInput as error:
        err.write(f"evalstream: {error}\n")
        return 1
    return 0


def _line(turn: Turn) -> str:
    return turn_to_json(turn).decode()


def normalize(paths: Sequence[Path], assembler: Assembler | None = None) -> Iterator[Turn]:
    """The turns in files of OTLP requests (protobuf or JSON) or of ready-made turns, in order of appearance.

    A directory stands for its files in name order. All files together are one stream: the spans of a trace may be
    spread over several of them.

    Raises:
        ConfigError: there is no such file, or a directory has no file of a known ending.
        BadInput: a file holds something else; names the file and the reason.
    """
    traces: dict[str, list[Piece] | Turn] = {}
    for path in _files(paths):
        for item in _items(path):
            if isinstance(item, Turn):
                traces[f"turn {len(traces)}"] = item
            else:
                held = traces.setdefault(item[0], [])
                if isinstance(held, list):
                    held.append(item[1])
    assembler = assembler or Assembler(Dialects.installed())
    for held in traces.values():
        if isinstance(held, Turn):
            yield held
        else:
            yield from (each.turn for each in assembler.assemble(held).turns)


def _explanations(paths: Sequence[Path], assembler: Assembler, *, as_json: bool) -> Iterator[str]:
    traces: dict[str, list[Piece]] = {}
    for path in _files(paths):
        for item in _items(path):
            if not isinstance(item, Turn):
                traces.setdefault(item[0], []).append(item[1])
    for trace_id, pieces in traces.items():
        explained = explain(trace_id, pieces, assembler)
        yield from [orjson.dumps(explained).decode()] if as_json else lines_of(explained)


def _files(paths: Sequence[Path]) -> Iterator[tuple[Path, bool]]:
    """The files, and whether each was named by the user rather than found in a directory."""
    for path in paths:
        if path.is_dir():
            found = sorted(each for each in path.iterdir() if each.is_file() and each.suffix in _ENDINGS)
            if not found:
                raise ConfigError(f"{path}: no file in it ends in {', '.join(sorted(_ENDINGS))}")
            yield from ((each, False) for each in found)
        elif path.is_file():
            yield path, True
        else:
            raise ConfigError(f"{path}: no such file or directory")


def _items(file: tuple[Path, bool]) -> Iterator[Turn | tuple[str, Piece]]:
    path, named = file
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or 'cannot be read'}") from None
    try:
        if path.suffix in {".pb", ".bin"} or data.lstrip()[:1] not in {b"{", b"["}:
            yield from _pieces(data, _signals(path))
        else:
            yield from _documents(data, path, named=named)
    except BadInput as error:
        text = path.suffix in {".json", ".jsonl", ".ndjson"} and data.lstrip()[:1] not in {b"{", b"["}
        wanted = "holds no JSON; give OTLP, or turns with one JSON object a line"
        raise BadInput(f"{path}: {wanted if text else error}") from None


def _signals(path: Path) -> Sequence[Signal]:
    """What a protobuf file may hold: by its name if that says so."""
    name = path.name.lower()
    if "log" in name:
        return ("logs",)
    return ("traces",) if "trace" in name or "span" in name else _SIGNALS


def _pieces(data: bytes, signals: Sequence[Signal]) -> Iterator[tuple[str, Piece]]:
    """The pieces of a request. Which signal it is, is tried: the wrong one gives an error or no trace ids."""
    problem: BadInput | None = None
    for signal in signals:
        try:
            request = read_request(data, signal)
            split = split_by_trace(request, None if data.lstrip()[:1] == b"{" else data)
        except BadInput as error:
            problem = problem or error
            continue
        if split.pieces or signal == signals[-1]:
            yield from ((trace_id, Piece(signal, value)) for trace_id, value in split.pieces)
            return
    if problem is not None:
        raise problem


def _documents(data: bytes, path: Path, *, named: bool) -> Iterator[Turn | tuple[str, Piece]]:
    """The requests or turns of a JSON file: one document, or one per line."""
    try:
        documents = [orjson.loads(data)]
        texts = [data]
    except ValueError:
        texts = [line for line in data.splitlines() if line.strip()]
        documents = [_json(line, number) for number, line in enumerate(texts, 1)]
    for number, (document, text) in enumerate(zip(documents, texts, strict=True), 1):
        signal = _signal_in(document)
        if signal is not None:
            yield from _pieces(text, [signal])
        elif is_readymade(document):
            yield from turns_in(document, f"{path.name}:{number}")
        elif named:
            raise BadInput(f"line {number} is neither an OTLP request nor a turn, a conversation or a chat")


def _json(line: bytes, number: int) -> object:
    try:
        return orjson.loads(line)
    except ValueError:
        raise BadInput(f"line {number} is not JSON") from None


def _signal_in(document: object) -> Literal["traces", "logs"] | None:
    if isinstance(document, dict):
        for key, signal in _SIGNAL_OF.items():
            if key in document:
                return "traces" if signal == "traces" else "logs"
    return None
