"""`evalstream align`: a planted clause gains and is written, and what does not gain ends in one sentence."""

from __future__ import annotations

import asyncio
import itertools
import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from click.testing import Result
from evaluation_samples import bare, label, scored
from planted_policy import CLAUSE, RIGHT, USELESS, planted_config, planted_labels
from typer.testing import CliRunner

from collector.cli import app
from collector.commands.align.align import AlignOptions, align
from collector.commands.align.reading import consistent, labelled_cases
from collector.config.loading import load
from collector.logs.log import Record
from collector.records.json import evaluation_to_json, label_to_json, turn_to_json
from collector.service.open_logs import Logs, open_logs
from evaluators.cases import Turn
from evaluators.results import Sampling, Subject

PAGE = Path(__file__).parents[2] / "deploy" / "docs" / "files-and-replay.md"


def run(folder: Path, *arguments: str, status: int = 0) -> Result:
    command = ["align", "--evaluator", "helpful", *arguments, "-c", str(folder / "evalstream.yaml")]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == status, result.output + repr(result.exception)
    return result


def labels_of(folder: Path, **options: Any) -> str:
    return str(planted_labels(folder / "labels.jsonl", **options))


def test_a_planted_clause_is_written_beside_the_old_definition(tmp_path: Path) -> None:
    config = planted_config(tmp_path)
    before = config.read_bytes()
    text = run(tmp_path, labels_of(tmp_path), "--proposer", "strong", "--random").stdout
    assert "Gained. prompt: a clause at the end; why: People fail refunds." in text
    assert "Cost of judges and proposer: 0." in text
    written = tmp_path / "helpful_aligned.yaml"
    assert written.stat().st_mode & 0o077 == 0
    assert config.read_bytes() == before
    remarks = [each for each in written.read_text().splitlines() if each.startswith("#")]
    assert any("Why, in the words of judge strong: People fail refunds." in each for each in remarks)
    assert any(re.search(r"Labels: \d+ to learn from, \d+ held out, drawn at random", each) for each in remarks)
    pasted = yaml.safe_load(before)
    pasted["evaluators"] |= yaml.safe_load(written.read_text())["evaluators"]
    config.write_text(yaml.safe_dump(pasted))
    loaded = load(config)
    assert CLAUSE in loaded.evaluators["helpful_aligned"].evaluator.prompt  # type: ignore[attr-defined]
    assert loaded.evaluators["helpful_aligned"].judge == "main"


