"""The state of topics and groups, as a user would look at it. Everything here blocks, and changes nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka.admin import ConfigResource
from kafka.errors import AuthorizationError

from collector.logs.kafka.connections import is_reachable
from collector.logs.kafka.settings import KafkaSettings
from collector.logs.kafka.topics import administrating, committed_by
from collector.logs.log import LogUnavailable

_Resource: Any = ConfigResource  # wrongly typed
_CONFIGS = ("retention.ms", "retention.bytes", "cleanup.policy", "min.insync.replicas")


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The settings of the topics that exist, by name, and the members of each group that has some."""

    topics: Mapping[str, Mapping[str, str]]
    members: Mapping[str, Sequence[str]]


def inspect(settings: KafkaSettings, topics: Sequence[str], groups: Sequence[str]) -> ClusterState:
    """Look at topics and groups.

    Raises:
        LogUnavailable: no broker answers.
        LogRefused: a broker refuses us.
    """
    if not any(map(is_reachable, settings.bootstrap_servers)):  # before files are looked for, which may be elsewhere
        raise LogUnavailable(f"no Kafka broker answers at {', '.join(settings.bootstrap_servers)}")
    with administrating(settings) as admin:
        described = {
            describe_topic["name"]: describe_topic
            for describe_topic in admin.describe_topics(list(topics))
            if describe_topic["error_code"] == 0
        }
        states = {name: _sizes(topic) | _configs(admin, name) for name, topic in described.items()}
        committed_by(admin, groups)  # refused without READ, while what describes groups only says less
        return ClusterState(
            states, {group: _members(describe_group) for group, describe_group in admin.describe_groups(groups).items()}
        )


def _sizes(topic: Mapping[str, Any]) -> dict[str, str]:
    partitions = topic["partitions"]
    return {
        "partitions": str(len(partitions)),
        "copies": str(min((len(partition["replica_nodes"]) for partition in partitions), default=0)),
    }


def _configs(admin: Any, topic: str) -> dict[str, str]:
    resource = _Resource("topic", topic, dict.fromkeys(_CONFIGS))
    try:
        described = admin.describe_configs([resource], config_filter="all")["topic"][topic]
    except (AuthorizationError, KeyError):  # sources need not permit it
        return {}
    return {name: str(described[name]["value"]) for name in _CONFIGS if name in described}


def _members(group: Mapping[str, Any]) -> list[str]:
    names = [(member["group_instance_id"] or member["client_id"], member["client_host"]) for member in group["members"]]
    return sorted(f"{name} on {host.lstrip('/')}" for name, host in names)
