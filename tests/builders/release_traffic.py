"""Scores of versions by the hour, as the comparison of releases counts them."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from evaluation_samples import scored

from collector.alerting.releases.hourly_scores import HOUR, ComparedAttribute, HourlyScores
from collector.alerting.releases.releases import Release, ReleaseRules, releases
from evaluators.results import Evaluation, Sampling, Subject

BEGAN = 1_700_000_000 // 86_400 * 86_400
VERSION = ComparedAttribute("service_version", "service")


def rules(*attributes: ComparedAttribute, **changes: Any) -> ReleaseRules:
    return ReleaseRules(attributes={"all": attributes or (VERSION,)}, evaluators={"all": ("helpful",)}, **changes)


class Traffic:
    """Scores of conversations, one after the other."""

    def __init__(self, *attributes: ComparedAttribute, partitions: int = 1) -> None:
        self.parts = [HourlyScores({"all": attributes or (VERSION,)}, 8 * 86400.0) for _ in range(partitions)]
        self.chance = random.Random(3)
        self.number = 0

    def hour(
        self, hour: int, version: str, count: int, mean: float = 0.8, *, same: bool = False, **attributes: str
    ) -> None:
        for _ in range(count):
            self.number += 1
            at = BEGAN + hour * HOUR + self.chance.random() * HOUR
            known = {"service": "shop", "service_version": version, **attributes}
            for _ in range(2):
                self.put(at, f"c{self.number}", mean if same else float(self.chance.random() < mean), known)

    def put(self, at: float, conversation: str, score: float, attributes: dict[str, str]) -> None:
        part = self.parts[self.number % len(self.parts)]
        part.add(
            replace(
                SAMPLE,
                subject=Subject(conversation_id=conversation),
                score=score,
                sampling=Sampling(probability=self.chance.choice((0.25, 1.0))),
                attributes=attributes,
                ended_at=datetime.fromtimestamp(at, UTC),
            )
        )

    def at(self, hour: int, of: ReleaseRules | None = None) -> list[Release]:
        return releases(self.parts, of or rules(), BEGAN + hour * HOUR)


SAMPLE: Evaluation = scored(1, monitor="all", evaluator="helpful")
