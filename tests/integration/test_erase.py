"""`evalstream erase` on a real file and a real broker: a person is gone from every byte, and nobody else is."""

from __future__ import annotations

import asyncio
import base64
import json
import sqlite3
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient
from kafka_logs import fresh
from made_up import Trace
from past_world import World, a_world

from collector.config.loading import load
from collector.dead_letters import append_letters, letter_of, letters_in
from collector.errors import BadInput, ConfigError
from collector.logs.log import Record, StoredRecord
from collector.logs.whole_log import read_records
from collector.records.json import label_to_json, turn_to_json
from collector.records.shared_records import share_records
from collector.records.turns import turn_record
from collector.redact.open_redactor import open_redactors
from collector.service.app import running
from collector.service.open_logs import open_logs
from evaluators.cases import Turn
from evaluators.results import Label

ALICE, BOB = "alice-liddell-77", "bob-dobbs-12"
STAGES = {"assemble", "evaluate", "export"}
PEOPLE = {ALICE: "the rabbit hole is deep and I fell", BOB: "the slack is fine where I have put it"}


def turn(user: str, number: int) -> Turn:
    return Turn(
        turn_id=f"{user}-turn-{number}",
        conversation_id=f"talk-of-{user}-{number % 2}",
        trace_id=None,
        input=f"{number}: {PEOPLE[user]}",
        actual_output=f"An answer to: {PEOPLE[user]}",
        user_id=user,
        attributes={"agent": "closing"},
    )


def piece(user: str, number: int) -> Record:
    trace_id = f"{abs(hash(user)) % 999:028x}{number:04x}"
    said = json.dumps([{"role": "user", "parts": [{"type": "text", "content": f"Traced {number}: {PEOPLE[user]}"}]}])
    attributes = {
        "gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "user.id": user,
        "gen_ai.conversation.id": f"traced-of-{user}", "gen_ai.input.messages": said,
        "gen_ai.output.messages": '[{"role":"assistant","parts":[{"type":"text","content":"An answer."}]}]',
    }  # fmt: skip
    trace = Trace(trace_id, start=time.time_ns()).span(1, "chat", attributes)
    return Record(trace_id.encode(), trace.spans.SerializeToString(), (("signal", b"traces"),))


async def live(world: World) -> None:
    """Both talk, are judged and labelled; one trace of each is open at the end, and a letter of each is dead."""
    async with running(load(world.folder / "evalstream.yaml"), STAGES) as service:
        logs = service.logs
        turns = [turn_record(turn(user, number)) for number in range(4) for user in PEOPLE]
        await logs.turns.append(share_records(turns, logs.turns.partitions, may_share=lambda _record: True))
        spans = [piece(user, number) for number in range(3) for user in PEOPLE]
        await logs.spans.append(share_records(spans, logs.spans.partitions))
        found = await world.until(
            lambda found: {each.subject.conversation_id for each in found}
            >= {f"{kind}-of-{user}{end}" for user in PEOPLE for kind, end in (("traced", ""), ("talk", "-0"), ("talk", "-1"))}
        )  # fmt: skip
        await world.until_drained()
        for judged in {each.subject.conversation_id: each for each in found}.values():
            label = Label(
                label_id=judged.evaluation_id, evaluation_id=judged.evaluation_id, evaluator=judged.evaluator,
                evaluator_version=judged.evaluator_version, scope=judged.scope, monitor=judged.monitor,
                subject=judged.subject, note=f"said by {judged.subject.conversation_id}", score=1.0, given_at=judged.ended_at,
            )  # fmt: skip
            await logs.labels.append([Record(judged.evaluation_id.encode(), label_to_json(label))])
        for number, user in enumerate(PEOPLE):
            torn = StoredRecord(0, 10_000 + number, 1.0, b"", turn_to_json(turn(user, 9))[:-1])
            await append_letters(logs.dead_letters, [letter_of("evaluate", "turns", torn, BadInput("torn"), keep=True)])
        await logs.spans.append([piece(user, 9) for user in PEOPLE])


