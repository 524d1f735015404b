"""`evalstream calibrate` on recorded scores of a real judge with labels of people; the figures are scipy's."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from command import evalstream

RECORDED = Path(__file__).parents[1] / "golden" / "judge_answers" / "agent_bc038.jsonl.gz"
CONFIG = """\
log: {kind: memory}
judges: {main: {model: m}}
evaluators: {helpful: {kind: g_eval, criteria: "Is it right?", evaluation_params: [actual_output], threshold: 0.5}}
monitors: {all: {evaluators: [helpful]}}
"""


def labels(folder: Path) -> list[tuple[float, float]]:
    with gzip.open(RECORDED, "rt") as file:
        rows = [json.loads(line) for line in file]
    pairs = [(row["judgements"]["deepeval"][0]["raw_score"], float(row["case"]["label"] != "wrong")) for row in rows]
    lines = [
        json.dumps({"human": bool(human), "score": judge, "segment": row["case"]["origin"]})
        for (judge, human), row in zip(pairs, rows, strict=True)
    ]
    (folder / "labels.jsonl").write_text("\n".join(lines))
    (folder / "evalstream.yaml").write_text(CONFIG)
    return pairs


def calibrate(folder: Path, *arguments: str) -> CompletedProcess[str]:
    return evalstream("calibrate", *arguments, folder=folder)


def test_figures_equal_scipys(tmp_path: Path) -> None:
    from scipy import stats

    pairs = labels(tmp_path)
    done = calibrate(tmp_path, "labels.jsonl", "--evaluator", "helpful", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    whole = json.loads(done.stdout)["segments"][0]
    judge, human = zip(*pairs, strict=True)
    assert whole["labels"] == 70
    assert whole["spearman"]["value"] == pytest.approx(stats.spearmanr(judge, human).statistic)
    assert whole["kendall_tau_b"]["value"] == pytest.approx(stats.kendalltau(judge, human).statistic)
    low, high = whole["spearman"]["interval"]
    assert low < whole["spearman"]["value"] < high
    assert whole["specificity"]["value"] == pytest.approx(27 / 35)


def test_a_table_for_people(tmp_path: Path) -> None:
    labels(tmp_path)
    done = calibrate(tmp_path, "labels.jsonl", "--evaluator", "helpful")
    assert done.returncode == 0
    assert "krippendorff alpha" in done.stdout
    assert "below 200 the intervals are too narrow" in done.stdout


@pytest.mark.parametrize("log", ["{kind: memory}", "{kind: sqlite, path: logs}"])
def test_lines_that_nobody_has_labelled_yet_are_said_once(tmp_path: Path, log: str) -> None:
    labels(tmp_path)
    config, path = tmp_path / "evalstream.yaml", tmp_path / "labels.jsonl"
    config.write_text(config.read_text().replace("{kind: memory}", log))
    path.write_text(path.read_text() + '\n{"human": null, "score": 0.7}\n\n{"human": null, "turn_id": "t"}\n')
    done = calibrate(tmp_path, "labels.jsonl", "--evaluator", "helpful")
    assert done.returncode == 0, done.stderr
    assert done.stderr == "evalstream: labels.jsonl: left out 2 lines not labelled yet, whose human is null\n"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{nonsense", "labels.jsonl: line 1: not a label"),
        ('{"human": 7, "score": 0.5}', "labels.jsonl: line 1: not a label"),
        ('[{"human": true, "score": 0.5}]', "labels.jsonl: line 1: not a label (a line is one JSON object"),
        ('{"human": true, "score": NaN}', "labels.jsonl: line 1: not a label (a line is one JSON object, without NaN)"),
        (
            '{"human": null, "score": 0.7}',
            "labels.jsonl: no line is labelled: human is a number from 0 to 1, true or false, pass or fail; fill it in",
        ),
        ('{"human": true, "turn_id": "t"}', "labels.jsonl: no judge's score is known for its 1 label"),
    ],
)
def test_labels_that_are_none(line: str, said: str, tmp_path: Path) -> None:
    labels(tmp_path)
    (tmp_path / "labels.jsonl").write_text(line)
    done = calibrate(tmp_path, "labels.jsonl", "--evaluator", "helpful")
    assert done.returncode == 2
    assert done.stderr.startswith(f"evalstream: {said}")
    assert done.stderr.count("\n") == 1


def test_without_a_file_and_without_labels_on_the_page_it_says_so(tmp_path: Path) -> None:
    labels(tmp_path)
    done = calibrate(tmp_path, "--evaluator", "helpful")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "evalstream: log.kind is memory, so labels of the page end with the service; name a file of labels\n"
    )


def test_own_cases_are_scored_and_labelled_in_the_lines_of_score(tmp_path: Path) -> None:
    """Own gold cases needed three forms of file, and lines of another evaluator about a turn counted for this one."""
    (tmp_path / "evalstream.yaml").write_text(
        "log: {kind: memory}\nevaluators:\n  short: {kind: length, maximum: 9, threshold: 0.5}\n"
        "  long: {kind: length, minimum: 10, threshold: 0.5}\nmonitors: {all: {evaluators: [short, long]}}\n"
    )
    cases = [{"input": "?", "actual_output": "!" * (5 + n % 2 * 9), "conversation_id": f"c{n // 2}"} for n in range(40)]
    (tmp_path / "cases.jsonl").write_text("\n".join(map(json.dumps, cases)))
    assert evalstream("score", "cases.jsonl", "--output", "scores.jsonl", folder=tmp_path).returncode == 0
    lines = [json.loads(line) for line in (tmp_path / "scores.jsonl").read_text().splitlines()]
    assert len(lines) == 80
    short = [{**line, "human": line["score"] >= 0.5 if line["evaluator"] == "short" else False} for line in lines]
    (tmp_path / "labels.jsonl").write_text("\n".join(map(json.dumps, short)))
    done = calibrate(tmp_path, "labels.jsonl", "--evaluator", "short", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    (whole,) = json.loads(done.stdout)["segments"]
    assert (whole["labels"], whole["equal_verdicts"]["value"]) == (40, 1.0)
    by_itself = [{**line, "subject": None} for line in short]
    (tmp_path / "labels.jsonl").write_text("\n".join(map(json.dumps, by_itself)))
    again = json.loads(calibrate(tmp_path, "labels.jsonl", "--evaluator", "short", "--json").stdout)["segments"][0]
    assert whole["equal_verdicts"]["interval"][0] < again["equal_verdicts"]["interval"][0], "20 conversations, not 40"
