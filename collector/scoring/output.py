"""Where evaluations of files go: JSONL, that a later run goes on from, or CSV."""

from __future__ import annotations

import csv
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Protocol

from collector.errors import BadInput, ConfigError
from collector.records import evaluation_from_json, evaluation_to_json
from evaluators.outcome import Evaluation

COLUMNS = ("evaluation_id", "evaluator", "turn_id", "conversation_id", "outcome", "score", "passed", "reason")


class Sink(Protocol):
    """Takes evaluations as they are made."""

    def write(self, evaluation: Evaluation) -> None:
        """Write one; what is written survives an interruption."""
        ...


def made_before(path: Path | None) -> list[Evaluation]:
    """What earlier runs have left in a JSONL file; failures are left out, they are to be made again.

    Raises:
        ConfigError: it is there and cannot be read, or holds something else.
    """
    if path is None or path.suffix == ".csv" or not path.exists():
        return []
    try:
        *lines, rest = path.read_bytes().split(b"\n")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); name another file with --output") from error
    if rest:  # an interrupted run's last line, cut off
        with path.open("r+b") as file:
            file.truncate(path.stat().st_size - len(rest))
    found: dict[str, Evaluation] = {}
    for number, line in enumerate(lines, 1):
        try:
            evaluation = evaluation_from_json(line)
        except BadInput as error:
            raise ConfigError(f"{path}: line {number} is no evaluation ({error}); name another file") from error
        found[evaluation.evaluation_id] = evaluation
    return [each for each in found.values() if each.outcome != "failed"]


@contextmanager
def writing(path: Path | None) -> Generator[Sink]:
    """Open the output: JSONL is written on, CSV anew.

    Raises:
        ConfigError: it cannot be written.
    """
    if path is None:
        yield _Nowhere()
        return
    try:
        with path.open("w" if path.suffix == ".csv" else "a", newline="", encoding="utf-8") as file:
            yield _Csv(file) if path.suffix == ".csv" else _Jsonl(file)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written ({error.strerror})") from error


class _Nowhere:
    def write(self, evaluation: Evaluation) -> None:
        del evaluation


class _Jsonl:
    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, evaluation: Evaluation) -> None:
        self._file.write(evaluation_to_json(evaluation).decode() + "\n")
        self._file.flush()


class _Csv:
    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._rows = csv.writer(file)
        self._rows.writerow(COLUMNS)

    def write(self, evaluation: Evaluation) -> None:
        subject = evaluation.subject
        why = evaluation.explanation or evaluation.reason or (evaluation.error.type if evaluation.error else "")
        self._rows.writerow(
            [
                evaluation.evaluation_id,
                evaluation.evaluator,
                subject.turn_id,
                subject.conversation_id,
                evaluation.outcome,
                evaluation.score,
                evaluation.passed,
                why,
            ]
        )
        self._file.flush()
