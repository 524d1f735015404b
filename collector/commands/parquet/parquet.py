"""`evalstream export parquet`: evaluations and labels as Parquet files by day, in a directory or an S3 store.

A day is that on which the log took a record, in UTC: log times never decrease, so a day that is over does not change,
and today's file is replaced by a longer one each time. A file is written as a whole, or not at all. Nested fields of a
record are flat in a row.
"""

import importlib
from collections.abc import AsyncIterator, Callable, Collection, Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal

import orjson

from collector.calibration.page_labels import human_of
from collector.config.command_options import WindowOptions, require_window
from collector.config.configured import Config
from collector.errors import DONE, FAILED, BadInput, ConfigError
from collector.logs.log import Log, StoredRecord, records_from
from collector.logs.whole_log import first_offset
from collector.records.epochs import valid_evaluations
from collector.records.json import evaluation_from_json, label_from_json
from collector.service.open_logs import open_stored_logs
from collector.service.plan_builder import lower_is_better
from collector.statistics.agreement import ScoreScale
from collector.wording import plural
from evaluators.cases import Json
from evaluators.results import Evaluation, Label

Kind = Literal["text", "number", "whole", "flag", "time", "texts", "map"]
"""Text, a double, a 64-bit whole number, a Boolean, a time in UTC (µs), a list of texts, a map from text to text."""

Columns = Mapping[str, Kind]


def _all(kind: Kind, *names: str) -> Columns:
    """Columns of one kind, in this order."""
    return dict.fromkeys(names, kind)


_SUBJECT: Columns = {
    **_all("text", "conversation_id", "turn_id", "trace_id", "span_id", "response_id"),
    "revision": "whole",
    "links": "text",
}
_IDENTITY = _all("text", "evaluation_id", "evaluator", "evaluator_version", "monitor", "scope")
_SAMPLING: Columns = {
    **_all("number", "probability", "weight"),
    **_all("text", "stratum", "sampling_unit"),
    "upstream_probability": "number",
}
EVALUATION_COLUMNS: Columns = {
    **_IDENTITY, "outcome": "text", "score": "number", "label": "text", "passed": "flag",
    **_all("text", "explanation", "reason", "error_type", "error_message", "method"),
    **_all("number", "raw_score", "range_low", "range_high", "kept_mass"),
    **_all("text", "details", "judge_model", "judge_fingerprint", "judge_prompt_hash"),
    **_all("whole", "input_tokens", "output_tokens", "judge_calls"), "cost_usd": "number", **_SUBJECT, **_SAMPLING,
    "supersedes": "texts", "shares": "text", "retry_attempt": "whole",
    **_all("text", "retry_reason", "escalation_reason"),
    **_all("number", "escalation_probability", "escalation_doubt", "first_score"),
    **_all("time", "started_at", "ended_at", "happened_at", "time", "recorded_at"), "attributes": "map",
}  # fmt: skip
LABEL_COLUMNS: Columns = {
    "label_id": "text", **_IDENTITY, "opinion": "text", "score": "number", "good": "flag", "note": "text",
    "judge_score": "number", "judge_passed": "flag", "judge_model": "text", **_SUBJECT, **_SAMPLING,
    "label_probability": "number", "given_by": "text", "given_at": "time", "retracted": "flag", "recorded_at": "time",
}  # fmt: skip


_PLACES: Mapping[str, str] = {
    "error_type": "error.type", "error_message": "error.message", "judge_model": "judge.model",
    "judge_fingerprint": "judge.fingerprint", "judge_prompt_hash": "judge.prompt_hash",
    "input_tokens": "usage.input_tokens", "output_tokens": "usage.output_tokens", "judge_calls": "usage.calls",
    "retry_attempt": "retry.attempt", "retry_reason": "retry.reason", "escalation_reason": "escalation.reason",
    "escalation_probability": "escalation.probability", "escalation_doubt": "escalation.doubt",
    "first_score": "escalation.first_score", **{name: f"subject.{name}" for name in _SUBJECT},
    "probability": "sampling.probability", "stratum": "sampling.stratum", "sampling_unit": "sampling.unit",
}  # fmt: skip
"""The place of a column's value in a record, if it is nested there; other columns have the name of their field."""


def evaluation_row(evaluation: Evaluation, recorded_at: datetime, *, texts: bool) -> dict[str, Any]:
    """An evaluation that the log took at a time. Without `texts` the judge's words and details are left out."""
    low, high = evaluation.range or (None, None)
    made = {
        **_shared(evaluation, recorded_at),
        "range_low": low,
        "range_high": high,
        "details": _json(dict(evaluation.details)) if texts and evaluation.details else None,
        "supersedes": list(evaluation.supersedes),
        "attributes": [(name, v if isinstance(v, str) else _json(v)) for name, v in evaluation.attributes.items()],
        **({} if texts else {"explanation": None}),
    }
    return _row(evaluation, EVALUATION_COLUMNS, made)


