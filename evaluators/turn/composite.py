"""One score of a turn, made of the scores of several evaluators."""

from typing import ClassVar

from evaluators.cases import Turn
from evaluators.evaluator import Example
from evaluators.mechanisms.composition import Composition


class Composite(Composition[Turn]):
    """One score made of other evaluators' scores: all pass, any passes, or a weighted mean.

    `all` and `any` are 1 or 0, by the members' verdicts. Members in code come first, and the rest is not asked once the
    result is certain. `weighted` is Σ w·s / Σ w, with 1 − s for s where lower is better. If a member ends as a failure
    or a skip, so does the composite, unless the other members decide without it. `details.members` has each member's
    result.

    With `if`, the first member, in code, decides whether the second is asked: if the first fails (with `ask_on: pass`:
    if it passes), and for a `share` of the other turns, drawn by the turn's id. Then the score is the second member's,
    and weighs 1 / the probability of asking. If the second is not asked, the turn is skipped as `gated`, or scores
    `otherwise`. So the mean covers all turns; with `share: 0` and no `otherwise`, only those that the first member
    selects.
    """

    # The probability is p·π: p of the sample, π = 1 where the first one asks and the share elsewhere. The estimate is
    # Σ s/(p·π) / Σ 1/(p·π) (Horvitz and Thompson 1952; as a ratio after Hájek 1971).

    kind: ClassVar[str] = "composite"
    example: ClassVar[Example] = {
        "combine": "weighted",
        "of": {
            "clean": {"kind": "contains", "search_text": "lorem ipsum", "negated": True, "threshold": 1.0},
            "helpful": {
                "kind": "g_eval",
                "criteria": "The answer helps.",
                "evaluation_params": ["input", "actual_output"],
            },
        },
    }
