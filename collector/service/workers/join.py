"""The status of several workers, joined as if one had reported it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

_END = "# EOF"


@dataclass(slots=True)
class _Family:
    comments: dict[str, None] = field(default_factory=dict[str, None])
    samples: list[str] = field(default_factory=list[str])


def join_metrics(texts: Mapping[int, str]) -> str:
    """The metrics of workers by their numbers, in Prometheus' text format or OpenMetrics, with a label `worker`."""
    families: dict[str, _Family] = {}
    ends = False
    for worker, text in texts.items():
        family = families.setdefault("", _Family())
        for line in text.splitlines():
            if line == _END:
                ends = True
            elif line.startswith("# "):
                family = families.setdefault(line.split(" ", 3)[2], _Family())
                family.comments[line] = None
            elif line:
                family.samples.append(_of_worker(line, worker))
    lines = [line for family in families.values() for line in (*family.comments, *family.samples)]
    return "\n".join([*lines, *([_END] if ends else []), ""])


def _of_worker(sample: str, worker: int) -> str:
    name, space, rest = sample.partition(" ")
    name, brace, labels = name.partition("{")
    if not brace:
        return f'{name}{{worker="{worker}"}}{space}{rest}'
    return f'{name}{{worker="{worker}",{labels}{space}{rest}'


def join_readiness(answers: Mapping[int, str | None]) -> tuple[int, dict[str, Any]]:
    """Status and body of /readyz out of those of workers by their numbers; None for one that did not answer.

    All have to be ready.
    """
    read = {number: _readiness(answer) for number, answer in answers.items()}
    problems = [f"worker {number}: {problem}" for number, body in read.items() for problem in body["problems"]]
    checks = {f"worker {number}: {name}": of for number, body in read.items() for name, of in body["checks"].items()}
    degraded = any(body["status"] == "degraded" for body in read.values())
    status = "not ready" if problems else "degraded" if degraded else "ready"
    return 503 if problems else 200, {"status": status, "problems": problems, "checks": checks}


def _readiness(answer: str | None) -> dict[str, Any]:
    if answer is None:
        return {"status": "not ready", "problems": ["it does not answer"], "checks": {}}
    return cast("dict[str, Any]", json.loads(answer))
