"""Records that retention has deleted although a consumer still needed them."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from collector.telemetry.drop_reasons import LossReason

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LostRecords:
    """Records of a partition that a consumer needed and no broker has: offsets from `offset` up to `end_offset`.

    `log` is the log's name, or the topic of a source. If a topic is compacted, or holds transactions, not every offset
    was a record: `count` is then the most that it can be. The unread records that a replaced topic held from `offset`
    on are not known: such a partition counts as one record.
    """

    consumer: str
    log: str
    topic: str
    partition: int
    offset: int
    end_offset: int
    reason: LossReason

    @property
    def count(self) -> int:
        """How many."""
        return 1 if self.reason == LossReason.TOPIC_REPLACED else self.end_offset - self.offset


OnLost = Callable[[LostRecords], None]
"""Called with each loss, in a thread of the log: must be quick and must not raise."""


def log_lost(lost: LostRecords) -> None:
    """Log one line for each, with the remedy."""
    if lost.reason == LossReason.TOPIC_REPLACED:
        logger.error(
            "%s[%d] is another topic than the one of this name that was read before: what that had %s"
            " is lost, however much it was. The new one is read from its start",
            lost.topic, lost.partition, f"from offset {lost.offset} on" if lost.offset else "unread",
        )  # fmt: skip
        return
    what = {
        LossReason.RETENTION: "were deleted by retention before %s read them: they are lost",
        LossReason.RETENTION_REPLAY: "were deleted by retention while %s still needed them: "
        "what was open in them is lost",
    }[lost.reason] % lost.consumer
    logger.error(
        "%s[%d]: %d records (offsets %d to %d) %s. Raise retention.ms (or retention.bytes) of the topic, and let %s"
        " catch up sooner; what the senders still have can be sent again",
        lost.topic, lost.partition, lost.count, lost.offset, lost.end_offset - 1, what, lost.consumer,
    )  # fmt: skip
