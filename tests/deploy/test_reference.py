"""deploy/CONFIGURATION.md is what the models say, and the models say what every key means."""

from __future__ import annotations

from deploy.reference import PATH, document, undescribed


def test_every_key_says_what_it_means() -> None:
    assert undescribed() == []


def test_the_reference_is_current() -> None:
    assert PATH.read_text(encoding="utf-8") == document(), "run `make reference`"


def test_keys_have_types_units_and_defaults() -> None:
    rows = {tuple(line.split(" | ")[:3]) for line in document().splitlines() if line.startswith("| ")}
    assert ("| **model**", "text", "") in rows
    assert ("| timeout", "duration", "`1m`") in rows
    assert ("| usd_per_hour", "number above 0, US dollars", "–") in rows
    assert ("| open_bytes", "integer from 1,048,576, bytes", "`268435456`") in rows
    assert ("| when_open", "`pause` or `shed`", "`pause`") in rows
