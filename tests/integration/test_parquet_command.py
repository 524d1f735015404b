"""`evalstream export parquet`: what DuckDB reads is the ledger; days are replaced whole; the page's queries run."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from clickhouse_process import answers, statements
from configurations import checked
from evaluation_samples import failed, label, of_conversation, scored, skipped
from pyarrow import parquet
from s3_stub import S3Stub
from typer.testing import CliRunner

from collector.cli import app
from collector.commands.parquet import parquet as day_files
from collector.commands.parquet.parquet import (
    EVALUATION_COLUMNS,
    LABEL_COLUMNS,
    ParquetOptions,
    write_parquet,
)
from collector.config.configured import Config
from collector.errors import DONE, FAILED, ConfigError
from collector.logs.log import Record
from collector.records.epochs import CONTROL_HEADERS
from collector.records.json import evaluation_to_json, label_to_json
from collector.service.open_logs import open_logs
from evaluators.results import (
    ErrorDetail,
    Escalation,
    Evaluation,
    JudgeStamp,
    Label,
    Retry,
    Sampling,
    Subject,
    Usage,
)

PAGE = Path(__file__).parents[2] / "deploy" / "docs" / "warehouse.md"
DAY = datetime(2026, 5, 4, 10, tzinfo=UTC)
ODD = {"model": "m-1", "tags": ["a", "b"], "quote'": 'say "ü"\n', "number": 3}
LEDGER = [
    scored(1, attributes=ODD, sampling=Sampling(probability=0.25, stratum="slow", upstream=0.5)),
    skipped(2),
    failed(3),
    of_conversation(4, supersedes=(f"{9:032x}",), happened_at=DAY - timedelta(days=9)),
    scored(6, escalation=Escalation(reason="share", probability=0.1, first_score=0.5, doubt=0.25)),
    scored(5, retry=Retry(attempt=2, reason="judge_timeout"), details={"steps": [1, {"a": None}]}),
]


def record(evaluation: Evaluation, at: datetime) -> Record:
    return Record(evaluation.subject.conversation_id.encode(), evaluation_to_json(evaluation), timestamp=at.timestamp())


async def stored(folder: Path, *records: Record, labels: tuple[Record, ...] = ()) -> Config:
    log = {"kind": "sqlite", "path": str(folder / "logs.db")}
    config = checked({"e": {"kind": "exact_match"}}, log=log)
    async with open_logs(config.settings.log) as logs:
        await logs.evaluations.append(records)
        if labels:
            await logs.labels.append(labels)
    return config


async def written(config: Config, folder: Path, **changes: Any) -> tuple[int, list[str]]:
    lines: list[str] = []
    values: dict[str, Any] = {"destination": str(folder), "since": DAY, "until": DAY + timedelta(days=30)}
    return await write_parquet(config, ParquetOptions(**{**values, **changes}), lines.append), lines


@contextmanager
def database() -> Iterator[Any]:
    import duckdb  # here: where a module of tests holds it until the end, it complains of leaks behind the summary

    connection = duckdb.connect()
    try:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection
    finally:
        connection.close()


def rows(folder: Path, table: str = "evaluations") -> list[dict[str, Any]]:
    with database() as connection:
        found = connection.sql(
            f"SELECT * FROM read_parquet('{folder}/{table}/day=*/*.parquet', hive_partitioning = true)"
        )
        return found.to_arrow_table().to_pylist(maps_as_pydicts="strict")


def test_the_page_has_the_rule_for_the_names_of_columns() -> None:
    """It said that nested names are joined with _, by which `input_tokens` was `usage_input_tokens`."""
    rule, exceptions = PAGE.read_text(encoding="utf-8").partition("The columns have the names")[2].split("Exceptions: ")
    prefixed, plain = (re.findall(r"`(\w+)`", part) for part in rule.partition("those of")[::2])
    named = {f"{section}_{name}" for section in prefixed for name in _fields_of(section)}
    named |= {name for section in plain for name in _fields_of(section)}
    named |= {*Evaluation.__dataclass_fields__, *re.findall(r"`(\w+)`", exceptions.partition("`attributes`")[0])}
    assert EVALUATION_COLUMNS.keys() - named == {"weight", "time", "recorded_at"}, "what is reckoned"
    assert {"error_type", "turn_id", "input_tokens", "probability"} <= named & EVALUATION_COLUMNS.keys()


def _fields_of(section: str) -> list[str]:
    """The fields of an evaluation's section."""
    kinds = {"error": ErrorDetail, "judge": JudgeStamp, "retry": Retry, "escalation": Escalation}
    kinds |= {"subject": Subject, "usage": Usage, "sampling": Sampling}
    return [each.name for each in fields(kinds[section])] if section in kinds else []


