"""A gate for continuous integration: a run, or its comparison with a base case by case, as JUnit XML and Markdown."""

import xml.etree.ElementTree as ET
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from collector.commands.replay.comparison import Comparison, EvaluationPair, compare
from collector.commands.score.output import read_attempts
from collector.commands.score.runner import mixes_steps, written_steps
from collector.errors import ConfigError
from collector.telemetry.plain import in_code, plain
from collector.wording import plural
from evaluators.batch import results_of
from evaluators.evaluator import Evaluator
from evaluators.results import Evaluation

Verdict = Literal["worse", "better", "alike", "unsure", "no pairs", "other version", "other steps", "no base"]
TWO_DEFINITIONS = (
    "to compare two definitions on files, write both into one configuration and run evalstream score FILE "
    "--evaluator OLD --evaluator NEW"
)
_TEXTS = {
    "worse": "worse for sure", "better": "better for sure", "alike": "not worse by more than the tolerance",
    "unsure": "not known: more cases are needed", "no pairs": "no case has a score in both runs",
    "other version": "no verdict, as another version of the evaluator judged the base; judge both by one version; "
    f"{TWO_DEFINITIONS}", "other steps": "no verdict, as the judge wrote other evaluation steps than for the base; "
    "write evaluation_steps in the configuration, or keep the file log.path between runs", "no base": "",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """One evaluator's result; `comparison` is None if no case has a score by one version and its steps in both runs.

    Without a base it has how many scores there are, and their `mean`. `problem` fails the run beside the verdict, and
    so does `failed`, which says which evaluations have no score because they failed.
    """

    evaluator: str
    verdict: Verdict = "no base"
    comparison: Comparison | None = None
    scored: int = 0
    mean: float | None = None
    problem: str = ""
    failed: str = ""

    @property
    def text(self) -> str:
        """The comparison in one line; without a base the mean."""
        if self.verdict == "no base":
            return "no score" if self.mean is None else f"mean {self.mean:.3f} of {plural(self.scored, 'score')}"
        means = "" if self.comparison is None else f"{self.comparison.mean}: "
        return f"{means}{_TEXTS[self.verdict]}"

    @property
    def failure(self) -> str:
        """The reasons for exit status 1; "" without any."""
        return "; ".join(filter(None, (self.shortfall, self.failed)))

    @property
    def shortfall(self) -> str:
        """The reasons that the scores give."""
        return "; ".join(filter(None, (self.problem, self.text if self.verdict == "worse" else "")))


def read_base(path: Path) -> list[Evaluation]:
    """The evaluations of the base run.

    Raises:
        ConfigError: there is no such file, or it is not one of `score --output`.
    """
    if not path.exists():
        raise ConfigError(f"--against: {path}: no such file; make it with evalstream score --output on the base")
    if path.suffix == ".csv":
        raise ConfigError(f"--against: {path}: a CSV file cannot be compared; name JSONL of evalstream score --output")
    return results_of(read_attempts(path, "--against"))


def compare_with_base(
    base: Iterable[Evaluation], new: Iterable[Evaluation], *, tolerance: float, lower_is_better: Collection[str] = ()
) -> list[GateResult]:
    """The verdict on each evaluator of the new run, from the cases that have a score in both runs.

    Pairs are of one evaluator and one subject, by the subject's id or, for turns without one, by their text's hash.
    Worse: the whole interval of the difference is below minus `tolerance`; alike: it is above; else unsure.
    """
    old = {_key(evaluation): evaluation for evaluation in base if evaluation.score is not None}
    by_evaluator: dict[str, list[EvaluationPair]] = {}
    for evaluation in new:
        pairs = by_evaluator.setdefault(evaluation.evaluator, [])
        if evaluation.score is not None and (before := old.get(_key(evaluation))) is not None:
            pairs.append(EvaluationPair(before, evaluation))
    return [
        _result(name, pairs, tolerance, -1.0 if name in lower_is_better else 1.0)
        for name, pairs in sorted(by_evaluator.items())
    ]


def compare_two(
    evaluations: Iterable[Evaluation], old: Evaluator[Any], new: Evaluator[Any]
) -> tuple[Comparison | None, str]:
    """Compare two definitions, in one run, on the subjects that both have scored; with a line that says the result, or
    that they are no two definitions of one evaluator.
    """
    names = f"{old.name} → {new.name}"
    is_alike = (old.kind, tuple(old.label_names)) == (new.kind, tuple(new.label_names))
    if why := opposed(old, new) or ("" if is_alike else "they are of two kinds or scales"):
        return None, f"{names}: not compared, as {why}\n"
    scored = {_key(evaluation): evaluation for evaluation in evaluations if evaluation.score is not None}
    shared = [subject for name, subject in scored if name == new.name and (old.name, subject) in scored]
    both = compare([EvaluationPair(scored[old.name, subject], scored[new.name, subject]) for subject in shared])
    return both, f"{names}, case by case: {both.mean}\n" if both else ""


def opposed(old: Evaluator[Any], new: Evaluator[Any]) -> str:
    """Why the means of two evaluators cannot be compared: lower is better for one of them. "" if they can."""
    before, now = (evaluator.direction.partition("_")[0] for evaluator in (old, new))
    why = f"{now} is better for the new one ({new.name}), but {before} for the old one ({old.name}), so a difference of"
    return "" if before == now else f"{why} means says nothing; evalstream calibrate compares each with people's labels"


def _key(evaluation: Evaluation) -> tuple[str, str]:
    return evaluation.evaluator, evaluation.subject.turn_id or f"conversation {evaluation.subject.conversation_id}"


def _result(name: str, pairs: Sequence[EvaluationPair], tolerance: float, sign: float) -> GateResult:
    of_version = [pair for pair in pairs if pair.old.evaluator_version == pair.new.evaluator_version]
    # steps that a judge wrote from criteria are no part of the version, and each log has its own
    is_mixed = mixes_steps(each for pair in of_version for each in (pair.old, pair.new))
    comparison = compare([
        pair for pair in of_version if not is_mixed or written_steps(pair.old) == written_steps(pair.new)
    ])  # fmt: skip
    without: Verdict = "other steps" if of_version else "other version" if pairs else "no pairs"
    verdict = without if comparison is None else _verdict(comparison, tolerance, sign)
    return GateResult(evaluator=name, verdict=verdict, comparison=comparison)


def _verdict(comparison: Comparison, tolerance: float, sign: float) -> Verdict:
    if (interval := comparison.mean.interval) is None:
        return "unsure"
    low, high = sorted(sign * each for each in interval)
    if high < -tolerance:
        return "worse"
    if low > 0.0:
        return "better"
    return "alike" if low >= -tolerance else "unsure"


def as_markdown(results: Sequence[GateResult]) -> str:
    """A table for a pull request, without the columns that no row fills."""
    rows: list[tuple[str, ...]] = [
        ("evaluator", "cases", "base", "now", "difference", "95 % interval", "verdict"),
        ("---", "---:", "---:", "---:", "---:", "---:", "---"),
    ]
    for result in results:
        name = result.evaluator.replace("|", "\\|")
        alone = ("–", "–" if result.mean is None else f"{result.mean:.3f}", "–", "–")
        cases, cells = (result.scored, alone) if (both := result.comparison) is None else (both.pairs, both.mean.cells)
        reasons = map(in_code, filter(None, (result.problem, result.failed)))
        verdict = "; ".join(filter(None, (*reasons, _TEXTS[result.verdict])))
        rows.append((name, f"{cases}", *cells, f"**{verdict}**" if verdict else "–"))
    filled = [column for column in zip(*rows, strict=True) if {*column[2:]} != {"–"}]
    return "".join(f"| {' | '.join(row)} |\n" for row in zip(*filled, strict=True))


def as_junit(results: Sequence[GateResult]) -> bytes:
    """JUnit XML: a test case for each result. It fails for its scores, is an error if evaluations alone failed, and
    is skipped without a verdict or a score.
    """
    whole = ET.Element("testsuites")
    suite = ET.SubElement(whole, "testsuite", name="evalstream score", tests=str(len(results)))
    for result in results:
        case = ET.SubElement(suite, "testcase", classname="evalstream", name=result.evaluator)
        is_empty = result.comparison is None and result.mean is None
        if result.failed and (is_empty or not result.shortfall):
            ET.SubElement(case, "error", message=plain(result.failure), type="failed")
        elif result.failure:
            kind = "worse" if result.verdict == "worse" else "limit"
            ET.SubElement(case, "failure", message=plain(result.failure), type=kind).text = _examples(result)
        elif result.verdict == "unsure" or is_empty:
            ET.SubElement(case, "skipped", message=result.text)
        else:
            ET.SubElement(case, "system-out").text = result.text
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(len(suite.findall(f"testcase/{tag}"))))
    return ET.tostring(whole, encoding="utf-8", xml_declaration=True) + b"\n"


def _examples(result: GateResult) -> str:
    """The cases that differ most, by their ids: no judged text."""
    pairs = result.comparison.worst if result.comparison is not None else ()
    lines = [f"{pair.new.subject.id}: {pair.old.score:.3f} -> {pair.new.score:.3f}" for pair in pairs]
    return "\n".join(map(plain, lines))
