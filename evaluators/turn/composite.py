"""One score of a turn out of those of several evaluators."""

from typing import ClassVar

from evaluators.cases import Turn
from evaluators.evaluator import Example
from evaluators.mechanisms.composition import Composition


class Composite(Composition[Turn]):
    """One score out of those of other evaluators: do all pass, does any, or their weighted mean.

    `all` and `any` are 1 or 0 and count verdicts; one member may decide alone, so those in code come first, and the
    rest is not asked once the result is certain. `weighted` is Σ w·s / Σ w, where lower is better of 1 − s. A member
    without a score makes the composite fail or be skipped as it was, unless the others decide without it.
    `details.members` has what each came to.

    With `if` the first member, in code, decides whether the second one is asked: where it fails (`ask_on`), and for a
    `share` q of the rest, drawn by the turn's id. The others are skipped as `gated`, or score `otherwise`. The score is
    the second member's, and its evaluation has the probability p·π with which it was made: p of the sample, π = 1 where
    the first one asks and q elsewhere. Means weigh each score by 1/(p·π): Σ s/(p·π) / Σ 1/(p·π) estimates the mean of
    all turns without bias if q > 0, and that of the turns that the first one asks for if q = 0 (Horvitz–Thompson,
    Hájek).
    """

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
