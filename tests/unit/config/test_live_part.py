"""The live part of a configuration: what it has, what it lacks, and what only a start reads."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from collector.config.configured import Config
from collector.config.live_part import (
    AT_START,
    LIVE,
    digest_of,
    live_keys,
    live_values,
    restart_keys,
    start_changes,
    with_live_values,
)
from collector.config.loading import check
from collector.config.settings import Settings
from collector.errors import ConfigError
from collector.plugins.folder import folders
from collector.service.plan_builder import build_unasked_plan
from evaluators.cases import Feedback, Turn

VALUES: dict[str, Any] = {
    "judges": {
        "main": {
            "model": "m",
            "base_url": "https://one.example/v1",
            "api_key": "k3y",
            "headers": {"x-team": "h3ader"},
            "proxy": "http://user:pr0xy@proxy.example:1",
        },
        "own": {"kind": "evaluators.testing:ScriptedJudge", "model": "o", "options": {"token": "t0ken"}},
    },
    "evaluators": {"short": {"kind": "length", "maximum": 9}},
    "monitors": {"all": {"evaluators": ["short"], "sample": 0.5}},
    "alerts": {"webhook": "https://hooks.example/h00k", "max_lag": "5m"},
    "receive": {"otlp_http": {"port": 4318, "auth": {"tokens": ["b3arer-token-of-some-length"]}}},
    "export": {},
}
SECRETS = ("k3y", "h3ader", "pr0xy", "t0ken", "h00k", "b3arer")


def configured(**changes: Any) -> Config:
    return check(VALUES | changes, "test")


def test_without_secrets_it_is_stored() -> None:
    text = str(live_values(configured()))
    assert "maximum" in text
    assert [secret for secret in SECRETS if secret in text] == []


def test_with_its_own_secrets_a_process_has_the_same_configuration() -> None:
    own = configured()
    assert with_live_values(own, live_values(own), "test").settings == own.settings


def test_another_process_has_its_own_secrets() -> None:
    live = live_values(configured(monitors={"all": {"evaluators": ["short"], "sample": 0.1}}))
    judges = VALUES["judges"] | {"main": VALUES["judges"]["main"] | {"api_key": "0ther"}}
    settings = with_live_values(configured(judges=judges), live, "test").settings
    assert settings.monitors["all"].sample == 0.1
    assert settings.judges["main"].api_key.get_secret_value() == "0ther"
    assert settings.alerts.webhook == "https://hooks.example/h00k"


@pytest.mark.parametrize(
    "judges",
    [
        pytest.param({"own": VALUES["judges"]["own"]}, id="unknown"),
        pytest.param(
            VALUES["judges"] | {"main": {**VALUES["judges"]["main"], "base_url": "https://two.example/v1"}},
            id="address",
        ),
    ],
)
def test_a_key_goes_to_no_other_address(judges: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"judges\.main: its key is not known to this process"):
        with_live_values(configured(judges=judges), live_values(configured()), "test")


def test_the_order_of_monitors_counts_and_secrets_do_not() -> None:
    two = {"a": {"evaluators": ["short"]}, "b": {"evaluators": ["short"]}}
    turned = dict(reversed(two.items()))
    assert digest_of(live_values(configured(monitors=two))) != digest_of(live_values(configured(monitors=turned)))
    judges = VALUES["judges"] | {"main": VALUES["judges"]["main"] | {"api_key": "0ther"}}
    assert digest_of(live_values(configured(judges=judges))) == digest_of(live_values(configured()))


@pytest.mark.parametrize(
    ("changes", "differ"),
    [
        ({"assemble": {"idle_timeout": "5s"}}, ["assemble.idle_timeout"]),
        ({"store_text": False, "dead_letters": {"stall_after": "2m"}}, ["dead_letters.stall_after", "store_text"]),
        ({"assemble": {"idle_timeout": "10s"}}, []),
        ({"page": {"port": 8101}, "log": {"retention": "1d"}}, []),
    ],
    ids=["other", "two", "the default, written out", "of a process"],
)
def test_settings_of_a_start_that_all_processes_share_are_known(changes: dict[str, Any], differ: list[str]) -> None:
    before, after = live_values(configured()), live_values(configured(**changes))
    assert start_changes(before, configured(**changes)) == start_changes(after, configured()) == differ
    assert (digest_of(before) == digest_of(after)) == (not differ)
    of_an_earlier_release = {name: value for name, value in before.items() if name != "start"}
    assert start_changes(of_an_earlier_release, configured(**changes)) == []
    assert digest_of(of_an_earlier_release) == digest_of(before), "a release is no new configuration"


@pytest.mark.parametrize(
    ("changes", "restart", "live"),
    [
        ({"log": {"retention": "1d"}}, ["log.retention"], []),
        ({"monitors": {"all": {"evaluators": ["short"], "sample": 0.2}}}, [], ["monitors.all.sample"]),
        ({"alerts": {"watcher": {"interval": "30s"}}}, ["alerts.watcher"], ["alerts.max_lag", "alerts.webhook"]),
        ({"receive": {**VALUES["receive"], "trust_tracestate": "always"}}, [], ["receive.trust_tracestate"]),
        ({"page": {"port": 8101}}, ["page"], []),
    ],
    ids=["log", "monitor", "watcher", "trust", "page"],
)
def test_what_changed(changes: dict[str, Any], restart: list[str], live: list[str]) -> None:
    before, after = configured().settings, configured(**changes).settings
    assert (restart_keys(before, after), live_keys(before, after)) == (restart, live)


def test_the_sections_are_those_of_the_settings() -> None:
    fields: dict[str, Any] = Settings.model_fields
    assert set(LIVE) <= set(fields)
    page = (Path(__file__).parents[3] / "deploy/docs/upgrade-and-backup.md").read_text(encoding="utf-8")
    (row,) = [line for line in page.splitlines() if line.startswith("| `judges`, `juries`")]
    live, at_a_start = row.strip("| ").split("|")
    assert {name for name in LIVE if f"`{name}`" in live} == set(LIVE)
    assert {name for name in set(fields) - set(LIVE) if f"`{name}`" not in at_a_start} == {"plugins"}, "in words there"
    (shared,) = [line for line in page.splitlines() if line.startswith("**Shared keys** are `assemble`")]
    assert [name for name in AT_START if f"`{name}`" not in shared] == ["plugins"], "in words there"


def test_feedback_is_as_bad_on_replay_as_when_the_turn_was_drawn() -> None:
    """The scales decide a boost, and so a draw: after a restart with others, those of the draw's time count."""
    boosted = {"all": {"evaluators": ["short"], "sample": 0.2, "boost": {"negative_feedback": 3}}}
    then = configured(monitors=boosted, feedback={"names": {"stars": {"scale": [1, 5]}}})
    now = configured(monitors=boosted, feedback={"names": {"stars": {"scale": [0, 1]}}})
    live = orjson.loads(orjson.dumps(live_values(then)))
    plans = {
        "then": build_unasked_plan(with_live_values(now, live, "configuration 1", answering=False), "key"),
        "now": build_unasked_plan(now, "key"),
    }
    one_star = Turn(turn_id="t", feedback=(Feedback(name="stars", value=1),))
    strata = {name: plan.monitors[0].strata.of(one_star, {})[1] for name, plan in plans.items()}
    assert strata == {"then": "negative_feedback", "now": "all"}


def test_plug_ins_are_found_beside_the_file_whatever_the_source_is_called(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    own = check(VALUES | {"plugins": "mine"}, str(tmp_path / "evalstream.yaml"))
    try:
        first = with_live_values(own, live_values(own), "configuration 2")
        second = with_live_values(first, live_values(own), "configuration 3", answering=False)
        assert first.settings == own.settings
        assert second.settings.plugins == "mine"
        elsewhere = check(VALUES | {"plugins": str(tmp_path / "mine")}, str(tmp_path / "evalstream.yaml"))
        assert start_changes(live_values(own), elsewhere) == [], "the same plug-ins, however their folder is written"
    finally:
        for each in folders():
            sys.meta_path.remove(each)
            del sys.modules[each.package]