def test_every_field_of_an_evaluation_is_a_column_or_in_one() -> None:
    flat = {"subject", "error", "range", "judge", "usage", "sampling", "retry", "escalation"}
    assert {each for each in Evaluation.__dataclass_fields__ if each not in flat} <= set(EVALUATION_COLUMNS)
    assert {"judge_calls", "stratum", "retry_reason", "range_high", "links"} <= set(EVALUATION_COLUMNS)
    assert {"opinion", "note", "given_by", "label_probability", "retracted"} <= set(LABEL_COLUMNS)


async def test_what_duckdb_reads_is_the_ledger(tmp_path: Path) -> None:
    records = [record(each, DAY + timedelta(hours=number)) for number, each in enumerate(LEDGER)]
    control = Record(b"visit-7", b"{}", CONTROL_HEADERS, timestamp=DAY.timestamp())
    config = await stored(tmp_path, *records, control, records[0])
    assert await written(config, tmp_path / "out") == (
        DONE,
        ["evaluations: 6 rows in 1 file", "labels: 0 rows in 0 files"],
    )
    found = {each["evaluation_id"]: each for each in rows(tmp_path / "out")}
    assert sorted(found) == sorted(each.evaluation_id for each in LEDGER), "each once"
    for number, each in enumerate(LEDGER):
        row = found[each.evaluation_id]
        plain = {name: row[name] for name in Evaluation.__dataclass_fields__ if name in row}
        expected = {name: getattr(each, name) for name in plain} | {
            "supersedes": list(each.supersedes),
            "details": orjson.dumps(dict(each.details)).decode() if each.details else None,
            "attributes": {
                name: value if isinstance(value, str) else orjson.dumps(value).decode()
                for name, value in each.attributes.items()
            },
        }
        assert plain == expected
        subject = {name: row[name] for name in ("conversation_id", "turn_id", "trace_id", "span_id", "revision")}
        assert subject == {name: getattr(each.subject, name) for name in subject}
        assert [tuple(pair) for pair in orjson.loads(row["links"] or "[]")] == list(each.subject.links)
        assert (row["range_low"], row["range_high"]) == (each.range or (None, None))
        assert row["error_type"] == (each.error.type if each.error else None)
        assert row["judge_model"] == (each.judge.model if each.judge else None)
        assert row["judge_calls"] == (each.usage.calls if each.usage else None)
        assert (row["probability"], row["weight"]) == (each.sampling.probability, 1 / each.sampling.probability)
        upstream = each.sampling.upstream
        assert row["upstream_probability"] == (None if upstream == "unknown" else upstream)
        escalation = each.escalation
        told = [
            row[name] for name in ("escalation_reason", "escalation_probability", "first_score", "escalation_doubt")
        ]
        assert told == (
            [escalation.reason, escalation.probability, escalation.first_score, escalation.doubt]
            if escalation
            else [None] * 4
        )
        assert (row["retry_attempt"], row["time"]) == (each.retry.attempt if each.retry else None, each.time)
        assert row["recorded_at"] == DAY + timedelta(hours=number)


