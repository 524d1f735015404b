from __future__ import annotations

from collections import Counter
from pathlib import Path

from collector.commands.score.score import ScoreOptions, ScoreSummary, _problems
from collector.config.loading import check


def test_a_fault_in_an_evaluators_code_has_a_remedy(tmp_path: Path) -> None:
    """The sentence ended with the place of the exception, and advised nothing."""
    values = {"evaluators": {"own": {"kind": "exact_match"}}, "monitors": {"all": {"evaluators": ["own"]}}}
    config = check(values, str(tmp_path / "evalstream.yaml"))
    failed = ScoreSummary(failed=Counter({"internal_error": 2}), problem="KeyError in evaluate, line 7 of own.py")
    [(name, found)] = _problems(config, {"own": failed}, ScoreOptions(paths=()), ())
    assert name == "own"
    assert found["failed"].endswith("line 7 of own.py; mend the evaluator's code: its pytest shows the traceback")
