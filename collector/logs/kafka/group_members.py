"""Asks brokers for the members of a group."""

import threading
from collections.abc import Callable
from typing import Any, cast

from kafka.structs import TopicPartition

from collector.logs.kafka.group_watch import Answer, GroupMembers
from collector.logs.kafka.settings import KafkaSettings
from collector.logs.kafka.topics import administrating, member_names


def ask_brokers(settings: KafkaSettings, group: str, done: Callable[[Answer], None]) -> None:
    """Ask for the members of a group, in a thread of its own: brokers may not answer for long."""

    def ask() -> None:
        try:
            done(_members(settings, group))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
            done(error)

    threading.Thread(target=ask, name=f"kafka members {group}", daemon=True).start()


def _members(settings: KafkaSettings, group: str) -> GroupMembers:
    with administrating(settings) as admin:
        described = admin.describe_groups([group])[group]
    owned_by = {
        str(member["group_instance_id"] or member["member_id"]): frozenset(_owned(member["member_assignment"]))
        for member in described["members"]
    }
    return GroupMembers(
        settled=described["group_state"] == "Stable",
        names=tuple(member_names(described["members"])),
        owned=frozenset[TopicPartition]().union(*owned_by.values()),
        owned_by=owned_by,
    )


def _owned(assignment: Any) -> list[TopicPartition]:
    """The partitions of an assignment; none if it cannot be read or is empty."""
    if not isinstance(assignment, dict):
        return []
    parts = cast("dict[str, Any]", assignment)["assigned_partitions"]
    return [TopicPartition(part["topic"], number) for part in parts for number in part["partitions"]]
