"""The secret draw key comes with an upgrade: what the public draw sampled before is not judged anew, nothing is lost."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from past_world import World, a_world, record

from collector.config.configured import Config
from collector.config.live_part import KEYED, live_values
from collector.config.loading import load
from collector.evaluate.sampling.draw import draw, keyed_salt
from collector.evaluate.sampling.draw_key import draw_key
from collector.logs.log import Record
from collector.records.json import turn_to_json
from collector.service.live import exchange, history
from collector.service.open_logs import open_logs
from evaluators.cases import Turn

RATE = 0.4
BEFORE, OPEN, AFTER = range(60), range(60, 90), range(90, 150)


def open_record(n: int) -> Record:
    """A conversation that does not end by itself."""
    turn = Turn(turn_id=f"t{n}", conversation_id=f"c{n}", input=f"Where is parcel {n}?", actual_output="Here.")
    return Record(f"c{n}".encode(), turn_to_json(turn))


async def no_key(_definitions: object) -> str:
    """The version before: it drew by the public salt."""
    return ""


def unkeyed(config: Config) -> dict[str, Any]:
    """What that version stored of a configuration."""
    return {name: value for name, value in live_values(config).items() if name != KEYED}


async def judged(world: World) -> Counter[str]:
    return Counter(
        each.subject.conversation_id for each in await world.ledger() if each.evaluator == "short" and each.score is not None
    )  # fmt: skip


@pytest.mark.long
async def test_an_upgrade_judges_nothing_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_world(tmp_path, {"kind": "sqlite", "path": str(tmp_path / "log.db")}) as world:
        world.settings["monitors"]["all"]["sample"] = RATE
        world.configure()
        public = {f"c{n}" for n in range(150) if draw("evalstream", f"c{n}") < RATE}
        with monkeypatch.context() as earlier:
            earlier.setattr(exchange, "make_draw_key", no_key)
            earlier.setattr(history, "live_values", unkeyed)
            async with world.serving() as service:
                await service.logs.turns.append([record(n) for n in BEFORE])
                await service.logs.turns.append([open_record(n) for n in OPEN])
                names = public & {f"c{n}" for n in (*BEFORE, *OPEN)}
                await world.until(lambda found: {each.subject.conversation_id for each in found} >= names)
        before = await world.ledger()
        assert set(await judged(world)) == names
        asked = world.judge.calls

        async with world.serving() as service:
            await service.logs.turns.append([record(n) for n in AFTER])
            async with open_logs(load(tmp_path / "evalstream.yaml").settings.log) as logs:
                key = await draw_key(await logs.generated_steps())
            assert key.secret
            keyed = {f"c{n}" for n in AFTER if draw(keyed_salt(key.secret, "evalstream"), f"c{n}") < RATE}
            await world.until(lambda found: {each.subject.conversation_id for each in found} >= names | keyed)
            await world.until_drained()

        after = await world.ledger()
        assert Counter(each.evaluation_id for each in after).most_common(1)[0][1] == 1
        assert {each.evaluation_id for each in before} <= {each.evaluation_id for each in after}
        assert set(await judged(world)) == names | keyed
        assert (await judged(world)).most_common(1)[0][1] == 1
        assert keyed != public & {f"c{n}" for n in AFTER}
        assert world.judge.calls - asked <= 2 * len(keyed) + len(OPEN)
        audited = await world.command("audit")
        assert audited.exit_code == 0, audited.output
