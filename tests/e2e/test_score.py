"""`evalstream score` over files, as in a user's continuous integration."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import stand_in_judge
import yaml
from faulty_judge import Faults, FaultyJudge
from stand_in_judge import serve_judge

from collector.cli import main
from collector.config.loading import load
from collector.service.plan_builder import evaluator_version_in


def prepare(folder: Path, url: str, count: int) -> None:
    config = {
        "judges": {"main": {"model": "m", "base_url": url}},
        "evaluators": {
            "helpful": {
                "kind": "g_eval",
                "evaluation_steps": ["Say whether it answers."],
                "evaluation_params": ["input", "actual_output"],
                "threshold": 0.5,
            },
        },
        "monitors": {"all": {"evaluators": ["helpful"]}},
    }
    (folder / "evalstream.yaml").write_text(yaml.safe_dump(config))
    with (folder / "turns.jsonl").open("w") as file:
        for n in range(count):
            answer = "Nobody knows." if n % 4 == 0 else f"The number is {n}."
            turn = {
                "turn_id": f"t{n}", "trace_id": None, "conversation_id": f"c{n // 3}",
                "input": f"What is the number {n}?", "actual_output": answer,
            }  # fmt: skip
            file.write(json.dumps(turn) + "\n")


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "collector.cli", "score", *arguments]


async def finished(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(
        subprocess.run, command(*arguments), cwd=folder, capture_output=True, text=True, timeout=250, check=False
    )


async def test_scores_files_and_fails_under_a_line(tmp_path: Path) -> None:
    async with serve_judge() as url:
        prepare(tmp_path, url, 100)
        done = await finished(tmp_path, "*.jsonl", "--json", "--fail-under", "0.5")
        assert (done.returncode, done.stderr) == (0, "")
        [tally] = json.loads(done.stdout).values()
        assert tally["scored"] == 100
        assert tally["interval"][0] < tally["mean"] < tally["interval"][1]
        done = await finished(tmp_path, "turns.jsonl", "--fail-under", "0.99", "-o", "out.csv")
        assert done.returncode == 1
        assert done.stderr.startswith("evalstream: helpful: mean")
        assert len((tmp_path / "out.csv").read_text().splitlines()) == 101
        done = await finished(tmp_path, "nowhere*.jsonl")
        assert (done.returncode, done.stderr) == (2, "evalstream: nowhere*.jsonl: no file matches\n")


_EXITING = """
import asyncio, sys
from typing import ClassVar
from evaluators import Evaluator, Score, Turn

async def leave():
    sys.exit(0)

class Exiting(Evaluator[Turn]):
    kind: ClassVar[str] = "exiting"
    needs_judge: ClassVar[bool] = False
    needed_fields: ClassVar[frozenset[str]] = frozenset({"input"})

    async def evaluate(self, case, judge):
        if "7" in case.input:
            await asyncio.create_task(leave())
        return Score(value=0.1)
"""


async def test_a_plug_in_that_exits_with_0_does_not_pass_the_gate(tmp_path: Path) -> None:
    """Its own task ended the command with its status, before anything was compared or printed."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "exiting.py").write_text(_EXITING)
    (tmp_path / "evalstream.yaml").write_text("plugins: ./mine\nevaluators: {it: {kind: exiting}}\n")
    (tmp_path / "turns.jsonl").write_text("".join(f'{{"input": "{number}", "output": "b"}}\n' for number in range(10)))
    done = await finished(tmp_path, "turns.jsonl", "--json", "--fail-under", "0.9")
    assert (done.returncode, json.loads(done.stdout or "{}").get("it", {}).get("scored")) == (1, 9), done
    assert "called sys.exit (SystemExit at " in done.stderr
    assert "evalstream: it: mean 0.100 is below 0.9" in done.stderr


