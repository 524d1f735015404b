"""`evalstream compare judges`: judges with planted errors on labelled cases, their figures, and which one is proposed."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from evaluation_samples import bare
from typer.testing import CliRunner

from collector.calibration.label_lines import LabelRow
from collector.cli import app
from collector.commands.judges import judges
from collector.commands.judges.bench import Bench, Figure, JudgeFigures, _take
from collector.commands.judges.judges import as_text
from collector.commands.replay.people import labels_of_file
from collector.config.loading import load
from collector.evaluate import job_builder
from collector.logs.log import Record
from collector.past.evaluations import key_of
from collector.records.json import evaluation_from_json, evaluation_to_json
from collector.records.ready_made import LABEL_KEYS
from collector.service.open_logs import open_logs
from collector.statistics.agreement import ScoreScale
from evaluators.cases import Conversation, Turn
from evaluators.identity import digest_of
from evaluators.results import Evaluation, Sampling, Subject

JUDGES = '''
import random
from evaluators.judge import Answer, Verdict
from evaluators.results import Usage
from evaluators.errors import JudgeReplyInvalid


class Noisy:
    """Wrong in a share of the cases, always the same ones, and in a share of the attempts."""

    def __init__(self, model, wrong=0.0, wavering=0.0, usd=0.001, silent=0.0):
        self.model, self.wrong, self.wavering, self.usd, self.silent = model, wrong, wavering, usd, silent
        self.asked = 0

    async def ask(self, prompt, reply, *, logprobs=False, samples=1):
        self.asked += 1
        text = prompt.material["actual_output"]
        if random.Random(f"{self.model} silent {text}").random() < self.silent:
            raise JudgeReplyInvalid("no JSON")
        good = text.startswith("good")
        good ^= random.Random(f"{self.model} {text}").random() < self.wrong
        good ^= random.Random(f"{self.model} {text} {self.asked}").random() < self.wavering
        made = reply.model_validate({"reason": "so", "score": 9 if good else 2})
        return Verdict([Answer(made, "")], self.model, None, Usage(input_tokens=10, calls=1), self.usd)
'''


@pytest.fixture
def config(tmp_path: Path) -> Path:
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "noisy.py").write_text(JUDGES)
    judge = {"kind": "noisy:Noisy"}
    settings = {
        "log": {"kind": "memory"},
        "plugins": "./own",
        "judges": {
            "strong": {**judge, "model": "strong", "options": {"wrong": 0.02, "usd": 0.01}},
            "mini": {**judge, "model": "mini", "options": {"wrong": 0.03, "usd": 0.001}},
            "wild": {**judge, "model": "wild", "options": {"wrong": 0.3, "wavering": 0.2, "usd": 0.0001}},
            "mute": {**judge, "model": "mute", "options": {"silent": 0.4, "usd": 0.00001}},
        },
        "evaluators": {
            "helpful": {
                "kind": "g_eval", "evaluation_steps": ["Look."], "evaluation_params": ["actual_output"],
                "judge": "strong", "threshold": 0.5,
            }
        },
        "monitors": {"all": {"evaluators": ["helpful"]}},
    }  # fmt: skip
    path = tmp_path / "evalstream.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    chance = random.Random(5)
    path = tmp_path / "labels.jsonl"
    rows = []
    for number in range(120):
        good = chance.random() < 0.6
        answer = f"{'good' if good else 'bad'} answer {number}"
        rows.append(
            {"turn_id": f"t{number}", "input": "?", "actual_output": answer, "human": good, "evaluator": "helpful"}
        )
    rows.append({"input": "?", "actual_output": "not labelled yet", "human": None})
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return path


def run(config: Path, cases: Path, *arguments: str, status: int = 0) -> str:
    result = CliRunner().invoke(app, ["compare", "judges", "-c", str(config), "--file", str(cases), *arguments])
    assert result.exit_code == status, result.output + repr(result.exception)
    return result.stdout


def test_a_case_is_digested_once_for_all_judges(config: Path, cases: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A case of a thousand turns was written as JSON for each attempt of each judge."""
    digests = Counter[str]()

    def counted(case: Turn | Conversation) -> str:
        digests[name := digest_of(case)] += 1
        return name

    for module in (judges, job_builder):
        monkeypatch.setattr(module, "digest_of", counted)
    lines = cases.read_bytes().splitlines(keepends=True)
    cases.write_bytes(b"".join(lines[:3]))
    run(config, cases, "--json", "--margin", "0.1")
    assert set(digests.values()) == {2}, "to recognize a case that comes again, and for all of its attempts"


