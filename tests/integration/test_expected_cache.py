"""What `check` expects of prompt caches is what a provider that bills by cached prefix gives."""

from __future__ import annotations

from typing import Any

import pytest
from test_judge_settings import NoStore
from test_prompt_cache_bill import CACHED, FRESH, OUTPUT, Provider, chat, provider_server

from collector.commands.check.check import report
from collector.commands.check.prompt_cache import LONG_CONVERSATION, LONG_TURN, estimate
from collector.config.configured import Config
from collector.config.loading import check
from collector.judging.open_judges import open_judges
from evaluators.evaluation import evaluate
from evaluators.results import Usage

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


@pytest.mark.parametrize("scope", ["turn", "conversation"])
async def test_it_is_the_bill(scope: str) -> None:
    whole = {"kind": "conversational_g_eval", "evaluation_steps": ["Look."]}
    chosen = USUAL if scope == "turn" else {"whole": whole, "other": {**whole, "evaluation_steps": ["Is it polite?"]}}
    provider = Provider(charges_writes=False)
    plain = chat(provider)

    async def respond(body: dict[str, Any], number: int) -> Any:
        return plain(body, number)

    async with provider_server("chat", respond) as base_url:
        config = configured(chosen, base_url=base_url)
        evaluators = [each.evaluator for each in config.evaluators.values()]
        case = LONG_TURN if scope == "turn" else LONG_CONVERSATION
        async with open_judges(config, NoStore()) as judges:
            made = [await evaluate(each, case, judges["main"]) for each in evaluators]
    usage = sum((each.usage or Usage() for each in made), Usage())
    expected = estimate(evaluators)
    assert expected.questions == len(made) == usage.calls
    assert expected.cached == pytest.approx(usage.cached_input_tokens, rel=0.05)
    assert expected.tokens == pytest.approx(usage.input_tokens, rel=0.05)
    input_alone = provider.usd - len(made) * 30 * OUTPUT / 1e6
    assert expected.usd(config.settings.judges["main"], shared=True) == pytest.approx(input_alone, rel=0.05)


def test_check_says_it() -> None:
    [line] = said(configured(USUAL))
    assert line.startswith("cache of main: 5 questions about a turn of 8,000 characters: 3 find it there, ")
    assert line.endswith(" USD a turn")
    [line] = said(configured(USUAL, subject_first=False))
    assert "find nothing there: each begins with its instructions. With subject_first " in line
    [line] = said(configured(USUAL, usd_per_million_cached_input_tokens=None))
    assert line.endswith("; without usd_per_million_cached_input_tokens it counts at the price of other input")
    [line] = said(configured({"helpful": G_EVAL, "grounded": {"kind": "retrieval_ranking"}}))
    assert line.endswith("no two show the same at length, so subject_first saves nothing")


def test_check_says_nothing_where_nothing_is_expected() -> None:
    assert said(configured(USUAL, subject_first=False, usd_per_million_cached_input_tokens=None)) == []
    assert said(configured(USUAL, {"packs": [list(USUAL)]}, subject_first=False)) == []


async def test_in_an_event_loop_too() -> None:
    assert len(said(configured(USUAL))) == 1
