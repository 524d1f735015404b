"""The hits that `check` expects of prompt caches are those of a provider that bills by cached prefix."""

from __future__ import annotations

from typing import Any

from test_judge_settings import NoStore
from test_prompt_cache_bill import CACHED, FRESH, OUTPUT, Provider, chat, provider_server

from collector.commands.check.check import report
from collector.config.configured import Config
from collector.config.loading import check
from collector.judging.open_judges import open_judges
from evaluators.evaluation import evaluate
from evaluators.testing import a_turn

PRICES = {
    "usd_per_million_input_tokens": FRESH,
    "usd_per_million_cached_input_tokens": CACHED,
    "usd_per_million_output_tokens": OUTPUT,
}
G_EVAL = {"kind": "g_eval", "evaluation_steps": ["Look."], "evaluation_params": ["input", "actual_output"]}
USUAL: dict[str, dict[str, Any]] = {
    "helpful": G_EVAL,
    "polite": {**G_EVAL, "evaluation_steps": ["Is it polite?"]},
    "kept": {**G_EVAL, "evaluation_params": ["actual_output"]},
    "brief": {**G_EVAL, "evaluation_steps": ["Is it brief?"]},
    "true": {**G_EVAL, "evaluation_steps": ["Is it true?"], "evaluation_params": ["actual_output", "input"]},
}


def configured(evaluators: dict[str, dict[str, Any]], monitor: dict[str, Any] | None = None, **judge: Any) -> Config:
    values = {
        "judges": {"main": {"model": "m", "subject_first": True, **PRICES, **judge}},
        "evaluators": {name: {"judge": "main", **each} for name, each in evaluators.items()},
        "monitors": {"all": {"evaluators": list(evaluators), **(monitor or {})}},
    }
    return check(values, "here")


def said(config: Config) -> list[str]:
    return [each.strip() for each in report(config) if each.strip().startswith("cache of")]


async def test_the_hits_are_the_providers() -> None:
    plain = chat(Provider(charges_writes=False))

    async def respond(body: dict[str, Any], number: int) -> Any:
        return plain(body, number)

    async with provider_server("chat", respond) as base_url:
        config = configured(USUAL, base_url=base_url)
        async with open_judges(config, NoStore()) as judges:
            turn = a_turn("How do I return it? " * 200, "Send it back within a month. " * 150)
            made = [await evaluate(each.evaluator, turn, judges["main"]) for each in config.evaluators.values()]
    hits = sum(each.usage is not None and (each.usage.cached_input_tokens or 0) > 1000 for each in made)
    [line] = said(config)
    assert f": {hits} find the turn in the cache" in line


def test_check_says_it() -> None:
    [line] = said(configured(USUAL))
    assert line.startswith(
        "cache of main: 5 evaluators of a turn: 3 find the turn in the cache from 1,024 tokens on, for "
    )
    assert line.endswith(f"{CACHED:g} instead of {FRESH:g} USD per million tokens")
    [line] = said(configured(USUAL, subject_first=False))
    assert (
        "find nothing in the cache: each begins with its instructions. With subject_first, 3 find the turn in the cache"
        in line
    )
    [line] = said(configured(USUAL, usd_per_million_cached_input_tokens=None))
    assert line.endswith("; as usd_per_million_cached_input_tokens is not set, costs take the full price")
    [line] = said(configured({"helpful": G_EVAL, "grounded": {"kind": "retrieval_ranking"}}))
    assert line.endswith("no two show the same fields, so subject_first saves nothing")


def test_check_says_nothing_where_nothing_is_expected() -> None:
    assert said(configured(USUAL, subject_first=False, usd_per_million_cached_input_tokens=None)) == []
    assert said(configured(USUAL, {"packs": [list(USUAL)]}, subject_first=False)) == []
