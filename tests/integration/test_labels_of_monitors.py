"""Labels of answers that several monitors score by one evaluator: whose answers they are, and whose mean they correct."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
import yaml
from click.testing import Result
from evaluation_samples import scored
from typer.testing import CliRunner

from collector.calibration.label_lines import label_lines
from collector.calibration.labels import evaluations_by_id, label_of_line
from collector.cli import app
from collector.config.loading import load
from collector.logs.log import Record
from collector.records.json import evaluation_to_json
from collector.service.open_logs import open_logs
from evaluators.results import Evaluation, Sampling, Subject

NUMBER, OF_CHAT, LABELLED = 150, 100, 70
SHARES = {"chat": (0.4, 0.8), "everything": (0.7, 0.7)}


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "evalstream.yaml"
    evaluators = {"short": {"kind": "length", "unit": "characters", "maximum": 100, "threshold": 0.5}}
    monitors = {name: {"evaluators": ["short"]} for name in SHARES}
    log = {"path": str(tmp_path / "evalstream.db")}
    path.write_text(yaml.safe_dump({"log": log, "evaluators": evaluators, "monitors": monitors}))
    return path


@pytest.fixture
def lines(config: Path, tmp_path: Path) -> list[dict[str, Any]]:
    """The output of `score` on all answers. `everything` has scored all of them, `chat` the first ones."""
    lengths = np.random.default_rng(7).integers(60, 240, NUMBER)
    cases, output = tmp_path / "cases.jsonl", tmp_path / "scores.jsonl"
    turns = [{"id": f"t{n}", "input": "?", "actual_output": "x" * int(length)} for n, length in enumerate(lengths)]
    cases.write_bytes(b"".join(orjson.dumps(turn) + b"\n" for turn in turns))
    result = invoke("score", str(cases), "-c", str(config), "--evaluator", "short", "--output", str(output))
    assert result.exit_code in {0, 1}, result.output
    made = [orjson.loads(line) for line in output.read_bytes().splitlines()]
    made.sort(key=lambda line: int(line["subject"]["turn_id"][1:]))
    assert len(made) == NUMBER
    asyncio.run(write(config, [record for n, line in enumerate(made) for record in logged(n, line)]))
    return made


def logged(number: int, line: dict[str, Any]) -> list[Evaluation]:
    """The service's evaluations of an answer; that of the first monitor has the id that `score` makes, too."""
    ids = {"everything": line["evaluation_id"]} | ({"chat": f"{number:032x}"} if number < OF_CHAT else {})
    return [
        replace(
            scored(number), evaluation_id=name, evaluator="short", evaluator_version=line["evaluator_version"],
            monitor=monitor, subject=Subject(conversation_id=f"c{number}", turn_id=f"t{number}"), score=line["score"],
            passed=line["passed"], details={}, sampling=Sampling(probability=SHARES[monitor][number % 2]),
        )
        for monitor, name in ids.items()
    ]  # fmt: skip


async def write(config: Path, evaluations: list[Evaluation]) -> None:
    async with open_logs(load(config).settings.log, page=True) as logs:
        await logs.evaluations.append([Record(b"", evaluation_to_json(one)) for one in evaluations])


def human(number: int, line: dict[str, Any]) -> bool:
    """People are stricter than the evaluator, and sometimes of another opinion."""
    return line["score"] > 0.7 if number % 7 else line["score"] <= 0.7


def labelled(path: Path, lines: list[dict[str, Any]], **changes: Any) -> Path:
    file = path.with_name("labels.jsonl")
    rows = [line | {"human": human(number, line)} | changes for number, line in enumerate(lines)]
    file.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return file


def calibrated(config: Path, file: Path, *options: str) -> dict[str, Any]:
    result = invoke("calibrate", str(file), "-c", str(config), "--evaluator", "short", "--json", *options)
    assert result.exit_code == 0, (result.output, result.exception)
    return orjson.loads(result.stdout)


def by_formula(lines: list[dict[str, Any]], drawn: int) -> tuple[float, float, float]:
    """The mean of `chat`, its mean by people and the error, by the formula of page.md; the first ones are labelled."""
    x_of = np.array([line["score"] for line in lines[:OF_CHAT]])
    y_of = np.array([float(human(number, line)) for number, line in enumerate(lines[:OF_CHAT])])
    w = np.array([1 / SHARES["chat"][number % 2] for number in range(OF_CHAT)])
    a = np.where(np.arange(OF_CHAT) < drawn, w, 0.0)
    ax, ay, wx, v, vx = a * x_of, a * y_of, w * x_of, a, a * x_of
    A, W = a.sum(), w.sum()
    x, y, z = ax.sum() / A, ay.sum() / A, wx.sum() / W
    f = 1 / (1 - np.minimum(0.5, a / A))
    p, q, r, s = f * (ay - y * a) / A, f * (ax - x * a) / A, (wx - z * w) / W, f * (vx - z * v) / W
    n = A**2 / ((f * a) ** 2).sum()
    power = (p * q - p * s).sum() / (q * q - 2 * q * s + r * r).sum()
    mean = y - power * (x - z) + ((p - power * q) * f * a).sum() / A
    least = 1.5 * (p * p).sum() / (n * y * (1 - y))
    error = np.sqrt(max((p * p - power * (p * q - p * s)).sum() * n / (n - 2), least) + 0.0001 / n)
    return float(z), float(mean), float(error)


