"""People's labels of evaluations, from the labels log."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from collector.errors import BadInput
from collector.logs.log import Log
from collector.logs.whole_log import read_records
from collector.records.json import label_from_json
from evaluators.results import Label


async def labels_in(log: Log) -> AsyncIterator[Label]:
    """Every label of the labels log, partition by partition, without feedback. Raises LogUnavailable."""
    async for record in read_records(log):
        if not record.headers:  # else feedback, or a tick
            try:
                yield label_from_json(record.value)
            except BadInput:
                continue  # of a later version


async def newest_labels(log: Log, evaluator: str | None = None) -> Sequence[Label]:
    """The label of each evaluation by each person that counts; of one evaluator, or of all.

    The later label counts, unless the same person picked the later one and labelled the earlier one because it was
    drawn.
    """
    newest: dict[tuple[str, str | None], Label] = {}
    async for label in labels_in(log):
        if evaluator in (None, label.evaluator):
            key = label.evaluation_id, label.given_by
            newest[key] = max(label, newest.get(key, label), key=_rank)
    return list(newest.values())


def _rank(label: Label) -> tuple[bool, float]:
    return label.label_probability is not None, label.given_at.timestamp()