async def test_two_definitions_on_one_file_are_compared_case_by_case(tmp_path: Path) -> None:
    """The pages sent people here from the gate, and there were only two means with overlapping intervals."""
    prepare(tmp_path, "http://127.0.0.1:9", 20)
    config = {
        "evaluators": {
            "number": {"kind": "regex", "pattern": "number"},
            "five": {"kind": "regex", "pattern": "number is [0-5]"},
            "refusal": {"kind": "refusal"},
            "short": {"kind": "length", "maximum": 10},
        },
        "monitors": {"all": {"evaluators": ["number", "five", "refusal", "short"]}},
        "log": {"path": str(tmp_path / "none.db")},
    }
    (tmp_path / "evalstream.yaml").write_text(yaml.safe_dump(config))
    done = await finished(tmp_path, "turns.jsonl", "--evaluator", "number", "--evaluator", "five")
    assert done.returncode == 0, done.stderr
    [line] = (line for line in done.stdout.splitlines() if "case by case" in line)
    assert line.startswith("number → five, case by case: 0.750 → 0.600 (-0.150, 95 % interval -0."), line
    assert line.endswith(")"), line
    unlike = await finished(tmp_path, "turns.jsonl", "--evaluator", "number", "--evaluator", "short")
    assert "number → short: not compared, as they are of two kinds or scales\n" in unlike.stdout, unlike.stderr
    assert "case by case" not in unlike.stdout, "a difference stood there that told nothing"
    opposed = await finished(tmp_path, "turns.jsonl", "--evaluator", "number", "--evaluator", "refusal")
    why = (
        "lower is better for the new one (refusal), but higher for the old one (number), so a difference of means says "
    )
    assert f"number → refusal: not compared, as {why}nothing; evalstream calibrate" in opposed.stdout, opposed.stderr
    assert "case by case" not in opposed.stdout
    two = ("turns.jsonl", "--evaluator", "number", "--evaluator", "five", "--json")
    first = json.loads((await finished(tmp_path, *two, "--output", "base.jsonl")).stdout)
    found = first["five"]["comparison"]
    assert (found["compared_with"], found["pairs"], "comparison" in first["number"]) == ("number", 20, False)
    mean = found["mean"]
    assert f"({mean['difference']:+.3f}, 95 % interval {mean['interval'][0]:+.3f} … " in line
    against = json.loads((await finished(tmp_path, *two, "--against", "base.jsonl")).stdout)
    assert {name: each["comparison"]["verdict"] for name, each in against.items()} == dict.fromkeys(first, "alike")
    assert against["five"]["comparison"]["mean"]["difference"] == 0.0
    past = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "collector.cli", "compare", "evaluators", "turns.jsonl", "--evaluator", "five"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert past.returncode == 2
    assert "write both into one configuration and run evalstream score FILE" in past.stderr


