"""How the clients of a configuration talk to Kafka: the one place where that is decided."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from collector.config.settings import KafkaLogSettings, KafkaSourceSettings, LogSettings
from collector.logs.kafka_security import KafkaSecuritySettings

FORMER_GROUP = "evalstream"
"""The former default name of a source's group, which it still has if logs are not in Kafka."""

if TYPE_CHECKING:
    from collector.logs.kafka import KafkaSettings


def settings_of_log(log: KafkaLogSettings) -> KafkaSettings:
    """How to talk to the cluster of the logs."""
    from collector.logs.kafka import Credentials, KafkaSettings

    return KafkaSettings(
        bootstrap_servers=log.bootstrap_servers,
        group_instance_id=log.group_instance_id,
        group_prefix=f"{log.prefix}.",
        session_timeout=log.session_timeout,
        credentials=Credentials(log.security),
    )


def settings_of_source(source: KafkaSourceSettings, log: LogSettings) -> KafkaSettings:
    """How to talk to the cluster of a source."""
    from collector.logs.kafka import Credentials, KafkaSettings

    return KafkaSettings(
        bootstrap_servers=source.bootstrap_servers,
        group_instance_id=source.group_instance_id,
        credentials=Credentials(security_of(source, log)),
    )


def group_of(source: KafkaSourceSettings, log: LogSettings) -> str:
    """The first part of the names of a source's groups: that of the logs' topics, unless it is configured."""
    return source.group or (log.kafka.prefix if log.kind == "kafka" and log.kafka is not None else FORMER_GROUP)


async def former_group_of(source: KafkaSourceSettings, log: LogSettings) -> str | None:
    """The result of `group_of` before it followed the logs' prefix; None if there are no positions of that time.

    Only who ran then has read the spans log as the group of then. Another deployment's positions are not ours.

    Raises:
        LogUnavailable: no broker answers.
    """
    if source.group is not None or log.kafka is None or group_of(source, log) == FORMER_GROUP:
        return None
    from collector.logs.kafka.former_groups import has_read

    ran = await asyncio.to_thread(has_read, settings_of_log(log.kafka), "assemble", f"{log.kafka.prefix}.spans")
    return FORMER_GROUP if ran else None


def security_of(source: KafkaSourceSettings, log: LogSettings) -> KafkaSecuritySettings | None:
    """A source's own security; that of the logs if it has none and its brokers are theirs."""
    same = (
        log.kind == "kafka"
        and log.kafka is not None
        and set(log.kafka.bootstrap_servers) & set(source.bootstrap_servers)
    )
    return source.security or (log.kafka.security if same and log.kafka is not None else None)