def test_the_cheapest_judge_that_is_enough_is_proposed(config: Path, cases: Path, tmp_path: Path) -> None:
    found = orjson.loads(run(config, cases, "--json", "--margin", "0.1"))
    by_name = {each["judge"]: each for each in found["figures"]}
    assert found["cases"] == 120
    assert found["take"] == "mini"
    assert {name: each["choice"] for name, each in by_name.items()} == {
        "strong": "best", "mini": "enough", "wild": "worse", "mute": "silent",
    }  # fmt: skip
    for name, wrong in (("strong", 0.02), ("mini", 0.03)):
        value, (lowest, highest) = by_name[name]["agreement"].values()
        assert lowest <= 1 - wrong <= highest
        assert value == pytest.approx(1 - wrong, abs=0.03)
        assert by_name[name]["repeatability"]["value"] == 1.0
    assert by_name["wild"]["repeatability"]["value"] == pytest.approx(1 - 2 * 0.2 * 0.8, abs=0.08)
    assert by_name["strong"]["cost_usd"]["value"] == pytest.approx(0.01)
    assert 50 <= by_name["mute"]["scored"] <= 90
    assert by_name["mute"]["failures"] == {"judge_reply_invalid": 2 * (120 - by_name["mute"]["scored"])}


def test_a_label_that_decides_nothing_is_no_verdict(config: Path, cases: Path) -> None:
    """A label of score 0.5 without `pass` was a pass."""
    plugin = config.parent / "own" / "noisy.py"
    label = '"label": "half" if text.endswith("0") else "good" if good else "bad"'
    plugin.write_text(plugin.read_text().replace('"score": 9 if good else 2', label))
    settings = yaml.safe_load(config.read_text())
    labels = {"good": {"meaning": "g", "pass": True}, "bad": {"meaning": "b", "pass": False},
              "half": {"meaning": "h", "score": 0.5}}  # fmt: skip
    settings["evaluators"]["helpful"] = {
        "kind": "classifier", "question": "Is it good?", "labels": labels, "judge": "strong",
        "evaluation_params": ["actual_output"],
    }  # fmt: skip
    config.write_text(yaml.safe_dump(settings))
    found = orjson.loads(run(config, cases, "--json", "--judge", "strong", "--judge", "mini", "--repeat", "1"))
    strong = next(each for each in found["figures"] if each["judge"] == "strong")
    assert strong["scored"] == 108
    assert strong["failures"] == {"no_verdict": 12}


def test_without_a_threshold_judges_are_compared_by_their_scores(config: Path, cases: Path) -> None:
    """People's true and false were compared with verdicts at 0.5, which nobody had written."""
    config.write_text(config.read_text().replace("threshold: 0.5", "threshold: null"))
    found = orjson.loads(run(config, cases, "--json", "--judge", "strong", "--judge", "mini", "--repeat", "1"))
    strong = next(each for each in found["figures"] if each["judge"] == "strong")
    assert strong["scored"] == 120
    assert 0.8 < strong["agreement"]["value"] < 0.95, "scores of 9 and 2 are near people's, and not theirs"
    text = " ".join(run(config, cases, "--judge", "strong", "--judge", "mini", "--repeat", "1").split())
    assert "as helpful has no verdicts, agreement and again are 1 minus the mean distance of scores" in text


@pytest.mark.parametrize("graded", [1, 60, 120])
def test_labels_with_numbers_are_verdicts_as_for_calibrate(config: Path, cases: Path, graded: int) -> None:
    """One 0.9 among true and false turned the agreement of all cases into a distance of scores."""
    own = ("--json", "--judge", "strong", "--judge", "wild", "--repeat", "1")
    expected = orjson.loads(run(config, cases, *own))
    rows = [orjson.loads(line) for line in cases.read_bytes().splitlines()]
    numbers = {True: 0.9, False: 0.2}
    rows = [{**row, "human": numbers.get(row["human"])} if n < graded else row for n, row in enumerate(rows)]
    cases.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    mixed = orjson.loads(run(config, cases, *own))
    assert mixed["verdicts"]
    for one, other in zip(expected["figures"], mixed["figures"], strict=True):
        assert (one["judge"], one["agreement"], one["choice"]) == (other["judge"], other["agreement"], other["choice"])


def test_the_table_says_what_follows(config: Path, cases: Path) -> None:
    text = run(config, cases, "--judge", "strong", "--judge", "mini", "--repeat", "1", "--margin", "0.1")
    assert "helpful: 120 labelled cases" in text
    assert "Take mini: it is at most" in text
    assert "at 10% of its" in text