async def test_a_run_by_other_steps_of_the_judge_has_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clean jobs let the judge write new steps each, and the same answers were worse for sure, or alike."""
    async with serve_judge() as url:
        prepare(tmp_path, url, 20)
        path = tmp_path / "evalstream.yaml"
        config = yaml.safe_load(path.read_text())
        del config["evaluators"]["helpful"]["evaluation_steps"]
        config["evaluators"]["helpful"]["criteria"] = "Whether it answers."
        for job, steps in (
            ("base", None),
            ("same", None),
            ("other", ("Stand-in, no model: see whether it is right.",)),
        ):
            if steps:
                monkeypatch.setattr(stand_in_judge, "STEPS", steps)
            path.write_text(yaml.safe_dump(config | {"log": {"path": f"{job}.db"}}))
            against = () if job == "base" else ("--against", "base.jsonl", "--tolerance", "0.02")
            done = await finished(tmp_path, "turns.jsonl", "--json", "--output", f"{job}.jsonl", *against)
            assert done.returncode == 0, done.stderr
            verdict = json.loads(done.stdout)["helpful"].get("comparison", {}).get("verdict")
            assert verdict == {"base": None, "same": "alike", "other": "other steps"}[job]


async def test_the_worst_answers_can_be_read(tmp_path: Path) -> None:
    """The page said to read the worst ones' explanations, and no command printed them beside their texts."""
    async with serve_judge() as url:
        prepare(tmp_path, url, 4)
        with (tmp_path / "turns.jsonl").open("a") as file:
            file.write('{"turn_id": "t9", "input": "And 9?", "actual_output": "It is\\nunknown."}\n')
        done = await finished(tmp_path, "turns.jsonl", "--worst", "2")
        without = await finished(tmp_path, "turns.jsonl")
    table, *worst = done.stdout.split("\n\n")
    assert table.strip() == without.stdout.strip()
    assert [answer.strip().split("\n")[:3] for answer in worst] == [
        ["helpful: 0 (t0)", "  question  What is the number 0?", "  answer    Nobody knows."],
        ["helpful: 0 (t9)", "  question  And 9?", "  answer    It is"],
    ]
    assert worst[0].split("\n")[3].startswith("  reason    Stand-in")
    assert "\n            unknown.\n" in worst[1]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("hello\n", "turns.jsonl: not JSON; give OTLP, or turns with one JSON object per line"),
        ("", "turns.jsonl: is empty; give OTLP, or turns with one JSON object per line"),
        ('{"resourceSpans": []}', "turns.jsonl: no turns found; evalstream turns --explain FILE shows why"),
    ],
)
def test_files_that_hold_nothing(
    content: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    prepare(tmp_path, "http://127.0.0.1:1/v1", 1)
    (tmp_path / "turns.jsonl").write_text(content)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["evalstream", "score", "turns.jsonl"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code, capsys.readouterr().err) == (2, f"evalstream: {said}\n")


def names(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()}


async def test_no_file_comes_into_being_that_nobody_named(tmp_path: Path) -> None:
    """A score of files is not a service: a log belongs to the folder only where the configuration names one."""
    async with serve_judge() as url:
        prepare(tmp_path, url, 3)
        before = names(tmp_path)
        done = await finished(tmp_path, "turns.jsonl")
        assert (done.returncode, done.stderr) == (0, "")
        assert names(tmp_path) == before
        path = tmp_path / "evalstream.yaml"
        given = yaml.safe_load(path.read_text())
        del given["evaluators"]["helpful"]["evaluation_steps"]
        given["evaluators"]["helpful"]["criteria"] = "Whether it answers."
        path.write_text(yaml.safe_dump(given))
        done = await finished(tmp_path, "turns.jsonl")
        assert "evaluation steps of 1 evaluator for this run alone" in done.stderr
        assert names(tmp_path) == before
        path.write_text(yaml.safe_dump(given | {"log": {"path": "steps.db"}}))
        for _ in range(2):
            done = await finished(tmp_path, "turns.jsonl")
            assert (done.returncode, done.stderr) == (0, "")
        assert (tmp_path / "steps.db").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["explain", "0" * 32],
        ["calibrate", "helpful"],
        ["labels", "next"],
        ["dataset", "-o", "out.jsonl"],
        ["plan", "targets"],
        ["dead-letters"],
    ],
    ids=lambda each: each[0],
)
def test_a_command_that_reads_makes_no_log(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(tmp_path, "http://127.0.0.1:1/v1", 1)
    before = names(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["evalstream", *arguments])
    with pytest.raises(SystemExit):
        main()
    assert names(tmp_path) == before


async def test_a_judge_that_talks_nonsense_gives_no_score(tmp_path: Path) -> None:
    async with serve_judge(FaultyJudge(Faults(prose_share=1.0))) as url:
        prepare(tmp_path, url, 3)
        done = await finished(tmp_path, "turns.jsonl", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["helpful"]["mean"] is None
    assert done.stderr == (
        "evalstream: helpful: nothing could be scored: 3 of 3 failed (judge_reply_invalid); the first error: "
        "the answer holds no JSON object; name a model that follows instructions and writes JSON (judges.main.model)\n"
    )


async def test_a_run_of_which_a_part_failed_is_no_success(tmp_path: Path) -> None:
    """The status was 0, and a pipeline that reads it alone was green, though the mean left out what failed."""
    message = {"role": "assistant", "content": "I cannot say."}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    answer = {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
    answer |= {"usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}}
    judge = FaultyJudge(Faults(reply=(200, json.dumps(answer)), reply_to="the number 1"))
    async with serve_judge(judge) as url:
        prepare(tmp_path, url, 4)
        options = ("turns.jsonl", "--json", "-o", "out.jsonl", "--fail-under", "0.1")
        failed = await finished(tmp_path, *options)
        judge.faults = Faults()
        again = await finished(tmp_path, *options)
    summary = json.loads(failed.stdout)["helpful"]
    assert (failed.returncode, summary["scored"], summary["failed"]) == (1, 3, {"judge_reply_invalid": 1})
    *_, line = failed.stderr.splitlines()
    assert line.startswith("evalstream: helpful: not all could be scored: 1 of 4 failed (judge_reply_invalid); the ")
    assert line.endswith("; run the same command again to resume from out.jsonl"), line
    assert (again.returncode, json.loads(again.stdout)["helpful"]["failed"]) == (0, {}), again.stderr


async def test_an_unreachable_judge_is_reported_at_once(tmp_path: Path) -> None:
    url = "http://localhost:9/v1"
    prepare(tmp_path, url, 2)
    done = await finished(tmp_path, "turns.jsonl", "--json", "-o", "out.jsonl")
    assert done.returncode == 1
    assert json.loads(done.stdout)["helpful"]["failed"] == {"judge_unavailable": 2}
    recorded = {json.loads(line)["evaluator_version"] for line in (tmp_path / "out.jsonl").read_text().splitlines()}
    assert {evaluator_version_in(load(tmp_path / "evalstream.yaml"), "helpful", "all")} == recorded
    nobody = "no connection to the judge: connection refused"
    assert done.stderr == (
        f"evalstream: judge main at {url} has never answered ({nobody}), so its evaluations fail at once; "
        "start it, or correct judges.main.base_url\n"
        "evalstream: helpful: nothing could be scored: 2 of 2 failed (judge_unavailable)\n"
    )


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_interrupted_and_started_again_nothing_is_judged_twice(tmp_path: Path) -> None:
    import asyncio

    judge = FaultyJudge(Faults(latency=0.02))
    async with serve_judge(judge) as url:
        prepare(tmp_path, url, 10_000)
        first = await asyncio.create_subprocess_exec(
            *command("turns.jsonl", "-o", "out.jsonl"), cwd=tmp_path, stderr=subprocess.PIPE
        )
        async with asyncio.timeout(60):
            while judge.calls < 2000:
                await asyncio.sleep(0.05)
        first.send_signal(signal.SIGINT)
        _, said = await first.communicate()
        assert first.returncode == 130
        assert (
            said.decode().splitlines()[-1]
            == "evalstream: interrupted; run the same command again to resume from out.jsonl"
        )
        kept, before = (tmp_path / "out.jsonl").read_bytes().count(b"\n"), judge.calls
        assert before - kept <= 64, "of what was asked only what was under way is lost"
        done = await finished(tmp_path, "turns.jsonl", "-o", "out.jsonl", "--json")
    assert done.returncode == 0
    ids = Counter(json.loads(line)["evaluation_id"] for line in (tmp_path / "out.jsonl").read_text().splitlines())
    assert len(ids) == 10_000
    assert ids.most_common(1)[0][1] == 1
    assert judge.calls - before == 10_000 - kept, "what the first run has kept is not asked for again"
