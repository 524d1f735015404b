"""What `evalstream init` makes of answers."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from collector.commands.init import QUESTIONS, answers_of, configuration
from collector.config.loading import check
from collector.errors import ConfigError

NOT_GIVEN: dict[str, str | None] = dict.fromkeys(QUESTIONS)


def made_of(said: str = "", **given: str) -> Any:
    """The configuration of what is given, and of one answer to every question that is asked."""
    return yaml.safe_load(configuration(answers_of(NOT_GIVEN | given, lambda _question: said)))


def test_nothing_said_stands_for_the_default_that_the_question_shows() -> None:
    asked: list[str] = []
    answers_of(NOT_GIVEN, lambda question: asked.append(question) or "")
    assert len(asked) == len(QUESTIONS)
    assert all(
        each.endswith(f" [{question.default}]") for each, question in zip(asked, QUESTIONS.values(), strict=True)
    )
    written = made_of()
    assert written["judges"]["main"]["model"] == QUESTIONS["judge"].default
    assert ("otlp" in written["export"], written["log"]) == (False, {"path": "evalstream.db"}), (
        "score keeps steps there"
    )
    written["judges"]["main"]["api_key"] = "none"  # it names the environment
    assert check(written, "made.yaml").settings.monitors["everything"].sample == 0.1


def test_what_is_given_is_not_asked() -> None:
    written = made_of(
        said="never asked",
        traces="kafka://broker:9092/otlp_spans",
        judge="it's: a {model}",
        base_url="http://j/v1",
        good="Is it: 'good' # or not?",
        sample="0.25",
        scores="http://collector:4318",
    )
    assert written["judges"]["main"]["model"] == "it's: a {model}"
    assert written["judges"]["main"]["base_url"] == "http://j/v1"
    assert written["evaluators"]["good_answer"]["criteria"] == "Is it: 'good' # or not?"
    assert written["monitors"]["everything"]["sample"] == 0.25
    assert written["receive"]["kafka"] == [{"bootstrap_servers": ["broker:9092"], "traces": ["otlp_spans"]}]
    assert written["export"]["otlp"] == {"endpoint": "http://collector:4318"}


def test_nowhere_for_scores_can_be_given_too() -> None:
    assert "otlp" not in made_of("http", sample="1", scores="")["export"]


@pytest.mark.parametrize("traces", ["ftp", "kafka://broker", "kafka://broker:9092/"])
def test_a_place_that_is_none(traces: str) -> None:
    with pytest.raises(ConfigError, match="write http or kafka://host:port/topic"):
        made_of(traces=traces)


@pytest.mark.parametrize("share", ["lots", "0", "1.1", "-0.1", "nan"])
def test_a_share_that_is_none(share: str) -> None:
    with pytest.raises(ConfigError, match=f"sample: '{share}' is not a share; write a number above 0 and up to 1"):
        made_of(sample=share)
