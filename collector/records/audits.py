"""Audits as evaluations have them: an expensive verdict on a random share of the cases that a cheap judge has
scored.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import cast

from evaluators.cases import Json
from evaluators.evaluation import AUDIT_TIMEOUT
from evaluators.results import Evaluation

FEWEST_AUDITS = 30
"""Effective audited conversations below which there is no corrected mean: its interval would not cover it."""


@dataclass(frozen=True, slots=True)
class AuditScore:
    """An expensive verdict on the subject of a cheap one, on [0, 1], and the probability of its draw.

    `version` is the version of the judge or person who gave it. `passed` is None without a rule for passing, and where
    an earlier release did not note it.
    """

    score: float
    probability: float
    version: str = ""
    passed: bool | None = None


def audit_of(evaluation: Evaluation) -> AuditScore | None:
    """The audit in an evaluation's details; None if it was not drawn for one, or the expensive judge has no score."""
    return None if evaluation.score is None else audit_in(_noted(evaluation))


def audit_in(noted: Mapping[str, Json]) -> AuditScore | None:
    """The audit in what an evaluation's details have of it, or a label."""
    score, probability, passed = _number(noted, "score"), _number(noted, "probability"), noted.get("passed")
    if not (0.0 <= score <= 1.0 and 0.0 < probability <= 1.0):
        return None
    return AuditScore(score, probability, str(noted.get("version", "")), passed if isinstance(passed, bool) else None)


def audit_by(evaluation: Evaluation, version: str | None) -> AuditScore | None:
    """The audit if this version made it: scores of two auditors are not one mean. Earlier releases noted no version."""
    audit = audit_of(evaluation)
    return audit if audit is not None and audit.version in ("", version) else None


def noted_audit(evaluation: Evaluation) -> Mapping[str, Json] | None:
    """The part of an evaluation's audit that a label stores."""
    return asdict(audit) if (audit := audit_of(evaluation)) else None


def audit_outcome(evaluation: Evaluation) -> str | None:
    """The result of an evaluation's audit: `scored`, or the reason why not; None if it was not drawn for one."""
    return str(noted.get("reason", "scored")) if (noted := _noted(evaluation)) else None


def audit_version_of(evaluation: Evaluation) -> str | None:
    """The version of who was asked for an audit, whether or not it gave a score; None if it was not drawn for one."""
    return str(noted.get("version", "")) if (noted := _noted(evaluation)) else None


def read_by_auditor(evaluation: Evaluation) -> tuple[float, float]:
    """The tokens that the auditor read, and its calls; NaN where that is not noted, as by earlier releases."""
    if audit_outcome(evaluation) in (None, AUDIT_TIMEOUT):
        return 0.0, 0.0
    noted = _noted(evaluation)
    return _number(noted, "input_tokens"), _number(noted, "calls")


def lost_audit(evaluation: Evaluation, version: str) -> float:
    """The probability of the draw for an audit by this version that brought no score; 0 without such an audit."""
    noted = _noted(evaluation)
    if "reason" not in noted or noted.get("version", version) != version:
        return 0.0
    probability = _number(noted, "probability")
    return probability if 0.0 < probability <= 1.0 else 0.0


def _noted(evaluation: Evaluation) -> Mapping[str, Json]:
    """The note of an evaluation's audit; empty if it was not drawn for one."""
    noted = evaluation.details.get("audit")
    return cast("Mapping[str, Json]", noted) if isinstance(noted, Mapping) else {}


def _number(noted: Mapping[str, Json], name: str) -> float:
    value = noted.get(name)
    return float(value) if isinstance(value, int | float) else math.nan
