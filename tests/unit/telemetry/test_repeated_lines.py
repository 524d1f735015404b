"""Libraries write one line of a kind in a minute; so do we, for all groups of consumers."""

from __future__ import annotations

import asyncio
import logging
import ssl
from functools import partial
from typing import ClassVar

import pytest
from aiohttp.test_utils import TestServer
from aiohttp.web import Application

from collector.backoff import FailureLog, StateLines
from collector.logs.log import LogUnavailable
from collector.telemetry.logging import JsonLines, OncePerMinute, set_level
from evaluators.cases import Turn
from evaluators.evaluation import evaluate_sync
from evaluators.evaluator import Evaluator
from evaluators.judge import Judge
from evaluators.results import Failure, Score
from evaluators.testing import ScriptedJudge, a_turn


def line(name: str, message: str, *arguments: object) -> logging.LogRecord:
    return logging.LogRecord(name, logging.WARNING, __file__, 1, message, arguments, None)


def test_an_outage_of_brokers_is_a_line_a_kind_and_minute() -> None:
    """A missing topic wrote 157 lines in 20 s, two brokers that were away 13,074 in 147 s."""
    now = [0.0]
    lines = OncePerMinute(lambda: now[0])
    written: list[str] = []
    for second in range(180):
        now[0] = float(second)
        for number in range(50):
            records = [
                line("kafka.admin", "Received unknown topic or partition error for partition %s", f"({number})"),
                line("kafka.coordinator.base", f"Marking the coordinator dead (node {number}) for group evaluate"),
                line("kafka.net.connection", f"<KafkaConnection node_id={number}>: Connection lost: 111 ECONNREFUSED"),
                line("collector.backoff", "committing offsets failed (no broker answers); retrying"),
                line("collector.logs.kafka.group_watch", f"group g{number}.export: could not be joined for {second} s"),
            ]
            written += [record.getMessage() for record in records if lines.filter(record)]
    assert len(written) == 3 * 3
    assert sum("(2,999 more since the line before)" in text for text in written) == 2 * 3
    assert not any("KafkaConnection" in text or "coordinator" in text for text in written), "the client connects again"


