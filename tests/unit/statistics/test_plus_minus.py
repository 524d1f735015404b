"""Every "±" is the distance to the farther end of a 95 % interval: in texts of commands and alerts, on the page, in rules, dashboards and docs."""

from __future__ import annotations

import re
from pathlib import Path

from collector.statistics.intervals import Z

ROOT = Path(__file__).parents[3]
PLACES = [
    *(path for folder in ("collector", "evaluators", "deploy/dashboards") for path in (ROOT / folder).rglob("*.py")),
    *(ROOT / "collector/page/assets").glob("*.js"),
]
MADE = re.compile(
    r"\(95 %: ± (\{{1,2}error\}{1,2}|\{half:|\$\{Math\.max\(high - mean, mean - low\)|0.009)|half as much after|every \"±\"|behind \"±\"|± 1\.96|shown as ±|where it is symmetric"
)
"""What may stand beside it: a margin of `intervals`, a fact of an alert, which is tested below, or a word about it."""
STANDARD_ERRORS = re.compile(r"\b2(\.0)? \* \{?\w*error|two standard errors to|[-+] ?2 SE\b|1\.96 \*")


def test_a_margin_is_one_of_95_percent() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {line}"
        for path in PLACES
        for line in path.read_text().splitlines()
        if STANDARD_ERRORS.search(line) or ("±" in line and not MADE.search(line))
    ]
    assert not wrong


def test_errors_in_the_texts_of_rules_are_margins() -> None:
    """A fact that is shown after ± is the recorded margin, or an error that is shown 1.96 times as large."""
    for path in (ROOT / "collector/alerting/rules").glob("*.py"):
        text = path.read_text()
        if "± {error}" in text or "± {{error}}" in text:
            assert re.search(r"\"error\"[:,] (Fact\()?(series\.SCORE_MARGIN|.*is_margin=True)", text), path
    assert f"{Z:.2f}" == "1.96"


def test_the_docs_say_it_once() -> None:
    said = [
        path.name
        for path in (ROOT / "deploy/docs").glob("*.md")
        if "± is the distance to its farther end" in path.read_text()
    ]
    assert said == ["alerts.md"]
    for path in (ROOT / "deploy/docs").glob("*.md"):
        assert not STANDARD_ERRORS.search(path.read_text()), path
