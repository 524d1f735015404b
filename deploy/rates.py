"""Rates of what redaction and injection detection find, measured on the sets of cases in tests/golden."""

# ruff: noqa: INP001 - scripts beside the pages that they write

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from collector.redact.patterns import find
from collector.redact.redactor import Redactor
from evaluators.attacks.injection_detection import detect

CASES = Path(__file__).parents[1] / "tests" / "golden"
Case = Mapping[str, str]

_PSEUDONYM = re.compile(r"<[A-Z][A-Z0-9_]*_[a-z2-7]{8}>")


def read_cases(name: str) -> list[Case]:
    """The cases of a file in tests/golden."""
    return json.loads((CASES / name).read_text(encoding="utf-8"))


def is_found(case: Case, redactor: Redactor) -> bool:
    """Whether redaction takes out a secret: neither its beginning nor its end is left."""
    left = _PSEUDONYM.sub("\0", redactor.text(case["text"]))
    return case["secret"][:4] not in left and case["secret"][-4:] not in left


def is_changed(case: Case, redactor: Redactor) -> bool:
    """Whether redaction changes a text at all."""
    return redactor.text(case["text"]) != case["text"]


def redaction_table() -> str:
    """What redaction finds by kind and by language, and how many harmless texts it changes."""
    redactor = Redactor((find,), b"any key")
    personal, harmless = read_cases("redaction/personal.json"), read_cases("redaction/harmless.json")
    found = [case for case in personal if is_found(case, redactor)]
    changed = [case for case in harmless if is_changed(case, redactor)]
    rates = (
        f"Found: {_share(len(found), len(personal))}. Harmless texts changed: {_share(len(changed), len(harmless))}."
    )
    return f"{rates} {_exceptions('kind', personal, found)} {_exceptions('language', personal, found)}"


def is_marked(case: Case) -> bool:
    """Whether a text is marked as speaking to its judge."""
    return bool(detect({"actual_output": case["text"]}))


def injection_table() -> str:
    """How many attacks and how many ordinary texts are marked, and in which languages attacks are missed."""
    attacks, clean = read_cases("injection/attacks.json"), read_cases("injection/clean.json")
    rows: list[str] = []
    for name, held_out in (("seen while the words were chosen", False), ("held out", True)):
        counts = [_marked(cases, "held_out", held_out) for cases in (attacks, clean)]
        rows.append(f"| {name} | {counts[0]} | {counts[1]} |")
    table = "\n".join(("| cases | attacks marked | ordinary texts marked |", "|---|---|---|", *rows))
    return f"{table}\n\n{_exceptions('language', attacks, list(filter(is_marked, attacks)))}"


def _marked(cases: Sequence[Case], key: str, value: object) -> str:
    chosen = [case for case in cases if case[key] == value]
    return _share(sum(map(is_marked, chosen)), len(chosen)) if chosen else "none"


def _exceptions(key: str, cases: Sequence[Case], matching: Iterable[Case]) -> str:
    total, counted = Counter(case[key] for case in cases), Counter(case[key] for case in matching)
    missed = (f"{name} ({counted[name]} of {total[name]})" for name in sorted(total) if counted[name] < total[name])
    return f"Of {len(total.keys() - {'-'})} {key}s, some were missed in: {', '.join(missed) or 'none'}."


def _share(count: int, total: int) -> str:
    return f"{count} of {total} ({count / total:.1%})"
