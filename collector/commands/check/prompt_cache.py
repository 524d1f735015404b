"""The expected use of a prompt cache in `evalstream check`: the questions about a made-up case, and their common text.

Evaluators are asked about it in earnest, by a judge that fills in any form, so that nothing has to be declared.
"""

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import takewhile
from typing import Any, NamedTuple

from collector.config.configured import Config
from collector.config.packs import packs_of
from collector.config.settings import JudgeSettings, MonitorSettings
from collector.wording import plural
from evaluators.asking.prompt_isolation import subject_text
from evaluators.cases import Conversation, Message, ToolCall, ToolDefinition, Turn
from evaluators.evaluation import evaluate
from evaluators.evaluator import Evaluator
from evaluators.judge import Prompt
from evaluators.judges.requests import question_with_subject_first, text_of
from evaluators.packs.packed_prompt import PackPrompt
from evaluators.testing import ScriptedJudge, a_conversation, a_turn, answer_any_form

_CHARACTERS = 8000
"""Of the made-up turn, half of them the answer's."""
_TOKEN = 4
"""Characters of a token, about."""
_FEWEST = 1024
"""Tokens from which providers cache a prefix, as they say."""
_MADE_UP = ("How do I return it? ", "Send it back within a month. ")


class CacheEstimate(NamedTuple):
    """Questions about one case, and their tokens: all of them, and those that a cache has from an earlier question."""

    questions: int
    tokens: int
    cached: int
    read_again: int
    """Questions that find a part of theirs in the cache."""

    def usd(self, judge: JudgeSettings, *, shared: bool) -> float | None:
        """The cost of the input by the judge's prices, in US dollars; None without a price."""
        price = judge.usd_per_million_input_tokens
        if price is None:
            return None
        if not shared:
            return self.tokens * price / 1e6
        cached = judge.usd_per_million_cached_input_tokens
        written = judge.cache_write_price
        fresh = self.tokens - self.cached
        return (
            self.cached * (price if cached is None else cached) + fresh * (price if written is None else written)
        ) / 1e6


def cache_lines(monitor: MonitorSettings, config: Config) -> Iterator[str]:
    """The expected savings by the caches of a monitor's judges that begin with the subject, or have a price for it."""
    packed = {name for pack in packs_of(monitor, config.evaluators) for name in pack}
    apart = [config.evaluators[use.name] for use in monitor.uses if use.name not in packed]
    for name, judge in config.settings.judges.items():
        if judge.decides or judge.embeds or judge.kind != "openai":
            continue
        if not judge.subject_first and judge.usd_per_million_cached_input_tokens is None:
            continue
        for scope in ("turn", "conversation"):
            asking = [
                evaluator.evaluator
                for evaluator in apart
                if evaluator.evaluator.scope == scope
                and evaluator.judge
                and name in config.settings.members(evaluator.judge)
            ]
            if len(asking) > 1 or (asking and judge.subject_first):
                yield f"cache of {name}: {_expected(estimate(asking), scope, judge)}"


def estimate(evaluators: Sequence[Evaluator[Any]]) -> CacheEstimate:
    """The text that questions of evaluators of one scope share where their subject comes first, each asked apart."""
    with ThreadPoolExecutor(max_workers=1) as thread:  # the caller may be in an event loop of its own
        prompts = thread.submit(asyncio.run, _questions(evaluators)).result()
    known: dict[str, str] = {}
    tokens = cached = again = 0
    for prompt in prompts:
        text = "".join(text_of(message) for message in question_with_subject_first(prompt, b"", keyed=True).chat)
        first = known.setdefault(subject_text(prompt.material), text)
        same = _common(first, text) // _TOKEN if first is not text else 0
        tokens += len(text) // _TOKEN
        if same >= _FEWEST:
            cached, again = cached + same, again + 1
    return CacheEstimate(len(prompts), tokens, cached, again)


async def _questions(evaluators: Sequence[Evaluator[Any]]) -> list[Prompt]:
    """The questions that show the case; those for a definition are asked once for all cases."""
    judge = ScriptedJudge(answer_any_form())
    for evaluator in evaluators:
        await evaluate(evaluator, LONG_TURN if evaluator.scope == "turn" else LONG_CONVERSATION, judge)
    prompts = [question.prompt for question in judge.questions]
    return [prompt for prompt in prompts if not prompt.constant and not isinstance(prompt, PackPrompt)]


def _expected(expected: CacheEstimate, scope: str, judge: JudgeSettings) -> str:
    questions = f"{plural(expected.questions, 'question')} about a {scope} of {_CHARACTERS:,} characters"
    if not expected.cached:
        return f"{questions}: no two show the same at length, so subject_first saves nothing"
    share = f"{100 * expected.cached / expected.tokens:.0f} % of all input"
    usd, before = (expected.usd(judge, shared=shared) for shared in (True, False))
    money = "" if usd is None or before is None else f"; input for ≈ {usd:.2g} instead of {before:.2g} USD a {scope}"
    if not judge.subject_first:
        return f"{questions} find nothing there: each begins with its instructions. With subject_first {share}{money}"
    if judge.usd_per_million_cached_input_tokens is None:
        money = "; without usd_per_million_cached_input_tokens it counts at the price of other input"
    return f"{questions}: {expected.read_again} find it there, {share}{money}"


def _common(first: str, second: str) -> int:
    """Characters with which both begin."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))


def _long(text: str, size: int) -> str:
    return (text * (size // len(text) + 1))[:size]


LONG_TURN: Turn = replace(
    a_turn(_long(_MADE_UP[0], _CHARACTERS // 2), _long(_MADE_UP[1], _CHARACTERS // 2)),
    expected_output=_MADE_UP[1],
    context=(_MADE_UP[1],),
    retrieval_context=(_MADE_UP[1],),
    system_prompt="You help customers.",
    history=(Message(role="user", content="Hello"),),
    tools_called=(ToolCall(name="look", arguments={"order": 1}, result="sent"),),
    expected_tools=(ToolCall(name="look", arguments={"order": 1}),),
    tools_offered=(ToolDefinition(name="look", description="Looks an order up."),),
)
LONG_CONVERSATION: Conversation = replace(
    a_conversation(*[(_long(_MADE_UP[0], _CHARACTERS // 8), _long(_MADE_UP[1], _CHARACTERS // 8))] * 4),
    chatbot_role="A clerk.",
    scenario="Somebody returns something.",
    expected_outcome="It is returned.",
)
