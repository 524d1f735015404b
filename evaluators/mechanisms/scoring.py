"""A judge's number on a scale, and the score made of it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from evaluators.answers.expected_score import MIN_SCALE_MASS, score_distribution
from evaluators.cases import Json
from evaluators.errors import MethodUnavailable
from evaluators.judge import Answer, Judge, Prompt
from evaluators.questions import Decision
from evaluators.results import Score
from evaluators.scale import AnyRating, ReasonPlace, Scale, reason_in

Mode = Literal["auto", "logprobs", "samples", "single"]
"""How a number is made of a judge's answer.

`logprobs`: weighted by the judge's probabilities, a failure where it gives none. `samples`: the mean of several
answers. `single`: one answer as it stands. `auto`: by token probabilities where the judge gives them; else by samples
if their number is configured; else one answer. The score's `method` says which it was.
"""

SAMPLES = 5
"""Answers that `samples` asks for unless configured: a strong judge gains little from more."""

_SAMPLING_TEMPERATURE = 1.0


async def ask_score(
    judge: Judge,
    prompt: Prompt,
    scale: Scale,
    *,
    mode: Mode = "auto",
    n_samples: int | None = None,
    reason: ReasonPlace = "before",
) -> Score:
    """Ask for a number on the scale.

    The score's `value` is on 0..1; its `raw_score` the number as written (the mean of the numbers, for samples). If the
    judge weighed several numbers or gave several answers, `details.uncertainty` is their standard deviation on 0..1.

    Raises:
        JudgeError: there is no usable answer.
        MethodUnavailable: `mode` is `logprobs` and there are no token probabilities to trust.
    """
    if mode == "samples":
        return await _sampled(judge, prompt, scale, n_samples or SAMPLES, reason)
    answer = (await judge.ask(prompt, scale.reply_with(reason), logprobs=mode != "single")).answers[0]
    if answer.decisions:
        return _decided(answer.decisions[0], scale)
    weighted = None if mode == "single" else _weighted(answer, scale)
    if weighted is not None and weighted.method == "logprobs":
        return weighted
    if mode == "logprobs":
        raise MethodUnavailable("the judge gave no token probabilities for the score that can be trusted")
    # Samples only where their number is configured: they multiply the price, which a default must not do.
    if mode == "auto" and n_samples is not None and n_samples > 1:
        return await _sampled(judge, prompt, scale, n_samples - 1, reason, [answer])
    return weighted or _single(answer, scale)


def weighed_mean(answer: Answer[Any], scale: Scale, field: str) -> float | None:
    """The mean that the judge's token probabilities give one field of an answer; None where they cannot be trusted."""
    weighed = score_distribution(answer.text, answer.tokens, scale, field)
    if weighed is None or weighed.kept_mass < MIN_SCALE_MASS or weighed.leaves_out_decades(scale):
        return None
    return weighed.moments[0]


def _decided(decision: Decision, scale: Scale) -> Score:
    """The score by the probabilities of a decision model, in any mode: samples would estimate the same."""
    mean = decision.mean()
    return Score(
        value=scale.normalize(mean),
        method="decision",
        raw_score=float(decision.choice),
        range=scale.bounds,
        kept_mass=decision.kept_mass,
        details={
            "expected": mean,
            "masses": dict(decision.probabilities),
            "uncertainty": decision.deviation() / scale.length,
        },
    )


def _single(
    answer: Answer[AnyRating],
    scale: Scale,
    kept_mass: float | None = None,
    details: Mapping[str, Json] | None = None,
    mean: float | None = None,
) -> Score:
    """The score by the number alone, or by a `mean` of token probabilities."""
    number = answer.reply.score
    return Score(
        value=scale.normalize(number if mean is None else mean),
        explanation=reason_in(answer.reply),
        method="single" if mean is None else "logprobs",
        raw_score=float(number),
        range=scale.bounds,
        kept_mass=kept_mass,
        details=details or {},
    )


def _weighted(answer: Answer[AnyRating], scale: Scale) -> Score | None:
    """The score by token probabilities; by the number alone if too little probability lay on the scale; None without
    probabilities.
    """
    weighed = score_distribution(answer.text, answer.tokens, scale)
    if weighed is None:
        return None
    kept_mass = weighed.kept_mass
    if kept_mass < MIN_SCALE_MASS:
        return _single(answer, scale, kept_mass, {"fallback": "kept_mass_below_floor"})
    if weighed.leaves_out_decades(scale):
        return _single(answer, scale, kept_mass, {"fallback": "digit_by_digit"})
    masses: dict[str, Json] = {str(value): mass for value, mass in sorted(weighed.masses.items())}
    mean, deviation = weighed.moments
    details = {"expected": mean, "masses": masses, "uncertainty": deviation / scale.length}
    return _single(answer, scale, kept_mass, details, mean)


async def _sampled(
    judge: Judge,
    prompt: Prompt,
    scale: Scale,
    samples: int,
    reason: ReasonPlace,
    earlier: Sequence[Answer[AnyRating]] = (),
) -> Score:
    """The mean of several answers, and of earlier answers that are paid for; the answer closest to the mean explains
    it.
    """
    if prompt.temperature is None:
        prompt = replace(prompt, temperature=_SAMPLING_TEMPERATURE)
    answers = [*earlier, *(await judge.ask(prompt, scale.reply_with(reason), samples=samples)).answers]
    if answers[0].decisions:
        return _decided(answers[0].decisions[0], scale)
    raw = math.fsum(answer.reply.score for answer in answers) / len(answers)
    deviation = math.sqrt(math.fsum((answer.reply.score - raw) ** 2 for answer in answers) / len(answers))
    return replace(
        _single(min(answers, key=lambda answer: abs(answer.reply.score - raw)), scale),
        value=scale.normalize(raw),
        method="samples",
        raw_score=raw,
        details={"samples": [answer.reply.score for answer in answers], "uncertainty": deviation / scale.length},
    )
