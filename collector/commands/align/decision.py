"""The choice of the candidate that is tried on the held-out part, and the test of its gain there. Pure.

However many candidates there are, one is chosen on the training part, and that one alone is tested on the held-out
part, once: what was best of many by chance is not better elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from collector.commands.align.gain import Agreed, Changed, Gain, agreement_of, best_possible, gain_of
from collector.commands.align.subjects import LabelledSubject, Parts

ANSWERING = 0.95
"""Share of the labels that a candidate must score, of those that the evaluator did."""

Verdicts = Mapping[str, bool]
"""Whether an evaluator passes a subject, by the label's name; without those that it could not score."""


@dataclass(frozen=True, slots=True)
class TrainingTrial:
    """A candidate on the training part: agreement before and after, and the share of the labels that it scored.

    Without an interval: that of the best of several would be too narrow. None where people have passed all, say.
    """

    before: float | None
    after: float | None
    answered: float

    @property
    def gain(self) -> float:
        """By how much it agrees more; 0 where it cannot be chosen."""
        if self.before is None or self.after is None or self.answered < ANSWERING:
            return 0.0
        return self.after - self.before


@dataclass(frozen=True, slots=True)
class HoldoutTest:
    """The chosen candidate on the held-out part: its gain, None where there is none to compute, and what it scored."""

    gain: Gain | None
    answered: float

    @property
    def gained(self) -> bool:
        """Whether it surely has."""
        return self.gain is not None and self.answered >= ANSWERING and self.gain.sure


def agreed(part: Sequence[LabelledSubject], verdicts: Verdicts, *, weighted: bool) -> list[Agreed]:
    """The labels that have a verdict, and whether it is people's. Without weights each label counts alike."""
    return [
        Agreed(
            subject.conversation,
            subject.passes,
            verdicts[subject.name] is subject.passes,
            subject.weight if weighted else 1.0,
        )
        for subject in part
        if subject.name in verdicts
    ]


def training_trial(part: Sequence[LabelledSubject], before: Verdicts, after: Verdicts) -> TrainingTrial:
    """A candidate's verdicts on the training part beside those of the evaluator as it is; each label counts alike."""
    both = [subject for subject in part if subject.name in before and subject.name in after]
    old, new = (agreement_of(agreed(both, verdicts, weighted=False)) for verdicts in (before, after))
    return TrainingTrial(old, new, _answered(part, before, after))


def _answered(part: Sequence[LabelledSubject], before: Verdicts, after: Verdicts) -> float:
    scored = [subject for subject in part if subject.name in before]
    return sum(subject.name in after for subject in scored) / len(scored) if scored else 0.0


def chosen(trials: Sequence[TrainingTrial]) -> int | None:
    """The place of the candidate that gained most on the training part; None where none did. The first of equals."""
    best = max(range(len(trials)), key=lambda each: trials[each].gain, default=None)
    return best if best is not None and trials[best].gain > 0.0 else None


def holdout_test(parts: Parts, before: Verdicts, after: Verdicts) -> HoldoutTest:
    """The one test of the chosen candidate."""
    changes = [
        Changed(
            subject.conversation,
            subject.passes,
            before[subject.name] is subject.passes,
            after[subject.name] is subject.passes,
            subject.weight if parts.at_random else 1.0,
        )
        for subject in parts.holdout
        if subject.name in before and subject.name in after
    ]
    return HoldoutTest(gain_of(changes), _answered(parts.holdout, before, after))


def can_show_a_gain(parts: Parts, before: Verdicts) -> bool:
    """Whether an evaluator that agrees with people everywhere would have gained for sure on what is held out."""
    best = best_possible(agreed(parts.holdout, before, weighted=parts.at_random))
    return best is not None and best.sure
