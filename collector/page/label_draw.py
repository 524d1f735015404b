"""The evaluations that people are asked to label: a draw with known probabilities, without clock, state or log.

An evaluation is drawn with probability

    p = random + (1 - random) * max(doubtful * doubt, audited if it has an audit),

by a hash of its id: a random share of all, and more of what is doubtful or audited. Nothing but the evaluation and the
settings decides, so the page, the command and a restart draw the same, before anybody has seen anything. A label
carries p, and 1/p makes a mean over labels one over all evaluations (Horvitz and Thompson 1952; p by doubt after Zrnic
and Candès, 2024). As p is at least `random`, no label weighs more than 1 / `random`.
"""

from dataclasses import dataclass

from pydantic import Field

from collector.evaluate.sampling.draw_key import PUBLIC, DrawKey
from collector.records.audits import audit_of
from collector.section import Section
from evaluators.judges.cascade import doubt_of
from evaluators.results import Evaluation
from evaluators.texts.draw import draw as hash_draw

NEAR = 0.2
"""Distance from the threshold at which a score is no more doubtful for being near it."""


class LabelQueueSettings(Section):
    """The queue of evaluations that people are asked to label, on the page and by `evalstream labels next`."""

    random: float = Field(default=0.05, ge=0.001, le=1)
    """Share of all scored evaluations that are drawn, doubtful or not."""
    doubtful: float = Field(default=0.25, ge=0, le=1)
    """Share of the most doubtful that are drawn as well: where the judge is uncertain by its own probabilities, a jury
    is divided, or the score is near the threshold. Others in proportion."""
    audited: float = Field(default=0.25, ge=0, le=1)
    """Share of those with an audit's score that are drawn as well: labels of them correct the mean by audits."""
    twice: float = Field(default=0.2, ge=0, le=1)
    """Share of the drawn that a second person labels, too."""


@dataclass(frozen=True, slots=True)
class Draw:
    """How an evaluation was drawn: with which probability, and whether two people label it."""

    probability: float
    twice: bool


def draw(
    evaluation: Evaluation, threshold: float | None, settings: LabelQueueSettings, key: DrawKey = PUBLIC
) -> Draw | None:
    """The draw of an evaluation; None if it was not drawn, or has no score."""
    if evaluation.score is None or evaluation.happened_at is not None:
        return None
    share = settings.random
    audited = settings.audited if audit_of(evaluation) is not None else 0.0
    probability = share + (1.0 - share) * max(settings.doubtful * label_doubt(evaluation, threshold), audited)
    secret = key.at(evaluation.started_at.timestamp())
    if uniform(evaluation.evaluation_id, "label", secret) >= probability:
        return None
    return Draw(probability, uniform(evaluation.evaluation_id, "twice", secret) < settings.twice)


def label_doubt(evaluation: Evaluation, threshold: float | None) -> float:
    """How doubtful a score is, from 0 to 1: by the judge's probabilities, a jury's range, how near the threshold is."""
    if evaluation.score is None:
        return 0.0
    near = 0.0 if threshold is None else 1.0 - abs(evaluation.score - threshold) / NEAR
    return max(0.0, doubt_of(evaluation.details) or 0.0, near)


def place(evaluation_id: str, person: str) -> float:
    """The position of an evaluation in a person's queue, from 0 to 1: in an order independent of its score."""
    return uniform(evaluation_id, f"place/{person}")


def uniform(evaluation_id: str, purpose: str, key: str = "") -> float:
    """A number from 0 to below 1 that an id has for a purpose; with a key only its holder can compute it."""
    if key:
        return hash_draw(f"{purpose}/{evaluation_id}", salt=key)
    return hash_draw(f"{purpose}/{evaluation_id}", algorithm="sha256")