def test_figures_as_json(tmp_path: Path) -> None:
    planted_config(tmp_path)
    found = orjson.loads(run(tmp_path, labels_of(tmp_path), "--proposer", "strong", "--random", "--json").stdout)
    assert found["gained"] is True
    assert found["labels"]["held_out_drawn_at_random"] is True
    assert found["labels"]["training"] + found["labels"]["held_out"] == found["labels"]["used"] == 160
    assert [each["changed"] for each in found["candidates"]] == ["prompt: a clause at the end"] * 2
    gain = found["held_out"]["gain"]
    assert 0 < gain["interval"][0] < gain["value"] < gain["interval"][1]
    assert found["held_out"]["before"]["value"] < 0.8 < found["held_out"]["after"]["value"]
    assert CLAUSE in found["definition"]["helpful_aligned"]["prompt"]
    judged = 160 + 2 * found["labels"]["training"] + found["labels"]["held_out"]
    assert found["spent_usd"] == pytest.approx(0.001 * judged + 0.01)


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_nothing_is_gained_by_labels_that_follow_nothing(tmp_path: Path, seed: int) -> None:
    planted_config(tmp_path)
    result = run(tmp_path, labels_of(tmp_path, shuffled=seed), "--proposer", "strong", status=1)
    assert "Nothing was written." in result.stdout
    assert result.stderr.startswith("evalstream: no better helpful: ")
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "helpful_aligned.yaml").exists()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"fault": "nonsense"}, "the proposer strong proposed nothing usable (judge_reply_invalid: no JSON)"),
        ({"fault": "unavailable"}, "nothing usable (judge_timeout: no answer within 30 s)"),
        ({"proposals": ()}, "the proposer strong sees nothing in common in the disagreements"),
        (
            {"proposals": [{"change": "clause"}]},
            "none of the 1 proposal of strong makes a valid new definition",
        ),
        ({"proposals": [USELESS]}, "no candidate agrees with people more than the present definition"),
    ],
    ids=["nonsense", "unavailable", "nothing", "unusable", "useless"],
)
def test_a_proposer_of_no_use_is_one_sentence(tmp_path: Path, options: dict[str, Any], sentence: str) -> None:
    planted_config(tmp_path, **options)
    result = run(tmp_path, labels_of(tmp_path), "--proposer", "strong", status=1)
    assert result.stderr.startswith("evalstream: no better helpful: ")
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_proposer_that_hangs_is_not_waited_for_long(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = load(planted_config(tmp_path, fault="hangs"))
    labels = Path(labels_of(tmp_path))
    options = AlignOptions(evaluator="helpful", labels=labels, proposer="strong", patience=0.05)
    assert align(config, options) == 1
    assert "the proposer strong did not answer within 0.05 s" in capsys.readouterr().err


def test_the_proposer_sees_redacted_texts_and_notes(tmp_path: Path) -> None:
    def personal(row: dict[str, Any]) -> None:
        row["note"] = f"{row['note']} says ann@example.com"
        row["input"] = f"I am bob@example.com. {row['input']}"

    labels = labels_of(tmp_path, change=personal)
    planted_config(tmp_path, fault="wants_no_addresses")
    run(tmp_path, labels, "--proposer", "strong")
    planted_config(tmp_path, fault="wants_no_addresses", redact={"enabled": False})
    (tmp_path / "helpful_aligned.yaml").unlink()
    assert "an address" in run(tmp_path, labels, "--proposer", "strong", status=1).stderr


def test_a_proposer_has_to_write(tmp_path: Path) -> None:
    path = planted_config(tmp_path)
    settings = yaml.safe_load(path.read_text())
    settings["judges"] |= {
        "vectors": {"kind": "embeddings", "model": "m"},
        "luna": {"api": "decisions", "model": "m", "api_key": "k"},
    }
    settings["juries"] = {"panel": {"judges": ["main", "strong"]}}
    settings["evaluators"]["helpful"]["judge"] = "panel"
    path.write_text(yaml.safe_dump(settings))
    labels = labels_of(tmp_path)
    for arguments, name in (((), "panel"), (("--proposer", "vectors"), "vectors"), (("--proposer", "luna"), "luna")):
        result = CliRunner().invoke(app, ["align", "--evaluator", "helpful", labels, *arguments, "-c", str(path)])
        assert f"--proposer: {name} is not a single judge that writes; name one: main, strong" in str(result.exception)
    run(tmp_path, labels, "--proposer", "strong")


def test_the_limit_is_kept_and_leaves_enough_for_the_test(tmp_path: Path) -> None:
    planted_config(tmp_path, proposals=(RIGHT, USELESS, {"change": "clause", "clause": "Be brief."}))
    labels = labels_of(tmp_path)
    for most, status, sentence in (
        ("0.1", 1, "the limit of 0.1 USD was reached before all 160 labels were judged by the present definition"),
        ("0.164", 1, "was reached before the proposer could be asked; raise --max-usd"),
        ("0.2", 1, "was reached before a candidate could be tried"),
        ("0.34", 0, ""),
    ):
        result = run(tmp_path, labels, "--proposer", "strong", "--max-usd", most, "--json", status=status)
        assert sentence in result.stderr
        found = orjson.loads(result.stdout)
        assert found["spent_usd"] <= float(most)
    assert len(found["candidates"]) == 1, "the others would have left nothing for the test"


def test_an_evaluator_that_agrees_is_left_alone(tmp_path: Path) -> None:
    planted_config(tmp_path)

    def agree(row: dict[str, Any]) -> None:
        row["human"] = "polite" in row["actual_output"]

    result = run(tmp_path, labels_of(tmp_path, change=agree), "--proposer", "strong", status=1)
    assert "even a perfect one could not gain for sure; label more" in result.stderr


def test_a_judge_whose_labels_decide_too_little_is_not_said_to_lack_scores(tmp_path: Path) -> None:
    """Each case had a score, and the sentence named no remedy."""
    labels = {"good": {"meaning": "g", "pass": True}, "half": {"meaning": "h", "score": 0.5}}
    helpful = {"kind": "classifier", "question": "Polite?", "labels": labels, "judge": "main"}
    planted_config(tmp_path, evaluators={"helpful": helpful})
    judges = tmp_path / "own" / "obeying.py"
    judges.write_text(judges.read_text().replace('"score": 9 if good else 2', '"label": "good" if good else "half"'))
    said = run(tmp_path, labels_of(tmp_path), "--proposer", "strong", status=1).stderr
    assert re.search(
        r"helpful passes or fails only \d+ of 160 labelled cases: \d+ no_verdict; no_verdict: the judge's label has no pass",
        said,
    )


def test_an_evaluator_of_conversations_may_gain_by_a_rubric(tmp_path: Path) -> None:
    evaluators = {"helpful": {"kind": "conversational_g_eval", "evaluation_steps": ["Is it polite?"], "judge": "main"}}
    rubric = [
        {"lowest": 0, "highest": 4, "outcome": f"{CLAUSE} So does a rude one."},
        {"lowest": 5, "highest": 10, "outcome": "It is polite."},
    ]
    planted_config(tmp_path, evaluators=evaluators, proposals=(USELESS, {"change": "rubric", "rubric": rubric}))
    path = Path(labels_of(tmp_path))
    rows = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    turns = [[{"input": each["input"], "actual_output": each["actual_output"]}] for each in rows]
    lines = [{"turns": each, "human": row["human"]} for each, row in zip(turns, rows, strict=True)]
    path.write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in lines))
    assert "Gained. rubric: 2 levels" in run(tmp_path, str(path), "--proposer", "strong").stdout


