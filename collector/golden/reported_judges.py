"""The names that judges give themselves in live evaluations: a provider that changes a model does not say so."""

from contextlib import suppress

from collector.errors import BadInput
from collector.logs.log import Log
from collector.logs.whole_log import IncrementalReader, end_offsets
from collector.records.json import evaluation_from_json
from evaluators.results import JudgeStamp

JudgeName = tuple[str, str | None]
"""A judge's model as it names itself, and its fingerprint if it has one."""


def judge_name(stamp: JudgeStamp) -> JudgeName:
    """The name in a stamp, without the prompt's hash, which the evaluator's version contains."""
    return stamp.model, stamp.fingerprint


class ReportedJudges:
    """The newest name that the judge of each evaluator, in a version, has reported since the first reading."""

    def __init__(self, evaluations: Log) -> None:
        self._evaluations = evaluations
        self._reader: IncrementalReader | None = None
        self._newest: dict[tuple[str, str], JudgeName] = {}

    async def read_on(self) -> None:
        """Read the evaluations made since the last reading. Raises LogUnavailable."""
        if self._reader is None:
            self._reader = IncrementalReader(self._evaluations, await end_offsets(self._evaluations))
        async for record in self._reader.records():
            if record.headers or record.is_tick:
                continue
            with suppress(BadInput):
                evaluation = evaluation_from_json(record.value)
                if evaluation.judge is not None:
                    self._newest[evaluation.evaluator, evaluation.evaluator_version] = judge_name(evaluation.judge)

    def newest(self, evaluator: str, version: str) -> JudgeName | None:
        """The name by which the judge has answered last; None if it has not."""
        return self._newest.get((evaluator, version))
