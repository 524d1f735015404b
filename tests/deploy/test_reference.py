"""The generated pages and tables are current, and every configuration key is described."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from collector.telemetry import series
from deploy.configuration_page import FIRST, advanced, document, undescribed
from deploy.reference import DOCS, pages, write


def test_every_key_says_what_it_means() -> None:
    assert undescribed() == []


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_generated_pages_are_current(page: Path) -> None:
    """In CI an outdated page fails; on a developer's machine it is written and can be committed with its cause."""
    text = pages()[page]()
    if not os.environ.get("CI"):
        write(page, text)
    assert page.read_text(encoding="utf-8") == text, "run `make reference`"


def test_keys_have_types_and_defaults() -> None:
    lines = (document() + advanced()).splitlines()
    assert any(line.startswith("- `tolerance` (number >0 ≤1; `0.2`): ") for line in lines)
    rows = {tuple(line.split(" | ")[:3]) for line in lines if line.startswith("| ")}
    assert ("| **model**", "text", "") in rows
    assert ("| timeout", "duration", "`1m`") in rows
    assert "- `usd_per_hour` (number >0): The cost per hour at which sample rates aim." in lines
    assert ("| max_open_bytes", "integer ≥1,048,576", "`268435456`") in rows
    assert any(line.startswith("- `when_open` (`pause`, `shed`; `pause`): ") for line in lines)


def test_the_first_page_has_a_hundred_keys_that_exist() -> None:
    named = sorted(key for keys in FIRST.values() for key in keys.split())
    again = re.findall(r"`(\w+)`", "".join(re.findall(r"As in `[^`]+`:([^.]*)", document())))
    shown = re.findall(r"^(?:\| \**(?=\w+\** \| (?!type))|- [*`]+(?=\w+[*`]+ \())(\w+)", document(), re.MULTILINE)
    assert sorted([*again, *shown]) == named
    assert len(named) <= 100


@pytest.mark.parametrize("page", [*DOCS.glob("*.md"), *DOCS.parent.glob("runbooks/*.md")], ids=lambda page: page.stem)
def test_pages_name_only_series_that_exist(page: Path) -> None:
    named = re.findall(
        r"\b(?:evalstream|gen_ai_evaluation)_[a-z0-9_]*[a-z0-9]\b(?![:{])", page.read_text(encoding="utf-8")
    )
    declared = {each.name for each in series.all_series()}
    stems = {re.sub(r"_(bucket|count|sum)$", "", name) for name in named} - declared
    assert stems == set()
