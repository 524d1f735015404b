"""What `check` says of values that no turn in the service's log has."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from collector.commands.check.unseen import unseen_lines
from collector.config.loading import check, load
from collector.errors import ConfigError
from collector.logs.log import Record
from collector.records.turns import turn_to_json
from collector.service.open_logs import open_logs
from evaluators.cases import Turn


def notes(folder: Path, service: str = "chat-api", **changes: Any) -> list[str]:
    """Of a configuration whose log has turns of one service, on two plans."""
    path = folder / "evalstream.yaml"
    values: dict[str, Any] = {
        "log": {"path": str(folder / "evalstream.db")},
        "assemble": {"attributes": ["plan", "new"]},
        "evaluators": {"short": {"kind": "length", "maximum": 100}},
        "monitors": {"all": {"evaluators": ["short"], **changes}},
    }
    path.write_text(json.dumps(values))
    config = load(path)

    async def write() -> None:
        async with open_logs(config.settings.log) as logs:
            for number in range(3):
                attributes = {"plan": "gold" if number else "free"}
                turn = Turn(turn_id=str(number), conversation_id="c", service=service, input="x", attributes=attributes)
                await logs.turns.append([Record(b"c", turn_to_json(turn))])

    if not (folder / "evalstream.db").exists():
        assert list(unseen_lines(config)) == [], "no log yet"
        assert not (folder / "evalstream.db").exists()
        asyncio.run(write())
    return list(unseen_lines(config))


def test_a_misspelt_service_is_a_note_with_the_services_that_the_log_has(tmp_path: Path) -> None:
    """`match: {service: chat-apy}` was valid, silently, beside thousands of turns of chat-api."""
    (note,) = notes(tmp_path, match={"service": "chat-apy"})
    assert note == (
        "note       monitors.all.match: none of the log's newest 3 turns has service chat-apy; these turns have 'chat-api'"
    )
    assert notes(tmp_path, match={"service": ["chat-api", "other"]}) == [], "one of them may be rare"
    (note,) = notes(tmp_path, match={"service": ["chat-api", "chat-apy"]})
    assert "has service chat-apy; these turns" in note
    assert notes(tmp_path, match={"input": "a text"}) == [], "judged text is not shown"


def test_other_selectors_have_notes_of_slips(tmp_path: Path) -> None:
    assert notes(tmp_path, boost={"matching": [{"field": "attributes.plan", "values": ["team"]}]}) == []
    (note,) = notes(tmp_path, boost={"matching": [{"field": "attributes.plan", "values": ["golds"]}]})
    assert note.endswith("has attributes.plan golds; these turns have 'gold', 'free'")
    (note,) = notes(tmp_path, compare={"plan": ["gold", "freee"]})
    assert note.startswith(
        "note       monitors.all.compare: none of the log's newest 3 turns has attributes.plan freee"
    )
    (note,) = notes(tmp_path, match={"attributes.plan": "team"})
    assert "these turns have 'gold', 'free'" in note
    assert notes(tmp_path, match={"attributes.new": "x"}) == [], "declared by this file"


def test_a_file_that_a_start_refuses_is_refused(tmp_path: Path) -> None:
    """A text in its place, or another number of partitions, was valid until the start."""
    assert notes(tmp_path) == []
    log = {"path": str(tmp_path / "evalstream.db"), "partitions": 3}
    with pytest.raises(ConfigError, match=r"log\.partitions"):
        list(unseen_lines(check(VALUES | {"log": log}, "more.yaml")))
    (tmp_path / "notes.txt").write_text("no database" * 100)
    with pytest.raises(ConfigError, match="not a database"):
        list(unseen_lines(check(VALUES | {"log": {"path": str(tmp_path / "notes.txt")}}, "text.yaml")))


def test_a_file_that_only_the_services_user_may_use_is_not_refused(tmp_path: Path) -> None:
    """Whoever may not write to the log was refused a valid configuration, although the service starts with it."""
    assert notes(tmp_path) == []
    config = check(VALUES | {"log": {"path": str(tmp_path / "evalstream.db")}}, "evalstream.yaml")
    tmp_path.chmod(0o555)
    (tmp_path / "evalstream.db").chmod(0o444)
    child = os.fork()
    if child == 0:
        status = 2
        with suppress(BaseException):
            if os.geteuid() == 0:
                for folder in (tmp_path.parent.parent, tmp_path.parent):
                    folder.chmod(0o755)
                os.setuid(65534)
            status = len(list(unseen_lines(config)))
        os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


VALUES: dict[str, Any] = {
    "evaluators": {"short": {"kind": "length", "maximum": 100}},
    "monitors": {"all": {"evaluators": ["short"]}},
}