def label_row(
    label: Label, recorded_at: datetime, *, texts: bool, lower_is_better: Collection[str] = ()
) -> dict[str, Any]:
    """A label that the log took at a time; `good` is the person's verdict. Without `texts` the note is left out.

    `lower_is_better` names the evaluators whose low scores are good.
    """
    lower = label.evaluator in lower_is_better
    human = human_of(label, lower_is_better=lower)
    made = {
        **_shared(label, recorded_at),
        "good": None if human is None else not ScoreScale(lower_is_better=lower).is_bad(human),
        "retracted": label.state == "retracted",
        **({} if texts else {"note": None}),
    }
    return _row(label, LABEL_COLUMNS, made)


def _row(record: Evaluation | Label, columns: Columns, made: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a record: those that are `made` of it, and the others as they are in it."""
    return {name: made[name] if name in made else _value(record, _PLACES.get(name, name)) for name in columns}


def _value(record: Any, place: str) -> Any:
    for name in place.split("."):
        record = None if record is None else getattr(record, name)
    return record


def _shared(record: Evaluation | Label, recorded_at: datetime) -> dict[str, Any]:
    """The columns that are made of an evaluation and of a label alike."""
    links, sampling = record.subject.links, record.sampling
    return {
        "links": _json([list(link) for link in links]) if links else None,
        "weight": 1.0 / sampling.probability,
        "upstream_probability": None if sampling.upstream == "unknown" else sampling.upstream,
        "recorded_at": recorded_at,
    }


def _json(value: Json) -> str:
    return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetOptions(WindowOptions):
    """The command's options: the days from the day of `since` to the last one that ends before `until`. `texts`:
    explanations.
    """

    destination: str
    texts: bool = True


@dataclass(slots=True)
class _Written:
    rows: int = 0
    files: int = 0
    unreadable: int = 0
    left: int = 0


Row = tuple[str, dict[str, Any]]
"""The id of a record, which is in one row though the log may have it twice, and the row."""


@dataclass(frozen=True, slots=True)
class _Table:
    name: str
    columns: Columns
    log: Log
    records: Callable[[Log, int, int], AsyncIterator[StoredRecord]]
    row: Callable[..., Row]


async def write_parquet(config: Config, options: ParquetOptions, say: Callable[[str], None]) -> int:
    """Write the files of the days; the exit status: 1 if days were left as the log has no longer all of them.

    Raises:
        ConfigError: there is no log, pyarrow is not installed, or the destination cannot be written.
    """
    require_window(options.since, options.until)
    files = DayFiles(options.destination)
    left = 0
    label = partial(_label, lower=lower_is_better(config))
    async with open_stored_logs(config.settings.log) as logs:
        tables = (
            _Table("evaluations", EVALUATION_COLUMNS, logs.evaluations, valid_evaluations, _evaluation),
            _Table("labels", LABEL_COLUMNS, logs.labels, _labels, label),
        )
        for table in tables:
            written = _Written()
            for partition in range(table.log.partitions):
                await _write_partition(table, partition, files, options, written, say)
            lost = f", {written.unreadable:,} could not be read" if written.unreadable else ""
            say(f"{table.name}: {plural(written.rows, 'row')} in {plural(written.files, 'file')}{lost}")
            left += written.left
    return FAILED if left else DONE


async def _write_partition(
    table: _Table,
    partition: int,
    files: "DayFiles",
    options: ParquetOptions,
    written: _Written,
    say: Callable[[str], None],
) -> None:
    """Write the days of a partition, one file open at a time: its records are in the order of their days."""
    begin = datetime.combine(options.since.astimezone(UTC).date(), time(), UTC)
    start = await first_offset(table.log, partition, begin.timestamp())
    torn = await _torn_day(table.log, partition, begin)
    day: date | None = None
    writer: DayWriter | None = None
    seen: set[str] = set()
    with ExitStack() as stack:
        async for record in table.records(table.log, partition, start):
            recorded = datetime.fromtimestamp(record.timestamp, UTC)
            if recorded.date() > (options.until.astimezone(UTC) - timedelta(microseconds=1)).date():
                break
            if recorded.date() != day:
                stack.close()
                day, writer = recorded.date(), None
                path = files.path(table.name, day, partition)
                if day == torn and files.exists(path):
                    say(f"{path}: left as it is, for the log has no longer all of that day")
                    written.left += 1
                else:
                    writer = stack.enter_context(files.writer(path, table.columns))
                    written.files += 1
            if writer is None:
                continue
            try:
                name, row = table.row(record, recorded, texts=options.texts)
            except BadInput:
                written.unreadable += 1
                continue
            if name not in seen:
                seen.add(name)
                writer.add(row)
                written.rows += 1


async def _torn_day(log: Log, partition: int, begin: datetime) -> date | None:
    """The day whose beginning the log's retention has deleted; None if that lies before the window."""
    start = await log.start_offset(partition)
    if start == 0:
        return None
    async for batch in log.read(partition, start):
        first = datetime.fromtimestamp(batch[0].timestamp, UTC)
        return first.date() if first >= begin else None
    return None


async def _labels(log: Log, partition: int, start: int) -> AsyncIterator[StoredRecord]:
    async for record in records_from(log, partition, start):
        if not record.headers:  # else feedback
            yield record


def _evaluation(record: StoredRecord, at: datetime, *, texts: bool) -> Row:
    evaluation = evaluation_from_json(record.value)
    return evaluation.evaluation_id, evaluation_row(evaluation, at, texts=texts)


def _label(record: StoredRecord, at: datetime, *, texts: bool, lower: Collection[str]) -> Row:
    label = label_from_json(record.value)
    return label.label_id, label_row(label, at, texts=texts, lower_is_better=lower)


_ROWS = 10_000
"""Rows of a group: as many are in memory."""


class DayFiles:
    """The folder or store of the files."""

    def __init__(self, destination: str) -> None:
        """Open a directory, or the URL of a store, like `s3://bucket/prefix?endpoint_override=minio:9000`.

        Raises:
            ConfigError: pyarrow is not installed, or the destination is none.
        """
        try:
            self._pa: Any = importlib.import_module("pyarrow")
            self._parquet: Any = importlib.import_module("pyarrow.parquet")
            fs: Any = importlib.import_module("pyarrow.fs")
        except ImportError:
            raise ConfigError("parquet needs the extra `parquet`; pip install '.[parquet]' in a clone") from None
        self._fs: Any
        try:
            if "://" in destination:
                self._fs, self._root = fs.FileSystem.from_uri(destination)
            else:
                self._fs, self._root = fs.LocalFileSystem(), str(Path(destination).absolute())
        except (OSError, ValueError, TypeError) as error:
            scheme = destination.partition("://")[0]
            raise ConfigError(
                f"the destination of scheme {scheme} cannot be opened ({type(error).__name__}); name a directory, or "
                "a URL like s3://bucket/prefix"
            ) from None
        self._is_local = isinstance(self._fs, fs.LocalFileSystem)

    def path(self, table: str, day: date, partition: int) -> str:
        """The path of a file: `<table>/day=2026-11-22/<table>-000.parquet`."""
        return f"{self._root}/{table}/day={day.isoformat()}/{table}-{partition:03}.parquet"

    def exists(self, path: str) -> bool:
        """Whether a file is there. Raises ConfigError."""
        with _in_a_sentence(path):
            info: Any = self._fs.get_file_info(path)
            return bool(info.is_file)

    @contextmanager
    def writer(self, path: str, columns: Columns) -> "Generator[DayWriter]":
        """Write a file; it is there, in place of the one before, once this is left without an error.

        Raises:
            ConfigError: it cannot be written.
        """
        with _in_a_sentence(path):
            folder, _, name = path.rpartition("/")
            target = path
            if self._is_local:  # a store has no folders, and shows a file when it is complete
                self._fs.create_dir(folder, recursive=True)
                target = f"{folder}/.{name}.part"
            schema = self._schema(columns)
            with self._parquet.ParquetWriter(target, schema, filesystem=self._fs, compression="zstd") as file:
                writer = DayWriter(self._pa, file, schema)
                yield writer
                writer.flush()
            if self._is_local:
                self._fs.move(target, path)

    def _schema(self, columns: Columns) -> Any:
        pa = self._pa
        types: dict[str, Any] = {
            "text": pa.string(), "number": pa.float64(), "whole": pa.int64(), "flag": pa.bool_(),
            "time": pa.timestamp("us", tz="UTC"), "texts": pa.list_(pa.string()),
            "map": pa.map_(pa.string(), pa.string()),
        }  # fmt: skip
        return pa.schema([(name, types[kind]) for name, kind in columns.items()])


class DayWriter:
    """Writes the rows of one file, in groups."""

    def __init__(self, pa: Any, file: Any, schema: Any) -> None:
        self._pa = pa
        self._file = file
        self._schema = schema
        self._rows: list[dict[str, Any]] = []

    def add(self, row: dict[str, Any]) -> None:
        """Write a row, sooner or later."""
        self._rows.append(row)
        if len(self._rows) >= _ROWS:
            self.flush()

    def flush(self) -> None:
        """Write the rows that wait."""
        if self._rows:
            self._file.write_table(self._pa.Table.from_pylist(self._rows, schema=self._schema))
            self._rows = []


@contextmanager
def _in_a_sentence(path: str) -> Generator[None]:
    """Say in a sentence that a file cannot be written."""
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error).partition("AWS Error ")[2].partition(" ")[0] or type(error).__name__
        raise ConfigError(f"{path}: cannot be written ({why}); name another destination, or mend it") from error