async def test_days_are_those_of_the_log_and_replaced_as_a_whole(tmp_path: Path) -> None:
    out = tmp_path / "out"
    config = await stored(tmp_path, *(record(scored(n), DAY + timedelta(hours=8 * n)) for n in range(1, 7)))
    await written(config, out)
    await written(config, out, since=DAY + timedelta(days=1))
    files = sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file())
    assert [re.sub(r"-\d{3}", "", each) for each in files] == [
        f"evaluations/day=2026-05-0{day}/evaluations.parquet" for day in (4, 5, 6)
    ]
    assert len(rows(out)) == 6
    async with open_logs(config.settings.log) as logs:
        await logs.evaluations.append([record(scored(7), DAY + timedelta(hours=60))])
    assert (await written(config, out, since=DAY + timedelta(days=2)))[0] == DONE
    assert len(rows(out)) == 7, "the last day is longer, the others are as they were"
    assert (await written(config, tmp_path / "one", until=DAY + timedelta(hours=1)))[1][
        0
    ] == "evaluations: 1 row in 1 file"


async def test_a_day_that_the_log_has_lost_a_part_of_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    hours = (1, 2, 3, 30, 31)
    config = await stored(tmp_path, *(record(scored(n), DAY + timedelta(hours=n)) for n in hours))
    await written(config, out)
    async with open_logs(config.settings.log) as logs:
        await logs.evaluations.truncate((DAY + timedelta(hours=2)).timestamp())
        assert await logs.evaluations.start_offset(0) == 1
    status, lines = await written(config, out)
    assert status == FAILED
    assert "left as it is" in lines[0]
    assert len(rows(out)) == 5, "nothing of the first day is lost"
    assert (await written(config, tmp_path / "new"))[0] == DONE, (
        "where there is no file yet, a part is better than none"
    )


async def test_labels_and_no_texts(tmp_path: Path) -> None:
    given = label()
    at = (DAY + timedelta(hours=5)).timestamp()
    feedback = Record(b"f", b"{}", (("feedback", b"1"),), timestamp=at)
    labels = (Record(given.evaluation_id.encode(), label_to_json(given), timestamp=at), feedback)
    config = await stored(tmp_path, record(scored(1), DAY), labels=labels)
    await written(config, tmp_path / "out")
    [row] = rows(tmp_path / "out", "labels")
    assert (row["opinion"], row["score"], row["judge_score"], row["given_by"]) == ("disagree", 0.2, 0.75, "ada")
    assert (row["note"], row["retracted"], row["label_probability"]) == ("It names the wrong price.", False, None)
    await written(config, tmp_path / "bare", texts=False)
    [row], [evaluation] = rows(tmp_path / "bare", "labels"), rows(tmp_path / "bare")
    assert (row["note"], evaluation["explanation"], evaluation["details"]) == (None, None, None)


async def test_a_file_that_fails_half_way_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    config = await stored(tmp_path, *(record(scored(n), DAY) for n in range(1, 6)))
    await written(config, out)
    monkeypatch.setattr(day_files, "_ROWS", 2)
    flush = day_files.DayWriter.flush

    def fail(self: Any) -> None:
        flush(self)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(day_files.DayWriter, "flush", fail)
    with pytest.raises(ConfigError, match="No space left on device"):
        await written(config, out)
    assert len(rows(out)) == 5


GIVEN = label()


def queued(number: int, score: float | None, probability: float) -> Label:
    """A verdict of the queue on an answer that the judge passed, by another evaluator than `label`."""
    name = f"{40 + number:032x}"
    return replace(
        label(label_id=name, evaluation_id=name, score=score, label_probability=probability, evaluator="a"),
        opinion=None, judge_score=0.9, judge_passed=True, sampling=Sampling(),
    )  # fmt: skip


