"""Rates of redaction on invented cases: secrets of many kinds in many languages, and harmless texts that look like them."""

from __future__ import annotations

from collections import Counter

import pytest

from collector.redact.patterns import find
from collector.redact.prefilter import has_no_pii
from collector.redact.redactor import Redactor
from deploy import rates

PERSONAL = rates.read_cases("redaction/personal.json")
HARMLESS = rates.read_cases("redaction/harmless.json")
REDACTOR = Redactor((find,), b"any key")


def test_the_set_is_large_and_varied():
    assert len(PERSONAL) >= 200
    assert len(HARMLESS) >= 120
    assert len({case["language"] for case in PERSONAL}) >= 10
    assert all(case["secret"] in case["text"] for case in PERSONAL)
    assert len({case["text"] for case in PERSONAL + HARMLESS}) == len(PERSONAL + HARMLESS)


def test_at_least_85_percent_is_found():
    missed = [case["text"] for case in PERSONAL if not rates.is_found(case, REDACTOR)]
    assert len(missed) <= 0.15 * len(PERSONAL), missed


@pytest.mark.parametrize("key", ["kind", "language"])
def test_no_kind_and_no_language_is_left_behind(key: str):
    total = Counter(case[key] for case in PERSONAL)
    found = Counter(case[key] for case in PERSONAL if rates.is_found(case, REDACTOR))
    assert [name for name in total if found[name] < 0.7 * total[name]] == []


def test_at_most_5_percent_of_harmless_texts_change():
    changed = [case["text"] for case in HARMLESS if rates.is_changed(case, REDACTOR)]
    assert len(changed) <= 0.05 * len(HARMLESS), changed


@pytest.mark.parametrize("around", ["{}", "é {}\n", "x" * 40 + "\n{}"])
def test_the_prefilter_lets_nothing_through_that_the_patterns_find(around: str):
    for case in PERSONAL + HARMLESS:
        text = around.format(case["text"]) if "{" not in case["text"] else around.replace("{}", case["text"])
        if any(finding.kind for finding in find(text)):
            for nested in (text, rates.json.dumps({"a": text}), rates.json.dumps([rates.json.dumps({"a": text})])):
                assert not has_no_pii(nested), nested
