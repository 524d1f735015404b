"""Evaluations that a command has made itself, written into the evaluations log."""

import asyncio
from collections.abc import Mapping, Sequence

from collector.backoff import Backoff
from collector.logs.log import Log, LogError, LogUnavailable, Record
from collector.past.evaluations import evaluations_in
from collector.records.json import evaluation_to_json
from evaluators.results import Evaluation

_APPENDED_AT_ONCE = 500


async def write_into_log(
    log: Log, evaluations: Sequence[Evaluation], partitions: Mapping[str, int | None], patience: float
) -> LogError | None:
    """Append what the log does not have, but for failures, each into its partition by its id.

    While the log is unavailable, this is tried again, for `patience` seconds; returns the error that remains, None if
    none does.
    """
    problems: list[LogError] = []
    action = f"writing to the evaluations log (for up to {patience:g} s)"
    try:
        async with asyncio.timeout(patience):
            await Backoff(cap=10.0).repeat(
                lambda: _append(log, evaluations, partitions), LogUnavailable, action=action, on_failure=problems.append
            )
    except TimeoutError:
        return problems[-1] if problems else LogUnavailable(f"no answer within {patience:g} s")
    except LogError as error:
        return error
    return None


async def _append(log: Log, evaluations: Sequence[Evaluation], partitions: Mapping[str, int | None]) -> None:
    existing = {past.evaluation.evaluation_id async for past in evaluations_in(log)}
    records = [
        Record(
            evaluation.evaluation_id.encode(),
            evaluation_to_json(evaluation),
            partition=partitions[evaluation.evaluation_id],
        )
        for evaluation in evaluations
        if evaluation.evaluation_id not in existing and evaluation.outcome != "failed"
    ]
    for start in range(0, len(records), _APPENDED_AT_ONCE):
        await log.append(records[start : start + _APPENDED_AT_ONCE])
