"""List prices: of known models at their vendors, where the configuration has none."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest

from collector.config.endpoints import date_of_list, list_prices
from collector.config.settings import JudgeSettings

OPENAI = "https://api.openai.com/v1"


def priced(**values: Any) -> JudgeSettings:
    return JudgeSettings.model_validate({"model": "gpt-4o-mini", **values})


def test_a_known_model_has_its_prices() -> None:
    judge = priced()
    assert judge.prices == (0.15, 0.6)
    assert judge.usd_per_million_cached_input_tokens == 0.075
    assert judge.at_list_prices
    claude = priced(model="claude-sonnet-4-5", api="anthropic")
    assert (claude.prices, claude.cache_write_price) == ((3.0, 15.0), 3.75)


def test_own_prices_win() -> None:
    judge = priced(usd_per_million_input_tokens=1, usd_per_million_output_tokens=2)
    assert (judge.prices, judge.usd_per_million_cached_input_tokens) == ((1.0, 2.0), None)
    assert not judge.at_list_prices
    assert priced(usd_per_million_input_tokens=1).prices is None, "half a price of one's own is not filled up"


@pytest.mark.parametrize(
    ("model", "url"),
    [
        ("gpt-4o-mini", "http://127.0.0.1:8000/v1"),
        ("gpt-4o-mini", "http://vllm:8000/v1"),
        ("gpt-4o-mini", "https://gateway.internal/v1"),
        ("my-deployment", "https://desk.openai.azure.com/openai/v1"),
        ("m", OPENAI),
        ("gpt-4o-mini", "no address"),
    ],
)
def test_another_model_or_place_has_none(model: str, url: str) -> None:
    assert list_prices(model, url) == {}


def test_a_judge_of_ones_own_has_none() -> None:
    assert priced(kind="mine.judges:Judge").prices is None


def test_the_date_of_the_list() -> None:
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", date_of_list())


def test_nothing_is_imported_for_a_local_model() -> None:
    code = (
        "import sys; from collector.config.settings import JudgeSettings;"
        "JudgeSettings(model='m', base_url='http://127.0.0.1:1/v1'); print('genai_prices' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout.strip() == b"False"