def test_an_outage_that_begins_soon_after_another_has_both_of_its_lines(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The second recovery came within a minute of the first: "failed" stayed the last word of what had recovered."""
    caplog.set_level("INFO", logger="collector.backoff")
    now = [0.0]
    monkeypatch.setattr("collector.backoff.StateLines", partial(StateLines, clock=lambda: now[0]))
    lines, written = OncePerMinute(lambda: now[0]), list[tuple[float, str]]()
    actions = ["reading the definitions log", *(f"reading for group g{number}.evaluate" for number in range(3))]
    logs: dict[str, FailureLog] = {}
    for second in range(300):
        now[0] = float(second)
        for action in actions:
            if 20 <= second < 32 or 82 <= second < 95 or 110 <= second < 280:
                logs.setdefault(action, FailureLog(action)).failed(LogUnavailable("no broker answers"))
            elif action in logs:  # what repeats an attempt has a new one for each row of failures
                logs.pop(action).succeeded()
        written += [(now[0], record.getMessage()) for record in caplog.records if lines.filter(record)]
        caplog.clear()
    for action in actions[:2]:
        about = [(at, text) for at, text in written if text.startswith(action)]
        assert [at for at, _ in about] == [20, 32, 82, 95, 170, 280], "the third began within a minute of the second"
        assert [" succeeded after " in text for _, text in about] == [False, True] * 3
    assert not any("g1" in text or "g2" in text for _, text in written)


def test_a_group_that_fails_on_has_a_line_when_another_has_recovered(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="collector.backoff")
    now = [0.0]
    monkeypatch.setattr("collector.backoff.StateLines", partial(StateLines, clock=lambda: now[0]))
    lines, written = OncePerMinute(lambda: now[0]), list[str]()
    first, second = FailureLog("reading for group a"), FailureLog("reading for group b")
    for now[0] in (0.0, 30.0, 61.0, 150.0):
        for log in (first, second):
            log.succeeded() if log is first and now[0] else log.failed("no broker")
        written += [record.getMessage() for record in caplog.records if lines.filter(record)]
        caplog.clear()
    assert written == [
        "reading for group a failed (no broker); retrying",
        "reading for group a succeeded after 1 failed attempt",
        "reading for group b failed (no broker); retrying (1 more since the line before)",
    ]


def test_a_group_whose_failure_has_a_line_has_one_when_it_recovers(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The recovery of another group came in between, and the last line said that this one failed."""
    caplog.set_level("INFO", logger="collector.backoff")
    now = [0.0]
    monkeypatch.setattr("collector.backoff.StateLines", partial(StateLines, clock=lambda: now[0]))
    lines, written = OncePerMinute(lambda: now[0]), list[str]()
    logs = {name: FailureLog(f"reading for group {name}") for name in "abc"}
    for at, fail, recover in ((0.0, "abc", ""), (30.0, "", "a"), (61.0, "bc", ""), (62.0, "", "c"), (63.0, "", "b")):
        now[0] = at
        for name in fail:
            logs[name].failed("no broker")
        for name in recover:
            logs[name].succeeded()
        written += [record.getMessage() for record in caplog.records if lines.filter(record)]
        caplog.clear()
    assert [text.split()[3:5] for text in written] == [
        ["a", "failed"], ["a", "succeeded"], ["b", "failed"], ["b", "succeeded"],
    ], "no group has succeeded of which nothing says that it failed"  # fmt: skip


def test_a_state_that_was_given_up_does_not_hide_the_next_one(caplog: pytest.LogCaptureFixture) -> None:
    """A partition that is revoked while it fails to open has no end."""
    now, lines = [0.0], OncePerMinute(lambda: now[0])
    for now[0], number in ((0.0, 3), (90.0, 5)):
        FailureLog(f"opening partition {number}").failed("no broker")
        assert lines.filter(caplog.records[-1])


def test_a_group_that_ends_without_recovery_hides_no_other_that_fails_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The first group's line stood for all of them, also after the group had ended."""
    now, written = [0.0], list[tuple[float, str]]()
    monkeypatch.setattr("collector.backoff.StateLines", partial(StateLines, clock=lambda: now[0]))
    lines, (ends, fails_on) = OncePerMinute(lambda: now[0]), (FailureLog(f"reading for group {name}") for name in "ab")
    for second in range(0, 600, 10):
        now[0] = float(second)
        for log in [ends, fails_on] if second < 400 else [fails_on]:
            log.failed("no broker")
        written += [(now[0], record.getMessage()) for record in caplog.records if lines.filter(record)]
        caplog.clear()
    assert [text.split()[3] for _, text in written] == ["a", "b"], "one line while the group of the line fails"
    assert 400 < written[1][0] < 600


def test_lines_of_a_file_that_cannot_be_read_are_one_line() -> None:
    lines = OncePerMinute(lambda: 0.0)
    text = "qa.jsonl:%d is skipped: category: unknown key in a turn"
    assert [lines.filter(line("collector.receive.files", text, number)) for number in (1, 2, 150)] == [
        True,
        False,
        False,
    ]


class Broken(Evaluator[Turn]):
    """Raises in one of two places."""

    kind: ClassVar[str] = "broken"

    @property
    def requires(self) -> frozenset[str]:
        return frozenset({"input"})

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        if case.input == "odd":
            raise KeyError(case.input)
        raise ValueError(case.input)


def test_a_fault_of_a_plug_in_is_a_line_in_full_and_then_one_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """An evaluator that raised wrote a line for each turn, without end."""
    now = [0.0]
    lines = OncePerMinute(lambda: now[0])
    for number in range(200):
        now[0] = float(number)
        for name in ("brief1", "brief2"):
            case = a_turn(input="odd" if number % 2 else f"{number}")
            assert isinstance(evaluate_sync(Broken(name=name), case, ScriptedJudge("")).outcome, Failure)
            [record] = caplog.records
            written = lines.filter(record)
            assert written == (number % 60 < 2), record.getMessage()
            if number >= 60 and written:
                assert record.getMessage().endswith("(29 more since the line before)")
            caplog.clear()


def test_lines_for_each_item_of_every_stage_are_one_a_minute() -> None:
    """And each distinct fault has its line: another status, another place in the code, another evaluator."""
    lines = OncePerMinute(lambda: 0.0)
    for name, first, again, other in (
        ("collector.export.otlp_client", "exporter o: 5 records dropped: status 413", "exporter o: 7 records dropped: status 413", "exporter o: 5 records dropped: status 400"),
        ("collector.export.platforms.exporter", "exporter o: 5 evaluations dropped: status 413", "exporter o: 6 evaluations dropped: status 413", "exporter p: 5 evaluations dropped: status 413"),
        ("collector.assemble.fold", "a trace is left out: KeyError at a.py:12", "a trace is left out: KeyError at a.py:12", "a trace is left out: KeyError at a.py:13"),
        ("collector.receive.rejection", "receiving failed: KeyError at a.py:12", "receiving failed: KeyError at a.py:12", "receiving failed: KeyError at a.py:1"),
        ("collector.logs.kafka.records", "turns[1]: records 1 to 9 cannot be read (bad)", "turns[2]: records 11 to 12 cannot be read (bad)", "spans[1]: records 1 to 9 cannot be read (bad)"),
        ("collector.evaluate.recovery.ledger", "record 1 of the evaluations log is skipped: no JSON", "record 2 of the evaluations log is skipped: no JSON", "record 2 of the evaluations log is skipped: no object"),
        ("collector.page.server", "the page failed: KeyError at a.py:1", "the page failed: KeyError at a.py:1", "the page failed: OSError at a.py:1"),
        ("collector.admission.listener", "a connection could not be accepted (Too many open files)", "a connection could not be accepted (Too many open files)", "a connection could not be taken"),
    ):  # fmt: skip
        assert [lines.filter(line(name, text)) for text in (first, again, other)] == [True, False, True], name


def test_a_lost_connection_is_no_error_as_the_client_connects_again() -> None:
    """241 lines of level error in an hour, while the service was ready. An error of the client itself is written."""
    written: list[str] = []
    for error in (None, ConnectionResetError(), ssl.SSLEOFError(), KeyError()):
        info = None if error is None else (type(error), error, None)
        record = logging.LogRecord("kafka.net.transport", logging.ERROR, __file__, 1, "%r", (error,), info)
        written += [record.getMessage()] if OncePerMinute(lambda: 0.0).filter(record) else []
    assert written == ["KeyError()"]


def test_a_refused_producer_is_told_by_our_own_line_alone() -> None:
    """The library's line named a right of the cluster, which did not lack."""
    told = line("kafka.producer.transaction_manager", "Fatal Error handling request X: ClusterAuthorizationFailedError")
    assert not OncePerMinute(lambda: 0.0).filter(told)


def test_our_own_lines_and_other_kinds_are_written() -> None:
    lines = OncePerMinute(lambda: 0.0)
    assert all(lines.filter(line("collector.dead_letters", "a record is left out")) for _ in range(3))
    for text in ("writing to turns failed (disk full)", "writing to turns failed (refused)", "writing to spans failed"):
        assert lines.filter(line("collector.backoff", text))
    assert lines.filter(line("kafka.admin", "Bootstrap failed"))
    assert lines.filter(line("kafka.admin", "Metadata refresh failed"))
    assert not lines.filter(line("kafka.admin", "Metadata refresh failed"))


TLS_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256))


@pytest.mark.parametrize("began", [b"", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"], ids=["at once", "after a request"])
async def test_https_sent_to_a_plain_port_is_one_sentence_with_the_remedy(
    began: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """The log had the name of a Python exception and places in a library, or nothing."""
    lines = OncePerMinute(lambda: 0.0)
    for name in (
        "",
        "aiohttp.server",
        "httpx2",
        "openai",
        "kafka",
        "kafka.net.selector",
        "kafka.coordinator.assignors",
    ):
        caplog.set_level(logging.DEBUG, logger=name)  # put back after the test
    set_level(logging.INFO)
    async with TestServer(Application()) as server:
        for _ in range(3):
            reader, writer = await asyncio.open_connection(server.host, server.port)
            if began:
                writer.write(began)
                await reader.readuntil(b"Not Found")
            writer.write(TLS_HELLO)
            assert b"400 Bad Request" in await reader.read()
            writer.close()
    of_server = [record for record in caplog.records if record.name == "aiohttp.server"]
    [line] = [JsonLines().format(record) for record in of_server if lines.filter(record)]
    assert '"level":"warning"' in line
    assert "an endpoint here begins with http:// unless its section has tls" in line
    assert "BadHttp" not in line