@pytest.mark.parametrize(
    ("prices", "seconds", "said"),
    [
        ((None, None), (1.0, 2.0), "Take main: it agrees with people best, and is the fastest that is enough. The price of main and other is "),
        ((None, None), (2.0, 1.0), "Take other: it is at most 0.030 behind main (95 %; allowed 0.05), and is the fastest that is enough. The price "),
        ((0.01, None), (2.0, 1.0), "Take main: it agrees with people best. The price of other is unknown: "),
        ((0.01, 0.02), (2.0, 1.0), "Take main: it agrees with people best, and none that is enough is cheaper."),
        ((0.01, 0.001), (2.0, 1.0), "Take other: it is at most 0.030 behind main (95 %; allowed 0.05), at 10% of its price."),
    ],
)  # fmt: skip
def test_what_is_said_of_the_judge_to_take_fits_the_table(
    prices: tuple[float | None, ...], seconds: tuple[float, ...], said: str
) -> None:
    """Beside "other … enough" it said: "Take main: …, and no cheaper one is proven to be enough", without any price."""
    behind = Figure(0.0, (0.0, 0.0)), Figure(0.01, (-0.01, 0.03))
    figures = [
        JudgeFigures(judge=name, model=name, cases=90, scored=90, agreement=Figure(0.9), behind=of, choice=choice,
                     cost_usd=None if price is None else Figure(price), seconds=time)
        for name, of, choice, price, time in zip(
            ("main", "other"), behind, ("best", "enough"), prices, seconds, strict=True
        )
    ]  # fmt: skip
    text = as_text(Bench("helpful", 0.05, figures, _take(figures)), 90)
    assert said in " ".join(text.split())


def test_few_cases_decide_nothing(config: Path, tmp_path: Path) -> None:
    few = tmp_path / "few.jsonl"
    rows = [{"input": "?", "actual_output": f"good {n}", "human": "pass"} for n in range(4)]
    rows += [{"input": "?", "actual_output": f"bad {n}", "human": "fail"} for n in range(4)]
    few.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    text = run(config, few, "--judge", "strong", "--judge", "mini")
    assert "No verdict yet: a --margin of 0.05 takes 60 cases. Label more, or allow a larger margin." in text
    assert "Take" not in text
    assert " best" not in text


def test_at_the_spending_limit_few_cases_recommend_no_judge(config: Path, cases: Path) -> None:
    """It said "Take mini: it agrees with people best" after one case of 240."""
    settings = yaml.safe_load(config.read_text())
    for judge in settings["judges"].values():
        judge.update({"usd_per_million_input_tokens": 1.0, "usd_per_million_output_tokens": 1.0})
    config.write_text(yaml.safe_dump(settings))
    text = run(config, cases, "--judge", "strong", "--judge", "mini", "--max-usd", "0.1", status=1)
    assert "No verdict yet: " in text
    assert "Take" not in text
    words = ["compare", "judges", "-c", str(config), "--file", str(cases), "--judge", "strong", "--judge", "mini"]
    nothing = CliRunner().invoke(app, [*words, "--max-usd", "0"])
    assert "--max-usd 0 must be above " in nothing.stderr, "no line said that the limit had ended it"


def test_the_labels_that_calibrate_takes_are_cases_too(config: Path, cases: Path) -> None:
    """`given_by` was refused as a key of a turn."""
    others = {"turn_id", "conversation_id", "attributes", "input_tokens", "calls"}  # of the case, and within its usage
    assert LabelRow.model_fields.keys() - others <= {*LABEL_KEYS}
    row = {"score": 0.7, "given_by": "ann", "judge_tokens": 9, "note": "so", "segment": "all"}
    lines = [orjson.loads(line) | row for line in cases.read_bytes().splitlines()]
    cases.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    assert "helpful: 120 labelled cases" in run(config, cases, "--judge", "strong", "--judge", "mini", "--repeat", "1")


def test_cases_that_were_drawn_more_often_count_less(config: Path, tmp_path: Path) -> None:
    """What `labels next` drew four times as often is where the judge errs; what somebody picked is left out."""
    chance, rows = random.Random(3), []
    for number in range(400):
        good = chance.random() < 0.5
        answer = f"{'good' if good else 'bad'} answer {number}"
        is_wrong = random.Random(f"wild {answer}").random() < 0.3
        if chance.random() < (probability := 0.8 if is_wrong else 0.2):
            rows.append({"input": "?", "actual_output": answer, "human": good, "label_probability": probability})
    rows += [{"input": "?", "actual_output": f"good one {number}", "human": False} for number in range(50)]
    path = tmp_path / "drawn.jsonl"
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    config.write_text(config.read_text().replace("wavering: 0.2", "wavering: 0.0"))
    found = orjson.loads(run(config, path, "--judge", "strong", "--judge", "wild", "--repeat", "1", "--json"))
    by_name = {each["judge"]: each["agreement"] for each in found["figures"]}
    drawn = len(rows) - 50
    assert found["cases"] == drawn
    share = sum(row["label_probability"] < 0.5 for row in rows[:drawn]) / drawn
    assert share < 0.5, "the unweighted agreement"
    assert by_name["wild"]["value"] == pytest.approx(0.7, abs=0.06)
    lowest, highest = by_name["wild"]["interval"]
    assert share < lowest < 0.7 < highest


