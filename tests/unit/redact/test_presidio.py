"""Presidio as a detector, over a stand-in with the interface of its analyser: nothing here loads a language model."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from types import ModuleType

import pytest
from pydantic import SecretStr

from collector.errors import ConfigError
from collector.redact.open_redactor import RedactSettings, open_redactor
from collector.redact.redactor import RedactionFailed


@dataclass
class RecognizerResult:
    """As `presidio_analyzer.RecognizerResult`."""

    entity_type: str
    start: int
    end: int
    score: float


class AnalyzerEngine:
    """As `presidio_analyzer.AnalyzerEngine`: what is found, of at least this score."""

    def analyze(self, text: str, language: str, score_threshold: float | None = None) -> list[RecognizerResult]:
        assert language == "en"
        found = [RecognizerResult("PERSON", *each.span(), 0.85) for each in re.finditer("Ada Lovelace", text)]
        found += [RecognizerResult("LOCATION", *each.span(), 0.3) for each in re.finditer("London", text)]
        found += [RecognizerResult("EMAIL_ADDRESS", *each.span(), 1.0) for each in re.finditer(r"\S+@\S+\w", text)]
        if "broken" in text:
            raise RuntimeError(f"the text was: {text}")
        return [each for each in found if each.score >= (score_threshold or 0.0)]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("presidio_analyzer")
    module.AnalyzerEngine = AnalyzerEngine  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "presidio_analyzer", module)


def redactor(*detectors: str):
    counted: dict[str, int] = {}
    settings = RedactSettings(detectors=detectors, key=SecretStr("a key of some length"))
    return open_redactor(settings, lambda kind, count: counted.update({kind: count}), lambda: None), counted


@pytest.mark.usefixtures("installed")
def test_finds_what_the_patterns_do_not_and_beside_them() -> None:
    both, counted = redactor("patterns", "presidio")
    text = both.text('{"said": "Ada Lovelace lives in London, writes as ada@example.com, calls +49 30 901820"}')
    assert "Ada" not in text
    assert "ada@" not in text
    assert "London" in text, "of a certainty below a half"
    assert "<PERSON_" in text
    assert set(counted) == {"PERSON", "EMAIL", "PHONE"}, "what both find is taken out once"


@pytest.mark.usefixtures("installed")
def test_looks_at_every_text_however_quiet_it_is() -> None:
    alone, _ = redactor("presidio")
    assert alone.text("So Ada Lovelace said, and no more was to be said.").startswith("So <PERSON_")


@pytest.mark.usefixtures("installed")
def test_where_it_fails_nothing_goes_through_and_nothing_has_interval() -> None:
    both, _ = redactor("patterns", "presidio")
    with pytest.raises(RedactionFailed) as raised:
        both.text("Ada Lovelace is broken here")
    assert "Ada" not in str(raised.value)


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "presidio_analyzer", None)
    with pytest.raises(ConfigError, match=r"pip install '\.\[presidio\]'"):
        redactor("presidio")
