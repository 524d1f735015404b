"""How the clients of a configuration talk to Kafka: the one place where that is decided."""

from typing import TYPE_CHECKING

from collector.config.settings import KafkaLogSettings, KafkaSourceSettings, LogSettings
from collector.logs.kafka_security import KafkaSecuritySettings

DEFAULT_GROUP = "evalstream"
"""The first part of a source's groups if logs are not in Kafka."""

SERVICE_RIGHTS = ("READ", "WRITE", "DESCRIBE_CONFIGS")
"""Operations that a service needs of the topics of its logs."""

if TYPE_CHECKING:
    from collector.logs.kafka import KafkaSettings


def settings_of_log(log: KafkaLogSettings) -> "KafkaSettings":
    """How to talk to the cluster of the logs."""
    from collector.logs.kafka import Credentials, KafkaSettings

    return KafkaSettings(
        bootstrap_servers=log.bootstrap_servers,
        group_instance_id=log.group_instance_id,
        group_prefix=f"{log.prefix}.",
        session_timeout=log.session_timeout,
        credentials=Credentials(log.security),
    )


def settings_of_source(source: KafkaSourceSettings, log: LogSettings) -> "KafkaSettings":
    """How to talk to the cluster of a source: under its own name, else under that of the logs."""
    from collector.logs.kafka import Credentials, KafkaSettings

    name = log.kafka.group_instance_id if log.kind == "kafka" and log.kafka is not None else None

    return KafkaSettings(
        bootstrap_servers=source.bootstrap_servers,
        group_instance_id=source.group_instance_id or name,
        credentials=Credentials(security_of(source, log)),
    )


def group_of(source: KafkaSourceSettings, log: LogSettings) -> str:
    """The first part of the names of a source's groups: the prefix of the logs' topics, unless a group is
    configured.
    """
    return source.group or (log.kafka.prefix if log.kind == "kafka" and log.kafka is not None else DEFAULT_GROUP)


def security_of(source: KafkaSourceSettings, log: LogSettings) -> KafkaSecuritySettings | None:
    """A source's own security; without one, the logs' if the brokers are the same."""
    own = log.kafka
    same = own is not None and set(own.bootstrap_servers) & set(source.bootstrap_servers)
    return source.security or (own.security if own is not None and same else None)