OF_ONE_ANSWER = {"turn_id": "t0", "conversation_id": "c0"}


def write_lines(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path.write_bytes(b"".join(orjson.dumps({"input": "?", "actual_output": "good", **row}) + b"\n" for row in rows))
    return path


@pytest.mark.parametrize(
    ("rows", "cases", "agreement"),
    [
        ([{"evaluation_id": "e0", "given_by": name, "human": False} for name in ("ann", "bob")], 1, 0.0),
        ([{"evaluation_id": "e0", "given_by": "ann", "human": human} for human in (False, True)], 1, 1.0),
        ([{"evaluation_id": f"e{n}", "given_by": "ann", "human": n == 1} for n in range(2)], 1, 1.0),
        ([{"evaluation_id": "e0", "human": human} for human in (False, True)], 1, 0.5),
        ([{"evaluation_id": f"e{n}", "human": human} for n, human in enumerate((False, True, True))], 1, 1.0),
        ([{**OF_ONE_ANSWER, "given_by": name, "human": name == "ann"} for name in ("ann", "bob")], 1, 0.5),
        ([{"turn_id": "t0", "conversation_id": f"c{n}", "human": n == 1} for n in range(2)], 2, 0.5),
        ([{"turn_id": "t0", "actual_output": f"good {n}", "human": True} for n in range(2)], 2, 1.0),
        ([{"conversation_id": "c0", "human": True}] * 3, 3, 1.0),
        ([{"given_by": "ann", "human": True}] * 3, 3, 1.0),
    ],
    ids=["two people", "newest of a person", "two monitors", "divided", "three monitors", "turn", "conversations", "changed answer", "no id of a turn", "no id"],
)  # fmt: skip
def test_an_answer_is_one_case_whoever_labelled_it_and_is_judged_once(
    config: Path, tmp_path: Path, rows: list[dict[str, Any]], cases: int, agreement: float
) -> None:
    """Each line was a case: an answer with labels of two people for two monitors counted four times, and was paid so."""
    rows = [OF_ONE_ANSWER | row if "evaluation_id" in row else row for row in rows]
    path, output = write_lines(tmp_path / "labels.jsonl", rows), tmp_path / "made.jsonl"
    arguments = ("--judge", "strong", "--judge", "mini", "--repeat", "1", "--output", str(output), "--json")
    found = orjson.loads(run(config, path, *arguments))
    assert found["cases"] == cases
    assert [each["agreement"]["value"] for each in found["figures"]] == [agreement] * 2
    assert len(output.read_bytes().splitlines()) == 2 * cases


def test_the_lines_of_two_monitors_weigh_as_compare_evaluators_weighs_them(config: Path, tmp_path: Path) -> None:
    """`all` judges each answer, `some` half of the even ones; each had half of what it judged drawn."""
    settings = yaml.safe_load(config.read_text())
    settings["log"] = {"path": str(tmp_path / "evalstream.db")}
    config.write_text(yaml.safe_dump(settings))
    past, rows, output = list[Evaluation](), list[dict[str, Any]](), tmp_path / "made.jsonl"
    for number in range(120):
        subject = Subject(conversation_id=f"c{number}", turn_id=f"t{number}")
        for monitor, share in (("all", 1.0), ("some", 0.5))[: 2 - number % 2]:
            sampling = Sampling(probability=share)
            past.append(bare(len(past), 0.8, monitor=monitor, subject=subject, sampling=sampling))
            rows.append({
                "evaluation_id": past[-1].evaluation_id, "label_probability": 0.5, "weight": 1.0 / share,
                "turn_id": subject.turn_id, "conversation_id": subject.conversation_id,
                "actual_output": f"good {number}", "human": number % 4 > 0, "given_by": "ann",
            })  # fmt: skip
    path = write_lines(tmp_path / "labels.jsonl", rows)
    asyncio.run(_store(config, past))
    arguments = ("--judge", "strong", "--judge", "wild", "--repeat", "1", "--output", str(output), "--json")
    found = orjson.loads(run(config, path, *arguments))
    assert found["cases"] == 120
    labels = labels_of_file(path, past, {"helpful": ScoreScale(0.5)})
    people = {judged.subject.turn_id: labels[key_of(judged)].weighted() for judged in past}
    assert {round(label.weight, 6) for label in people.values()} == {2.0, round(4 / 3, 6)}
    made = [evaluation_from_json(line) for line in output.read_bytes().splitlines()]
    for judge in found["figures"]:
        own = [
            (people[one.subject.turn_id], one.passed) for one in made if one.judge and one.judge.model == judge["judge"]
        ]
        right = sum(label.weight for label, passed in own if passed == (label.human == 1.0))
        assert judge["agreement"]["value"] == pytest.approx(right / sum(label.weight for label, _ in own))


@pytest.mark.parametrize(
    ("monitors", "is_logged", "warns"),
    [
        (("all", "some"), False, True),
        ((None, None), False, True),
        (("all", "some"), True, False),
        (("all", "all"), False, False),
    ],
    ids=["two monitors", "no monitor", "in the log", "one monitor"],
)
def test_lines_of_several_monitors_need_the_log(
    config: Path, tmp_path: Path, *, monitors: tuple[str | None, ...], is_logged: bool, warns: bool
) -> None:
    """Of an answer that both monitors judge, the file has the line of one: the agreement was 0.50 instead of 0.63."""
    config.write_text(config.read_text().replace("kind: memory", f"path: {tmp_path / 'evalstream.db'}"))
    past = [bare(number, 0.8, monitor=monitor or "all") for number, monitor in enumerate(monitors)]
    rows: list[dict[str, Any]] = [
        {"evaluation_id": judged.evaluation_id, "label_probability": 0.5, "weight": 2.0, "human": True}
        | ({"monitor": monitor} if monitor else {})
        for judged, monitor in zip(past, monitors, strict=True)
    ]
    asyncio.run(_store(config, past if is_logged else []))
    path = write_lines(tmp_path / "labels.jsonl", rows)
    arguments = ("-c", str(config), "--file", str(path), "--judge", "strong", "--judge", "mini", "--repeat", "1")
    result = CliRunner().invoke(app, ["compare", "judges", *arguments])
    assert result.exit_code == 0, result.output
    assert ("2 drawn labels of no evaluation in the log of this configuration" in result.stderr) == warns


async def _store(config: Path, past: Sequence[Evaluation]) -> None:
    async with open_logs(load(config).settings.log, page=True) as logs:
        await logs.evaluations.append([Record(b"", evaluation_to_json(each)) for each in past])


def test_a_run_is_taken_up_where_it_ended(config: Path, cases: Path, tmp_path: Path) -> None:
    output = tmp_path / "runs.jsonl"
    arguments = ("--judge", "strong", "--judge", "mini", "--repeat", "1", "--output", str(output), "--json")
    first = run(config, cases, *arguments)
    lines = output.read_bytes().splitlines(keepends=True)
    assert len(lines) == 240
    output.write_bytes(b"".join(lines[:150]))
    again = run(config, cases, *arguments)
    assert len(output.read_bytes().splitlines()) == 240
    without_time = [
        [{k: v for k, v in each.items() if not k.startswith("seconds")} for each in orjson.loads(made)["figures"]]
        for made in (first, again)
    ]
    assert without_time[0] == without_time[1]


@pytest.mark.parametrize(
    ("rows", "arguments", "sentence"),
    [
        ([{"input": "?", "actual_output": "x"}], (), "line 1: not a label (human is a number"),
        ([{"input": "?", "human": True}], (), "has nothing to judge"),
        ([{"input": "?", "actual_output": "x", "human": 7}], (), "human is a number from 0 to 1"),
        (
            [{"input": "?", "actual_output": "x", "human": True}],
            ("--judge", "nobody"),
            "--judge: unknown judge 'nobody'",
        ),
        ([{"input": "?", "actual_output": "x", "human": True}], ("--judge", "mini"), "there is nothing to compare"),
        ([{"input": "?", "actual_output": "x", "human": True}], ("--max-usd", "1"), "the price of judge"),
        ([{"turns": [{"input": "?", "actual_output": "x"}], "human": True}], (), "helpful scores a turn"),
    ],
)
def test_mistakes_are_one_sentence(
    config: Path, tmp_path: Path, rows: list[object], arguments: tuple[str, ...], sentence: str
) -> None:
    path = tmp_path / "wrong.jsonl"
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    result = CliRunner().invoke(app, ["compare", "judges", "-c", str(config), "--file", str(path), *arguments])
    assert result.exit_code != 0
    assert sentence in str(result.exception)