def test_contradictions_are_named_and_texts_are_not(tmp_path: Path) -> None:
    planted_config(tmp_path)
    path = Path(labels_of(tmp_path))
    lines = path.read_bytes().splitlines()
    first = orjson.loads(lines[0])
    again = {**first, "turn_id": "again", "conversation_id": "again", "human": not first["human"]}
    path.write_bytes(b"\n".join([*lines, orjson.dumps(again)]))
    text = run(tmp_path, str(path), "--proposer", "strong").stdout
    verdicts = ("line 1", "line 161") if first["human"] else ("line 161", "line 1")
    assert f"Labels of one answer contradict each other: passed by {verdicts[0]}, failed by {verdicts[1]}." in text
    assert text.index("Cost of judges and proposer") < text.index("contradict each other"), "the result comes first"
    assert first["actual_output"] not in text
    found = orjson.loads(run(tmp_path, str(path), "--proposer", "strong", "--json", "-o", f"{tmp_path}/o").stdout)
    assert {"passing": [verdicts[0]], "failing": [verdicts[1]]} in found["contradictions"]
    assert found["labels"]["used"] == found["labels"]["training"] + found["labels"]["held_out"] == 159, (
        "without the tie"
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--proposer", "nobody"), "--proposer: unknown judge 'nobody'"),
        (("--max-usd", "1"), None),
        (("-o", "labels.jsonl"), "labels.jsonl: exists already; name another file with --output"),
    ],
)
def test_mistakes_are_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], sentence: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    planted_config(tmp_path)
    labels = labels_of(tmp_path)
    result = CliRunner().invoke(app, ["align", "--evaluator", "helpful", labels, "--proposer", "strong", *arguments])
    if sentence is None:
        assert result.exit_code == 0, result.output
    else:
        assert sentence in str(result.exception)


