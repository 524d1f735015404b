"""The service's own log: one JSON object a line whatever is said, and never the message of an exception."""

from __future__ import annotations

import json
import logging
import subprocess
import sys

import pytest

from collector.telemetry.logging import JsonLines


def line(message: str, *arguments: object, name: str = "collector.x", error: BaseException | None = None) -> str:
    info = (type(error), error, error.__traceback__) if error else None
    return JsonLines().format(logging.LogRecord(name, logging.WARNING, "x.py", 1, message, arguments, info))


@pytest.mark.parametrize(
    "hostile",
    [
        'a\r\n{"level": "info"}',
        "nul\0byte",
        "\x1b[2J\x1b[31mred",
        "\u202eesrever\u2066",
        "\x85\u2028\u2029next",
        "x" * 10_000,
        "\ud800",
        "tag\U000e0041",
        "\x9b31m",
    ],
)
def test_a_conversation_id_cannot_break_the_line(hostile):
    written = line("conversation %s is closed", hostile)

    assert written.isprintable()
    assert len(written) < 6_000
    assert json.loads(written)["message"].startswith("conversation ")


def test_an_exception_has_interval_without_its_message():
    with pytest.raises(ValueError) as raised:
        int("judged text")
    written = line("it failed", error=raised.value)

    assert "judged text" not in written
    assert json.loads(written)["error"] == "ValueError"
    assert json.loads(written)["where"][0].startswith(__file__)


def test_what_asyncio_says_of_a_task_is_cut_to_its_first_line():
    written = line(
        "Task exception was never retrieved\nfuture: <Task exception=ValueError('judged text')>", name="asyncio"
    )

    assert json.loads(written)["message"] == "Task exception was never retrieved"


def test_a_request_to_a_judge_is_no_line_of_the_log(capfd):
    """In a process of its own: it changes the whole process's logging."""
    script = (
        "import logging\n"
        "from collector.telemetry.logging import log_as_json\n"
        "log_as_json()\n"
        "logging.getLogger('httpx2').info('HTTP Request: POST %s', 'https://judge.example/v1?key=secret')\n"
        "logging.getLogger('collector.service.app').info('ready')\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    assert [json.loads(line)["message"] for line in capfd.readouterr().err.splitlines()] == ["ready"]