async def contents(config: Path) -> Mapping[str, bytes]:
    """All that the logs hold, by name; values of dead letters as they came."""
    async with open_logs(load(config).settings.log, judged_spans=False) as logs:
        held = {}
        for log in logs:
            records = [record async for record in read_records(log)]
            held[log.name] = b"\n".join(part for each in records for part in (each.key or b"", each.value))
        letters = [each async for each in letters_in(logs.dead_letters)]
        held["letters"] = b"\n".join(base64.b64decode(each.value) for each in letters if each.value)
        return held


def mentions(held: Mapping[str, bytes], user: str) -> set[str]:
    return {name for name, content in held.items() if user.encode() in content or PEOPLE[user].encode() in content}


def settings_of(kind: str, folder: Path, broker: Any) -> dict[str, Any]:
    if kind == "sqlite":
        return {"kind": "sqlite", "path": str(folder / "log.db")}
    kafka = {
        "bootstrap_servers": [broker.bootstrap], "prefix": fresh("erase"), "partitions": 2, "replication_factor": 1,
        "session_timeout": 6,
    }  # fmt: skip
    return {"kind": "kafka", "kafka": kafka}


def topics_of(broker: Any) -> list[str]:
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin:
        return admin.list_topics()


async def only_the_note_is_left(prefix: str, config: Path, broker: Any) -> None:
    """Of the old topics; and a service refuses to start on them: it would judge all of a source again."""
    own = [each for each in await asyncio.to_thread(topics_of, broker) if each.startswith(f"{prefix}.")]
    assert own == [f"{prefix}.definitions"]
    held = await contents(config)
    assert not any(user.encode() in each for user in PEOPLE for each in held.values())
    with pytest.raises(ConfigError, match=r"were copied for .*left\.yaml"):
        async with running(load(config), {"evaluate"}):
            pass


async def erased(world: World, kind: str, folder: Path, broker: Any) -> Path:
    """Erase Alice; the configuration that goes on."""
    config = world.folder / "evalstream.yaml"
    arguments = ["--user", ALICE]
    if kind == "kafka":
        to = folder / "left.yaml"
        to.write_text(json.dumps(world.settings | {"log": settings_of(kind, folder, broker)}))
        arguments += ["--to", str(to)]
        dry = await world.command("erase", "--user", ALICE)
        assert "name with --to" in str(dry.exception)
    dry = await world.command("erase", *arguments, "--dry-run")
    assert "Would change" in dry.output, (dry.output, dry.exception)
    assert mentions(await contents(config), ALICE)
    result = await world.command("erase", *arguments)
    assert (result.exit_code, "found nothing" in result.output) == (0, True), result.output
    assert "judges.main: what its endpoint keeps" in result.output
    assert ("files of other processes and machines; bring them here" in result.output) is (kind == "kafka")
    return folder / "left.yaml" if kind == "kafka" else config


