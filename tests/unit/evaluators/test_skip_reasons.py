"""The reasons of skips: one enumeration has them all, and no module writes one by hand."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from collector.alerting.rules.service import LOST_REASONS
from evaluators.results import MEANINGS, NEVER_TRIED, SkipReason, code_of

ROOT = Path(__file__).parents[3]
MODULES = [path for folder in ("collector", "evaluators", "deploy") for path in (ROOT / folder).rglob("*.py")]
AMBIGUOUS = {SkipReason.INCOMPLETE, SkipReason.SHED, SkipReason.GATED, SkipReason.UNSEEN_MEDIA}
"""Codes that are other things, too: the state of a turn, the setting of a breaker, the key of a detail."""
_KEYWORDS = {"reason", "skip"}


def test_the_strings_of_reasons_are_in_logs_and_metrics_and_stay() -> None:
    assert [str(reason) for reason in SkipReason] == [
        "missing_field",
        "invalid_field",
        "incomplete",
        "application_error",
        "unseen_media",
        "unclear_language",
        "not_completed",
        "gated",
        "shed",
        "over_budget",
        "reference_missing",
    ]
    assert LOST_REASONS == "over_budget|shed|incomplete"
    assert {*SkipReason} >= NEVER_TRIED == {"shed", "over_budget", "reference_missing"}


def test_a_reason_is_a_code_and_its_details() -> None:
    assert SkipReason.SHED.text() == "shed"
    assert SkipReason.MISSING_FIELD.text("plan", "turns.input") == "missing_field: plan, turns.input"
    assert type(SkipReason.SHED.text()) is str
    assert [code_of(text) for text in ("shed", "missing_field: plan", "")] == ["shed", "missing_field", ""]


def test_every_reason_has_a_meaning_in_one_sentence() -> None:
    assert list(MEANINGS) == list(SkipReason)
    assert all(meaning.endswith(".") and ". " not in meaning for meaning in MEANINGS.values())


def test_no_module_writes_a_reason_by_hand() -> None:
    assert [place for path in MODULES for place in _literals(ast.parse(path.read_text()), path)] == []


def test_a_reason_written_by_hand_is_found() -> None:
    texts = (
        "Skipped(reason='no_time')",
        "raise NotApplicable(f'no_{name}')",
        "replace(job, skip='later: ' + why)",
        "if evaluation.reason_code == 'over_budget': pass",
        "why = f'missing_field: {name}'",
    )
    assert [len(list(_literals(ast.parse(text), ROOT / "x.py"))) for text in texts] == [1] * len(texts)


def _literals(module: ast.Module, path: Path) -> Iterator[str]:
    """The places of a module where a reason is a literal: as the reason of a skip, or a code in any place."""
    docstrings = {id(node.value) for node in ast.walk(module) if isinstance(node, ast.Expr)}
    for node in ast.walk(module):
        if isinstance(node, ast.Call):
            values = [keyword.value for keyword in node.keywords if keyword.arg in _KEYWORDS]
            is_skip = isinstance(node.func, ast.Name) and node.func.id in {"Skipped", "NotApplicable"}
            skips = [*node.args, *values] if is_skip else [word.value for word in node.keywords if word.arg == "skip"]
            if any(isinstance(leaf, ast.Constant | ast.JoinedStr) for value in skips for leaf in _leaves(value)):
                yield f"{path.relative_to(ROOT)}:{node.lineno}"
        elif isinstance(node, ast.Constant) and id(node) not in docstrings and _is_code(node.value, path):
            yield f"{path.relative_to(ROOT)}:{node.lineno}"


def _is_code(value: object, path: Path) -> bool:
    if not isinstance(value, str) or path == ROOT / "evaluators" / "results.py":
        return False
    return code_of(value) in {*SkipReason} - AMBIGUOUS


def _leaves(value: ast.expr) -> Iterator[ast.expr]:
    """The parts of a text that is put together by `+` or by `if`; an f-string is one."""
    if isinstance(value, ast.BinOp):
        yield from (*_leaves(value.left), *_leaves(value.right))
    elif isinstance(value, ast.IfExp):
        yield from (*_leaves(value.body), *_leaves(value.orelse))
    else:
        yield value
