"""The expected hits of a prompt cache in `evalstream check`: questions about a case that begin with the same text."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from collector.config.configured import Config
from collector.config.packs import packs_of
from collector.config.settings import JudgeSettings, MonitorSettings
from collector.wording import plural
from evaluators.evaluator import Evaluator

_FEWEST = 1024
"""Tokens from which providers cache a prefix, as they say."""


def cache_lines(monitor: MonitorSettings, config: Config) -> Iterator[str]:
    """The expected hits in the caches of a monitor's judges that begin with the subject, or have a price for it."""
    packed = {name for pack in packs_of(monitor, config.evaluators) for name in pack}
    apart = [config.evaluators[use.name] for use in monitor.uses if use.name not in packed]
    for name, judge in config.settings.judges.items():
        if judge.decides or judge.embeds or judge.kind != "openai":
            continue
        if not judge.subject_first and judge.usd_per_million_cached_input_tokens is None:
            continue
        for scope in ("turn", "conversation"):
            asking = [
                configured.evaluator
                for configured in apart
                if configured.evaluator.scope == scope
                and configured.judge
                and name in config.settings.members(configured.judge)
            ]
            if len(asking) > 1:
                yield f"cache of {name}: {_expected(asking, scope, judge)}"


def _expected(asking: Sequence[Evaluator[Any]], scope: str, judge: JudgeSettings) -> str:
    """The evaluators behind the first of those that show the judge the same fields find the text in the cache."""
    hits = sum(count - 1 for count in Counter(evaluator.requires for evaluator in asking).values())
    evaluators = f"{plural(len(asking), 'evaluator')} of a {scope}"
    if not hits:
        return f"{evaluators}: no two show the same fields, so subject_first saves nothing"
    share = f"{hits} find the {scope} there from {_FEWEST:,} tokens on"
    if not judge.subject_first:
        return f"{evaluators} find nothing there: each begins with its instructions. With subject_first {share}"
    price, cached = judge.usd_per_million_input_tokens, judge.usd_per_million_cached_input_tokens
    if cached is None:
        return f"{evaluators}: {share}; without usd_per_million_cached_input_tokens at the price of other input"
    instead = "" if price is None else f" instead of {price:g}"
    return f"{evaluators}: {share}, for {cached:g}{instead} USD per million tokens"
