"""Positions of a group under its name of before, when groups did not begin with the prefix of their logs.

They are taken over once: when the new group has committed nothing for its topics. Until the last member of the former
group that reads them has left, the new one waits, since both would read the same.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any

from kafka.errors import AuthorizationError
from kafka.structs import OffsetAndMetadata, TopicPartition

from collector.logs.kafka.settings import KafkaSettings
from collector.logs.kafka.topics import administrating, commit_with, committed_by
from collector.logs.log import LogUnavailable

logger = logging.getLogger(__name__)

_Offsets = dict[TopicPartition, OffsetAndMetadata]


def take_over(
    settings: KafkaSettings, group: str, former: str, topics: Collection[str], instance: str | None = None
) -> bool:
    """Give `group` the positions of `former`, if it has none itself; False while the former one is still at work.

    Blocks. The state that a fold has stored with its positions goes with them. `instance` is this process's name in
    both groups: brokers count a named process that has stopped as a member for a while, and this one is it.

    Raises:
        LogUnavailable: no broker answers.
    """
    with administrating(settings) as admin:
        if _committed(admin, group, topics):
            return True
        try:
            positions = _committed(admin, former, topics)
            readers = _readers(admin, former, topics, instance) if positions else []
        except AuthorizationError:  # it is somebody else's, or there was none
            logger.warning(
                "whether this deployment ran before as the group %s cannot be seen; if it did, permit this user to "
                "DESCRIBE that group, else what it has read is read again as %s", former, group,
            )  # fmt: skip
            return True
        if readers:
            return False
        if positions:
            commit_with(admin, group, positions)
            logger.info("group %s continues where %s was, on %d partitions", group, former, len(positions))
        return True


def copy_positions(settings: KafkaSettings, group: str, former: str, topics: Collection[str]) -> int:
    """Give `group` the positions of `former`, whatever it has itself; returns for how many partitions. Blocks.

    Raises:
        LogUnavailable: no broker answers, or one of the groups has members.
    """
    with administrating(settings) as admin:
        positions = _committed(admin, former, topics)
        if members := _readers(admin, former, topics, None):
            raise LogUnavailable(f"{', '.join(members)} still reads as the group {former}")
        if positions:
            commit_with(admin, group, positions)
        return len(positions)


def has_read(settings: KafkaSettings, group: str, topic: str) -> bool:
    """Whether a group has committed anything for a topic; not if this user may not know. Blocks.

    Raises:
        LogUnavailable: no broker answers.
    """
    with administrating(settings) as admin:
        try:
            return bool(_committed(admin, group, [topic]))
        except AuthorizationError:
            return False


def _committed(admin: Any, group: str, topics: Collection[str]) -> _Offsets:
    offsets = committed_by(admin, [group])[group]
    return {where: offset for where, offset in offsets.items() if where.topic in topics and offset.offset >= 0}


def _readers(admin: Any, group: str, topics: Collection[str], instance: str | None) -> list[str]:
    """The members of a group that read one of the topics, but for the one of this name."""
    members = admin.describe_groups([group])[group]["members"]
    return [
        member["client_id"]
        for member in members
        if (instance is None or member["group_instance_id"] != instance)
        and _may_read(member["member_metadata"], topics)
    ]


def _may_read(subscription: Any, topics: Collection[str]) -> bool:
    """Whether a member's subscription has one of the topics, or cannot be read."""
    return not isinstance(subscription, dict) or any(topic in subscription["topics"] for topic in topics)