def test_labels_of_scores_made_by_a_command_correct_the_mean_of_the_monitor_that_is_named(
    config: Path, lines: list[dict[str, Any]]
) -> None:
    """By an equal `evaluation_id`, labels drawn from `chat` corrected the mean of `everything`, and `chat` had none."""
    found = calibrated(config, labelled(config, lines[:LABELLED]), "--random", "--monitor", "chat")
    raw, mean, error = by_formula(lines, LABELLED)
    assert found["raw_mean"] == pytest.approx(raw)
    assert found["corrected_mean"]["mean"] == pytest.approx(mean)
    assert found["corrected_mean"]["error"] == pytest.approx(error)
    assert found["segments"][0]["labels"] == LABELLED
    assert not [note for note in found["notes"] if "other versions" in note or "Not used" in note]


def test_a_random_draw_from_one_of_several_monitors_has_to_name_it(config: Path, lines: list[dict[str, Any]]) -> None:
    file = labelled(config, lines[:LABELLED])
    refused = invoke("calibrate", str(file), "-c", str(config), "--evaluator", "short", "--random")
    assert "--monitor which of chat and everything" in str(refused.exception), refused.output
    unknown = invoke("calibrate", str(file), "-c", str(config), "--evaluator", "short", "--monitor", "chatt")
    assert "did you mean" in str(unknown.exception), unknown.output
    outside = labelled(config, lines[OF_CHAT:])
    assert calibrated(config, outside, "--random")["segments"][0]["labels"] == NUMBER - OF_CHAT, "of one monitor alone"
    none = invoke("calibrate", str(outside), "-c", str(config), "--evaluator", "short", "--monitor", "chat")
    assert "no label is of an answer that chat scored" in str(none.exception), none.output


def test_lines_of_an_earlier_version_are_labels_of_the_monitor_that_they_name(
    config: Path, lines: list[dict[str, Any]]
) -> None:
    """After `rejudge`, lines of `labels next` name evaluations that this version did not make."""
    named = [{"turn_id": line["subject"]["turn_id"], "score": line["score"]} for line in lines[:LABELLED]]
    earlier = {"label_probability": 1.0, "evaluation_id": "of-an-earlier-version", "monitor": "chat"}
    found = calibrated(config, labelled(config, named, **earlier))
    raw, mean, error = by_formula(lines, LABELLED)
    chat = found["monitors"]["chat"]
    assert (chat["raw_mean"], chat["withheld"]) == (pytest.approx(raw), "")
    assert (chat["corrected_mean"]["mean"], chat["corrected_mean"]["error"]) == pytest.approx((mean, error))
    assert found["monitors"]["everything"]["withheld"] == "few"


def test_two_people_who_name_an_answer_in_two_ways_label_it_once(config: Path, lines: list[dict[str, Any]]) -> None:
    """One labelled the present evaluation, one an earlier version's: in the mean of a monitor the answer counted twice."""
    ids = [{"evaluation_id": f"{number:032x}"} for number in range(LABELLED)]
    named = [{"turn_id": line["subject"]["turn_id"], "score": line["score"]} for line in lines[:LABELLED]]
    drawn = {"label_probability": 1.0, "monitor": "chat"}
    file, found = config.with_name("labels.jsonl"), list[Any]()
    for second in (ids, [{"evaluation_id": "of-an-earlier-version"}] * LABELLED):
        by_person = [
            [
                row | of | drawn | {"given_by": name, "human": human(n, row)}
                for n, (row, of) in enumerate(zip(named, own, strict=True))
            ]
            for name, own in (("a", ids), ("b", second))
        ]
        file.write_bytes(b"".join(orjson.dumps(row) + b"\n" for rows in by_person for row in rows))
        mean = calibrated(config, file)["monitors"]["chat"]["corrected_mean"]
        found.append((mean["mean"], mean["error"], mean["number"]))
    assert found[1] == pytest.approx(found[0])


@pytest.mark.parametrize("monitor", ["score", "judges", "align", "library"])
def test_align_and_compare_ignore_the_id_of_an_evaluation_that_a_command_made(
    monitor: str, config: Path, lines: list[dict[str, Any]]
) -> None:
    """The label counts for the monitor that judges most, as without an id, and is of no other version."""
    past = [one for number, line in enumerate(lines) for one in logged(number, line)]
    of_commands = label_lines(labelled(config, lines[:2], monitor=monitor), "")
    known = evaluations_by_id(past)
    found = [label_of_line(line, known, lower_is_better=False) for line in of_commands]
    assert [(label.name, label.other_id) for label in found] == [
        (lines[0]["evaluation_id"], ""),  # 0.4 in chat
        (f"{1:032x}", ""),  # 0.8 in chat
    ]
    earlier = label_lines(labelled(config, lines[:2], monitor="chat", evaluation_id="earlier"), "")
    found = [label_of_line(line, known, lower_is_better=False) for line in earlier]
    assert [(label.name, label.other_id) for label in found] == [(f"{n:032x}", "earlier") for n in range(2)]