def test_what_cannot_be_aligned_is_refused(tmp_path: Path) -> None:
    evaluators = {
        "helpful": {"kind": "faithfulness", "judge": "main"},
        "short": {"kind": "length", "maximum": 9},
        "open": {"kind": "g_eval", "criteria": "?", "evaluation_params": ["input"], "judge": "main", "threshold": None},
    }
    planted_config(tmp_path, evaluators=evaluators)
    labels = labels_of(tmp_path)
    for name, sentence in (
        ("helpful", "has no criteria, rubric or examples of its own"),
        ("short", "short uses no judge"),
        ("open", "open gives no verdict that could agree with people's; write its threshold"),
        ("helpfull", "unknown evaluator 'helpfull'; did you mean 'helpful'?"),
    ):
        result = CliRunner().invoke(
            app, ["align", "--evaluator", name, labels, "-c", str(tmp_path / "evalstream.yaml")]
        )
        assert sentence in str(result.exception)


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ([{"human": 7, "actual_output": "x"}], "line 1: not a label"),
        ([{"human": True, "score": 0.5}], "has no labels of helpful with the judged texts"),
        ([{"human": True, "input": "?", "actual_output": "x"}], "1 label are too few"),
        ([{"human": True, "input": "?"}], "line 1: has nothing to judge"),
        ([{"human": True, "turns": [{"input": "?", "actual_output": "x"}]}], "line 1: helpful scores a turn"),
    ],
    ids=["no_label", "no_texts", "too_few", "no_answer", "another_scope"],
)
def test_labels_that_are_of_no_use(tmp_path: Path, lines: list[object], sentence: str) -> None:
    planted_config(tmp_path)
    path = tmp_path / "wrong.jsonl"
    path.write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in lines))
    result = CliRunner().invoke(
        app, ["align", "--evaluator", "helpful", str(path), "-c", str(tmp_path / "evalstream.yaml")]
    )
    assert sentence in str(result.exception).replace("label is", "label are")


def test_labels_of_the_page_and_lines_that_name_evaluations(tmp_path: Path) -> None:
    """The log has the texts; the page's labels by two people, some of whom contradict each other."""
    config = planted_config(tmp_path, log={"path": str(tmp_path / "evalstream.db")})
    rows = [orjson.loads(line) for line in Path(labels_of(tmp_path)).read_bytes().splitlines()]
    asyncio.run(fill(config, rows))
    found = orjson.loads(run(tmp_path, "--proposer", "strong", "--json").stdout)
    assert found["gained"] is True
    assert found["labels"]["held_out_drawn_at_random"] is True
    assert len(found["contradictions"]) == 1
    assert "by ben" in str(found["contradictions"])
    text = " ".join(run(tmp_path, "--proposer", "strong", "-o", str(tmp_path / "text.yaml")).stdout.split())
    assert re.search(
        r"Labels of one answer contradict each other: evaluation \w+: passed by \w+, failed by \w+\.", text
    )
    path = tmp_path / "ids.jsonl"
    path.write_bytes(
        b"".join(orjson.dumps({"turn_id": each["turn_id"], "human": each["human"]}) + b"\n" for each in rows)
    )
    by_ids = orjson.loads(
        run(tmp_path, str(path), "--proposer", "strong", "--json", "-o", str(tmp_path / "by_ids.yaml")).stdout
    )
    assert by_ids["labels"]["used"] == 160
    # as the page drew, otherwise, and by another evaluator's scores
    for number, (fields, used) in enumerate((({}, 161 + 40), ({"label_probability": 0.3}, 40), (_OF_OTHER, 40))):
        lines = [
            {"label_probability": 0.5, **label, **fields}
            for label in map(orjson.loads, path.read_bytes().splitlines()[:40])
        ]
        drawn = tmp_path / f"{number}.jsonl"
        drawn.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
        command = ["align", "--evaluator", "helpful", str(drawn), "--json", "-c", str(config)]
        both = orjson.loads(CliRunner().invoke(app, [*command, "-o", f"{drawn}.yaml", "--proposer", "strong"]).stdout)
        assert both["labels"]["used"] == used, "calibrate counts the page's labels so, too"


_OF_OTHER = {"evaluation_id": "of another evaluator"}


