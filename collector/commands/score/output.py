"""Output files of evaluations: JSONL, from which a later run resumes, or CSV."""

import csv
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from collector.errors import ConfigError
from collector.evaluate.plan import Job
from collector.records.json import evaluation_to_json
from collector.telemetry.plain import cell
from evaluators.batch import attempts_in
from evaluators.cases import Json
from evaluators.identity import CASE_DIGEST
from evaluators.private_files import open_private
from evaluators.results import Evaluation

COLUMNS = ("evaluation_id", "evaluator", "turn_id", "conversation_id", "outcome", "score", "passed", "reason")


_SUFFIXES = frozenset({".jsonl", ".ndjson", ".csv"})


Write = Callable[[Sequence[Evaluation]], None]
"""Writes several evaluations together, such as a pack's; what is written survives an interruption."""


def content_id(of: Job | Evaluation) -> tuple[str, Json]:
    """The same for a job and an evaluation of an earlier run if the case has not changed in between."""
    return of.evaluation_id, of.attributes.get(CASE_DIGEST)


def read_attempts(path: Path | None, option: str = "--output") -> list[Evaluation]:
    """The evaluations of earlier runs in a JSONL file that an option names, failures and what was made again included.

    Raises:
        ConfigError: it exists and cannot be read, or contains something else.
    """
    if path is None or path.suffix == ".csv" or path.is_char_device():
        return []
    try:
        return attempts_in(path, is_resumed=option == "--output")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); name another file with {option}") from error
    except ValueError as error:
        raise ConfigError(f"{error} with {option}") from error


@contextmanager
def open_writer(path: Path | None) -> Generator[Write]:
    """Open the output: JSONL is appended to, CSV overwritten.

    Raises:
        ConfigError: it cannot be written.
    """
    if path is None:
        yield lambda _evaluations: None
        return
    if path.suffix not in _SUFFIXES:
        raise ConfigError(f"{path}: results are written as .jsonl or .csv; name such a file with --output")
    try:
        mode = "w" if path.suffix == ".csv" else "a"
        with open(path, mode, newline="", encoding="utf-8", opener=open_private) as file:
            yield _as_csv(file) if path.suffix == ".csv" else _as_jsonl(file)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written ({error.strerror}); name another file with --output") from error


def _as_jsonl(file: IO[str]) -> Write:
    def write(evaluations: Sequence[Evaluation]) -> None:
        file.write("".join(evaluation_to_json(evaluation).decode() + "\n" for evaluation in evaluations))
        file.flush()

    return write


def _as_csv(file: IO[str]) -> Write:
    rows = csv.writer(file)
    rows.writerow(COLUMNS)

    def write(evaluations: Sequence[Evaluation]) -> None:
        rows.writerows([cell(value) for value in _row(evaluation)] for evaluation in evaluations)
        file.flush()

    return write


def _row(evaluation: Evaluation) -> list[object]:
    subject = evaluation.subject
    why = evaluation.explanation or evaluation.reason or (evaluation.error.type if evaluation.error else "")
    return [
        evaluation.evaluation_id, evaluation.evaluator, subject.turn_id, subject.conversation_id, evaluation.outcome,
        evaluation.score, evaluation.passed, why,
    ]  # fmt: skip
