"""How tests are dealt out to processes: what shares something that takes seconds to start is run by one of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def conftest(pytestconfig: pytest.Config) -> Any:
    return pytestconfig.pluginmanager.get_plugin(str(Path(__file__).parents[1] / "conftest.py"))


@pytest.mark.parametrize(
    ("test", "unit"),
    [
        ("tests/unit/test_words.py::test_nothing_new[names]", "tests/unit/test_words.py"),
        ("tests/deploy/test_chart.py::test_lint", "tests/deploy/test_chart.py"),
        ("tests/prometheus/test_rules.py::test_x[1]", "tests/prometheus/test_rules.py::test_x[1]"),
        ("tests/contract/test_logs.py::test_x[sqlite]", "contract on Kafka"),
        ("tests/integration/test_kafka_log.py::test_x", "integration on Kafka"),
        ("tests/integration/test_kafka_security.py::test_x", "integration on Kafka"),
    ],
)
def test_by_module_and_broker(conftest: Any, test: str, unit: str) -> None:
    assert conftest.ByModule._split_scope(test) == unit


@pytest.mark.parametrize(
    ("test", "unit"),
    [
        ("tests/chaos/test_steps.py::test_x[1]", "tests/chaos/test_steps.py::test_x[1]"),
        ("tests/prometheus/test_rules.py::test_x", "tests/prometheus/test_rules.py::test_x"),
        ("tests/deploy/test_image.py::test_x", "tests/deploy/test_image.py"),
    ],
)
def test_long_ones_by_themselves(conftest: Any, test: str, unit: str) -> None:
    assert conftest.OneByOne._split_scope(test) == unit


@pytest.mark.parametrize(("way", "scheduler"), [("loadfile", "ByModule"), ("loadgroup", "OneByOne")])
def test_ways_that_the_makefile_asks_for(way: str, scheduler: str, conftest: Any) -> None:
    assert f"--dist {way}" in (conftest.ROOT / "Makefile").read_text(encoding="utf-8")
    assert conftest.WAYS[way].__name__ == scheduler


def test_what_waits_comes_first_and_what_works_last(conftest: Any) -> None:
    modules = ["contract/test_evaluators", "unit/test_words", "e2e/test_score", "browser/test_page", "e2e/test_kill"]
    turns = sorted(modules, key=lambda module: conftest._turn(f"tests/{module}.py"))
    assert turns == [
        "e2e/test_kill",
        "browser/test_page",
        "e2e/test_score",
        "unit/test_words",
        "contract/test_evaluators",
    ]


def _texts(value: object) -> Iterator[str | bytes]:
    """A text, or those that a collection holds."""
    if isinstance(value, str | bytes):
        yield value
    elif isinstance(value, dict | list | tuple | set | frozenset):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)


def test_no_module_makes_megabytes_as_it_is_collected(conftest: Any) -> None:
    """Every process collects every module. Attacks of 1.3 GB were made by each, also where their tests did not run."""
    folder = str(conftest.ROOT / "tests")
    modules = [
        each for each in list(sys.modules.values()) if (getattr(each, "__file__", None) or "").startswith(folder)
    ]
    held = {
        (module.__file__, name): sum(map(len, _texts(value)))
        for module in modules
        for name, value in vars(module).items()
        if not name.startswith("__")
    }
    assert {each: size for each, size in held.items() if size > 2 << 20} == {}