async def fill(config: Path, rows: list[dict[str, Any]]) -> None:
    async with open_logs(load(config).settings.log, page=True) as logs:
        for number, row in enumerate(rows):
            turn = Turn(**{name: row[name] for name in ("turn_id", "conversation_id", "input", "actual_output")})
            await logs.turns.append([Record(str(row["conversation_id"]).encode(), turn_to_json(turn))])
            subject = Subject(conversation_id=row["conversation_id"], turn_id=row["turn_id"])
            judged = replace(
                scored(number), evaluator="helpful", subject=subject, score=0.9, passed=True, details={},
                sampling=Sampling(),
            )  # fmt: skip
            await logs.evaluations.append([Record(b"", evaluation_to_json(judged))])
            opinion = label(
                evaluation_id=judged.evaluation_id, score=float(row["human"]), label_probability=0.5, given_by="ann"
            )
            opinion = replace(opinion, evaluator="helpful", subject=subject)
            await logs.labels.append([Record(b"", label_to_json(opinion))])
            if number == 0:
                other = replace(opinion, label_id="other", given_by="ben", score=1.0 - float(row["human"]))
                await logs.labels.append([Record(b"", label_to_json(other))])


async def test_an_answer_of_two_monitors_counts_once_as_in_calibrate(tmp_path: Path) -> None:
    """`seldom` judges one of ten, `often` half. Each has answers labelled with probability 0.5: one of both, 0.75."""
    config = load(planted_config(tmp_path, log={"path": str(tmp_path / "evalstream.db")}))
    shares, numbers = {"seldom": 0.1, "often": 0.5}, itertools.count(1)

    async def judge(logs: Logs, name: str, people: Mapping[str, Mapping[str, float]]) -> None:
        turn = Turn(turn_id=name, conversation_id=name, input=f"{name}?", actual_output=f"{name}.")
        await logs.turns.append([Record(name.encode(), turn_to_json(turn))])
        for monitor, share in shares.items():
            number, subject = next(numbers), Subject(conversation_id=name, turn_id=name)
            judged = bare(number, 0.9, monitor=monitor, subject=subject, sampling=Sampling(probability=share))
            await logs.evaluations.append([Record(b"", evaluation_to_json(judged))])
            for person, score in people.get(monitor, {}).items():
                opinion = label(
                    label_id=f"{number} {person}", evaluation_id=judged.evaluation_id, given_by=person, score=score,
                    subject=subject, monitor=monitor, label_probability=0.5, evaluator="helpful", note="",
                )  # fmt: skip
                await logs.labels.append([Record(b"", label_to_json(opinion))])

    async with open_logs(config.settings.log, page=True) as logs:
        await judge(logs, "one", {"seldom": {"ann": 0.0}})
        await judge(logs, "both", {"seldom": {"ann": 1.0}, "often": {"ann": 1.0}})
        await judge(logs, "divided", {"seldom": {"ann": 0.0}, "often": {"ann": 0.0, "bob": 1.0}})
        evaluator = config.evaluators["helpful"].evaluator
        found = await labelled_cases(config, logs, evaluator, None, random=False)
    labels = sorted((each.conversation, each.passes, each.at_random) for each in found.labels)
    assert labels == [("both", True, True), ("divided", False, True), ("divided", True, True), ("one", False, True)]
    assert [each.weight for each in found.labels] == pytest.approx([1 / 0.5 / 0.75] * 4)
    assert len(consistent(found.labels).subjects) == 2, "one person of two is no majority"


def test_the_example_of_the_docs_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines of the page: the command, and the form of a label."""
    monkeypatch.chdir(tmp_path)
    planted_config(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    [line] = [each for each in text.splitlines() if each.startswith("evalstream align ")]
    form = orjson.loads(re.findall(r"^\{\"input\".*\"human\".*\}$", text, re.MULTILINE)[0])
    path = Path(labels_of(tmp_path))
    rows = [orjson.loads(each) for each in path.read_bytes().splitlines()]
    assert form.keys() <= rows[0].keys()
    path.write_bytes(b"".join(orjson.dumps({name: row[name] for name in form}) + b"\n" for row in rows))
    result = CliRunner().invoke(app, shlex.split(line)[1:])
    assert result.exit_code == 0, result.output + repr(result.exception)
    assert (tmp_path / "helpful_aligned.yaml").exists()