@pytest.mark.long
@pytest.mark.parametrize("kind", ["sqlite", "kafka"])
async def test_a_person_is_gone_from_every_byte(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    broker = request.getfixturevalue("kafka_broker") if kind == "kafka" else None
    async with a_world(tmp_path, settings_of(kind, tmp_path, broker)) as world:
        world.settings["assemble"] = {"idle_timeout": 1}
        config = world.configure()
        await live(world)
        places = {"spans", "turns", "evaluations", "labels", "letters"}
        before = await contents(config)
        assert mentions(before, ALICE) == mentions(before, BOB) == places
        written = (tmp_path / "out.jsonl").read_bytes()
        assert ALICE.encode() in written

        left = await erased(world, kind, tmp_path, broker)

        after = await contents(left)
        assert mentions(after, ALICE) == set()
        assert mentions(after, BOB) == places
        for word in (b'"user_id":"%s"' % BOB.encode(), PEOPLE[BOB].encode()):
            assert [after[name].count(word) for name in places] == [before[name].count(word) for name in places]
        kept = (tmp_path / "out.jsonl").read_bytes()
        assert kept == b"".join(line for line in written.splitlines(keepends=True) if ALICE.encode() not in line)
        if kind == "kafka":
            prefix = world.settings["log"]["kafka"]["prefix"]
            await only_the_note_is_left(prefix, config, broker)
            async with open_logs(load(left).settings.log) as logs:
                times = [each.timestamp async for each in read_records(logs.turns)]
                assert min(times) > time.time() - 600, "else retention deletes it before it is read"
            audited = await world.command("audit", "--drained", config=left)
            assert "not read by evaluate" not in audited.output, audited.output
        if kind == "sqlite":
            for file in list(tmp_path.glob("log.db*")):  # noqa: ASYNC240 - a small folder
                assert ALICE.encode() not in file.read_bytes(), file

        asked = world.judge.calls
        async with running(load(left), STAGES) as service:
            async with asyncio.timeout(60):
                while (
                    len([1 async for each in read_records(service.logs.evaluations) if b"traced-of-" in each.value]) < 1
                ):
                    await asyncio.sleep(0.1)
            await asyncio.sleep(3)
            audited = await world.command("audit", config=left)
            assert audited.exit_code == 0, audited.output
        assert world.judge.calls > asked  # the open trace of the other
        assert mentions(await contents(left), ALICE) == set()


async def test_what_an_earlier_version_left_in_free_pages_is_found_and_goes(tmp_path: Path) -> None:
    async with a_world(tmp_path, settings_of("sqlite", tmp_path, None)) as world:
        world.configure()
        async with open_logs(load(tmp_path / "evalstream.yaml").settings.log) as logs:
            await logs.turns.append([turn_record(turn(user, number)) for number in range(400) for user in PEOPLE])
        with closing(sqlite3.connect(tmp_path / "log.db")) as earlier:
            earlier.execute("PRAGMA secure_delete = OFF")
            earlier.execute("DELETE FROM records WHERE CAST(value AS TEXT) LIKE ?", [f"%{ALICE}%"])
            earlier.commit()
            earlier.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert ALICE.encode() in (tmp_path / "log.db").read_bytes()
        result = await world.command("erase", "--user", ALICE)
        assert result.exit_code == 0, result.output
        assert ALICE.encode() not in (tmp_path / "log.db").read_bytes()
        assert BOB.encode() in (tmp_path / "log.db").read_bytes()


@pytest.mark.long
async def test_a_service_that_runs_is_not_written_under(tmp_path: Path) -> None:
    async with a_world(tmp_path, settings_of("sqlite", tmp_path, None)) as world:
        world.configure()
        async with world.serving():
            result = await world.command("erase", "--user", ALICE)
        assert "stop all processes of the service" in str(result.exception)


async def test_a_mention_in_the_text_of_others_is_told(tmp_path: Path) -> None:
    async with a_world(tmp_path, settings_of("sqlite", tmp_path, None)) as world:
        world.configure()
        async with open_logs(load(tmp_path / "evalstream.yaml").settings.log) as logs:
            others = Turn(turn_id="t", conversation_id="c", input=f"Where is {ALICE}?", actual_output="Here.")
            await logs.turns.append([turn_record(others), turn_record(turn(ALICE, 1))])
        result = await world.command("erase", "--user", ALICE)
        assert (result.exit_code, "log turns: 1;" in result.output) == (1, True), result.output


async def test_ids_are_sought_as_they_are_stored(tmp_path: Path) -> None:
    """A conversation's id is redacted when it comes, and a short one of a user is a part of many words."""
    async with a_world(tmp_path, settings_of("sqlite", tmp_path, None)) as world:
        config = load(world.configure())
        redactor = open_redactors(config.settings.redact).everybody
        assert redactor is not None
        stored = redactor.text("talk of ada@example.org")
        others = Turn(turn_id="t", conversation_id="c", input="always", actual_output="", attributes={"owner": "al"})
        async with open_logs(config.settings.log) as logs:
            of_ada = replace(turn(BOB, 1), turn_id="u", conversation_id=stored, input="\u4f60\u597d\u5417" * 5)
            await logs.turns.append([turn_record(of_ada), turn_record(others)])
        gone = await world.command("erase", "--conversation", "talk of ada@example.org")
        assert (gone.exit_code, "found nothing" in gone.output) == (0, True), gone.output
        file = (tmp_path / "log.db").read_bytes()
        assert (stored.encode() in file, "\u4f60\u597d\u5417".encode() in file) == (False, False)
        assert (await world.command("erase", "--user", "lw")).exit_code == 0
        assert (await world.command("erase", "--user", "al")).exit_code == 1


async def test_a_longer_id_of_others_is_no_find(tmp_path: Path) -> None:
    async with a_world(tmp_path, settings_of("sqlite", tmp_path, None)) as world:
        config = load(world.configure())
        longer = Turn(
            turn_id="t", conversation_id=f"{ALICE}0", user_id=f"{ALICE}00", input="Hello.", actual_output="Hi."
        )
        async with open_logs(config.settings.log) as logs:
            await logs.turns.append([turn_record(longer), turn_record(turn(ALICE, 1))])
        file = tmp_path / "turns.jsonl"
        file.write_bytes(turn_to_json(longer) + b"\n" + turn_to_json(turn(ALICE, 1)) + b"\n")
        result = await world.command("erase", "--user", ALICE, "--file", str(file))
        assert (result.exit_code, "found nothing" in result.output) == (0, True), result.output
        assert file.read_bytes() == turn_to_json(longer) + b"\n"
        asks = replace(longer, turn_id="t2", input=f"{ALICE}00 asks for {ALICE}")
        about = replace(longer, turn_id="t3", conversation_id=f"about-{ALICE}")
        async with open_logs(config.settings.log) as logs:
            await logs.turns.append([turn_record(asks), turn_record(about)])
        result = await world.command("erase", "--user", ALICE)
        assert (result.exit_code, "log turns: 2;" in result.output) == (1, True), result.output
        assert f"log turns, partition 0, offset 2: {ALICE}" in result.output


@pytest.mark.long
async def test_a_mention_keeps_no_topics(tmp_path: Path, kafka_broker: Any) -> None:
    async with a_world(tmp_path, settings_of("kafka", tmp_path, kafka_broker)) as world:
        config = world.configure()
        async with open_logs(load(config).settings.log) as logs:
            others = Turn(turn_id="t", conversation_id="c", input=f"Where is {ALICE}?", actual_output="Here.")
            await logs.turns.append([turn_record(others), turn_record(turn(ALICE, 1))])
        to = tmp_path / "left.yaml"
        to.write_text(json.dumps(world.settings | {"log": settings_of("kafka", tmp_path, kafka_broker)}))
        result = await world.command("erase", "--user", ALICE, "--to", str(to))
        assert (result.exit_code, "log turns: 1;" in result.output) == (1, True), (result.output, result.exception)
        await only_the_note_is_left(world.settings["log"]["kafka"]["prefix"], config, kafka_broker)
        assert PEOPLE[ALICE].encode() not in (await contents(to))["turns"]


async def test_files_behind_links_and_of_conversations_are_erased_and_searched(tmp_path: Path) -> None:
    async with a_world(tmp_path, settings_of("sqlite", tmp_path, None)) as world:
        async with open_logs(load(world.configure()).settings.log):
            pass
        file, link = tmp_path / "conversations-1.jsonl", tmp_path / "conversations.jsonl"
        link.symlink_to(file)
        lines = [
            {"conversation_id": "c1", "turns": [{"turn_id": "t1", "user_id": ALICE, "input": "Hello."}]},
            {"conversation_id": "c2", "turns": [{"turn_id": "t2", "user_id": BOB, "input": "Hello."}]},
        ]
        file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        result = await world.command("erase", "--user", ALICE, "--file", str(link))
        assert result.exit_code == 0, result.output
        assert link.is_symlink()
        assert [json.loads(line)["conversation_id"] for line in file.read_text().splitlines()] == ["c2"]
        file.write_text(json.dumps({"turn_id": "t3", "user_id": BOB, "input": f"Where is {ALICE}?"}) + "\n")
        result = await world.command("erase", "--user", ALICE, "--file", str(link))
        assert (result.exit_code, f"{file}: 1;" in result.output.replace("\n", "")) == (1, True), result.output