def queries_of_the_page() -> list[str]:
    return re.findall(r"(?<!-->\n)^```sql\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)


async def test_without_labels_all_views_but_the_last_are_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pattern of the view `labels` matches no file, and as the second of a script it kept `scores` from being made."""
    await written(await stored(tmp_path, record(scored(1), DAY)), tmp_path)
    monkeypatch.chdir(tmp_path)
    import duckdb  # here: see `database`

    views, first = queries_of_the_page()
    assert "(the last needs labels):\n\n```sql\nCREATE OR REPLACE VIEW evaluations" in PAGE.read_text()
    with database() as connection:
        with pytest.raises(duckdb.IOException, match="labels/day"):
            connection.execute(views)
        assert len(connection.execute(first).fetchall()) == 1


async def test_the_queries_of_the_page_say_what_is_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heavy = Sampling(probability=0.25)
    one = scored(1, score=1.0, attributes={"model": "m-1"}, sampling=heavy)
    other = scored(2, score=0.0, attributes={"model": "m-2"}, sampling=Sampling())
    other = replace(other, subject=replace(other.subject, conversation_id="visit-8"))
    again = replace(scored(6, score=0.5, attributes={"model": "m-2"}), supersedes=(f"{7:032x}",), sampling=Sampling())
    again = replace(again, subject=other.subject)
    replaced = {"supersedes": (f"{9:032x}",), "happened_at": DAY}
    later = scored(8, score=0.0, evaluator_version="later", attributes={"model": "m-2"}, **replaced)
    rejudged = [failed(9), later]
    ledger = [one, other, again, scored(7, score=0.9), failed(3), skipped(4), *rejudged]
    at, withdrawn = DAY.timestamp(), label(label_id="3" * 32, evaluation_id="3" * 32)
    labels = [
        Record(b"1", label_to_json(each), timestamp=at)
        for each in (
            label(score=0.4),
            label(label_id="2" * 32, score=0.8, given_at=DAY + timedelta(days=1)),
            withdrawn,
            replace(withdrawn, label_id="4" * 32, opinion=None, state="retracted", given_at=DAY + timedelta(days=1)),
            *(
                queued(number, score, 0.5 if number < 6 else 0.1)
                for number, score in enumerate((1, 1, 1, 0, 0, 0, 1, 0, None))
            ),
        )
    ]
    config = await stored(tmp_path, *(record(each, DAY) for each in ledger), labels=tuple(labels))
    await written(config, tmp_path)
    monkeypatch.chdir(tmp_path)
    views, first = queries_of_the_page()
    questions = [first, *statements("questions.sql")]
    assert len(questions) == 5
    with database() as connection:
        connection.execute(views)
        means, worst, costs, unscored, people = (connection.execute(each).fetchall() for each in questions)
        [(counting, of_withdrawn)] = connection.execute(
            f"SELECT count(*), count(*) FILTER (evaluation_id = '{'3' * 32}') FROM labels"
        ).fetchall()
    assert (counting, of_withdrawn) == (10, 0), "each person's newest label counts, and none that was withdrawn"
    [(_, evaluator, _, _, mean, error, conversations), (_, _, later, _, of_later, _, _)] = means
    assert (later, of_later) == ("later", 0.0), "versions are never one mean"
    assert (evaluator, conversations) == ("answers_question", 2)
    assert mean == pytest.approx((4 * 1.0 + 0.0 + 0.5) / 6)
    assert error == pytest.approx((2 * (4 - 4 * mean) ** 2) ** 0.5 / 6), "two clusters whose residues are opposite"
    assert [(model, round(value, 9), judged) for _, _, _, model, value, _, judged in worst] == [("m-2", 0.25, 2)]
    [(_, _, model, usd, _, each)] = costs
    assert (model, usd, each) == ("judge-1", pytest.approx(0.002 * 7), pytest.approx(0.002))
    assert sorted(row[2] for row in unscored) == ["failed", "skipped"]
    [(monitor, _, _, drawn, number, _, share), (_, _, _, picked, labelled, difference, agree)] = people
    assert (monitor, drawn, number) == (one.monitor, False, 8), "cannot tell is no label, as for `calibrate`"
    assert share == pytest.approx((3 * 2 + 10) / (6 * 2 + 2 * 10)), "the two rarely drawn ones stand for ten each"
    assert (picked, labelled, agree) == (True, 1, 0.0 if GIVEN.judge_passed is False else 1.0)
    assert difference == pytest.approx(0.05), "the newest of the person, beside the score that it was given for"


@pytest.mark.long
@pytest.mark.timeout(400)
async def test_in_clickhouse_the_ledger_is_there_once_though_a_day_is_read_again(tmp_path: Path) -> None:
    """Its weighted means are those of the scores that nothing supersedes."""
    weights = [Sampling(probability=1.0), Sampling(probability=0.25)]
    ledger = [scored(n, score=n / 4, sampling=each, attributes={"model": "m-1"}) for n, each in enumerate(weights, 1)]
    ledger += [
        of_conversation(4, evaluator="whole"),
        of_conversation(5, evaluator="whole", score=0.5, supersedes=(f"{4:032x}",)),
    ]
    config = await stored(tmp_path, *(record(each, DAY + timedelta(hours=n)) for n, each in enumerate(ledger)))
    await written(config, tmp_path)
    files = re.compile(r"s3\('https://bucket.s3.amazonaws.com/evalstream/evaluations/day=\S+?/\*.parquet'\)")
    sql = [files.sub(f"file('{tmp_path}/evaluations/day=*/*.parquet')", each) for each in statements("evaluations.sql")]
    count = "SELECT count() AS all, (SELECT count() FROM evaluations FINAL) AS once FROM evaluations"
    *_, means, [counts] = await answers([*sql, count])
    assert (int(counts["all"]), int(counts["once"])) == (8, 4)
    known = {(each["evaluator"], each["model"]): (each["mean"], int(each["judged"])) for each in means}
    assert known == {("answers_question", "m-1"): ((0.25 + 4 * 0.5) / 5, 2), ("whole", None): (0.5, 1)}
    assert {each["on_day"] for each in means} == {"2026-05-04"}


@pytest.fixture
def service_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("evalstream.yaml").write_text(
        "log: {kind: sqlite, path: logs.db}\nevaluators: {e: {kind: exact_match}}\nmonitors: {all: {evaluators: [e]}}\n"
    )
    return tmp_path


def test_the_command_runs_and_says_what_is_wrong(service_folder: Path) -> None:
    missing = CliRunner().invoke(app, ["export", "parquet", "out"])
    assert "no such file" in str(missing.exception) + missing.output
    asyncio.run(stored(service_folder, record(scored(1), datetime.now(UTC))))
    result = CliRunner().invoke(app, ["export", "parquet", "out"])
    assert (result.exit_code, result.output.splitlines()[0]) == (0, "evaluations: 1 row in 1 file")
    result = CliRunner().invoke(app, ["export", "parquet", "nope://key@host/x"])
    assert result.exit_code != 0
    assert "scheme nope" in str(result.exception) + result.output
    assert "key@host" not in str(result.exception) + result.output, "an address may hold a key"


async def test_a_store_like_s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "a-key-of-the-store")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    config = await stored(tmp_path, *(record(scored(n), DAY) for n in range(1, 6)))
    stub = S3Stub()
    with stub.serve():
        assert (await written(config, tmp_path, destination=stub.url))[0] == DONE
        [(key, content)] = stub.objects.items()
        assert key == "bucket/evalstream/evaluations/day=2026-05-04/evaluations-000.parquet"
        assert parquet.read_table(pa.BufferReader(content)).num_rows == 5
        await written(config, tmp_path, destination=stub.url)
        assert len(stub.objects) == 1, "in place of the one before"
        stub.refuses = True
        with pytest.raises(ConfigError, match="ACCESS_DENIED") as refused:
            await written(config, tmp_path, destination=stub.url)
        assert "a-key-of-the-store" not in str(refused.value)


async def test_a_directory_as_url(tmp_path: Path) -> None:
    config = await stored(tmp_path, record(scored(1), DAY))
    await written(config, tmp_path, destination=(tmp_path / "out").as_uri())
    assert len(rows(tmp_path / "out")) == 1


def test_without_the_extra_a_sentence_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_name: str) -> Any:
        raise ImportError

    monkeypatch.setattr(day_files.importlib, "import_module", missing)
    with pytest.raises(ConfigError, match=r"\.\[parquet\]"):
        day_files.DayFiles("out")
