"""Starts the receive stage: OTLP over HTTP and gRPC, topics, files."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path

from collector.config.settings import KafkaSourceSettings
from collector.errors import ConfigError
from collector.logs.log import LogError
from collector.otlp import Signal
from collector.receive.files import read_files
from collector.receive.kafka import KafkaReceiver
from collector.receive.otlp_http import OtlpHttpReceiver
from collector.starting.process import Process

logger = logging.getLogger(__name__)


async def start_sources(process: Process) -> None:
    """Start following the topics and reading the files that are configured.

    Raises:
        ConfigError: a topic is not there.
    """
    receive = process.config.settings.receive
    for settings in receive.kafka:
        await _start_source(process, settings)
    if receive.files:
        process.tasks.start(_read_files(process, [Path(each) for each in receive.files]))


async def start_http(process: Process) -> int | None:
    """Listen for OTLP/HTTP until the process ends; gives the port, None where it is not configured.

    Raises:
        ConfigError: the address cannot be bound.
    """
    settings = process.config.settings.receive.otlp_http
    if settings is None:
        return None
    receiver = OtlpHttpReceiver(settings, process.logs.spans, process.telemetry, redactor=process.guards.redactor)
    try:
        return await process.stack.enter_async_context(receiver.serve())
    except OSError as error:
        why = f"{settings.host}:{settings.port} cannot be listened on ({error.strerror})"
        raise ConfigError(f"receive.otlp_http: {why}; write another port, or 0 for any free one") from error


async def start_grpc(process: Process) -> int | None:
    """Listen for OTLP/gRPC until the process ends; gives the port, None where it is not configured.

    Raises:
        ConfigError: the address cannot be bound.
    """
    settings = process.config.settings.receive.otlp_grpc
    if settings is None:
        return None
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # else senders can make it write to stderr, in lines of its own
    from collector.receive.otlp_grpc import OtlpGrpcReceiver  # an extra, which need not be installed

    receiver = OtlpGrpcReceiver(settings, process.logs.spans, process.telemetry, redactor=process.guards.redactor)
    return await process.stack.enter_async_context(receiver.serve())


async def _start_source(process: Process, settings: KafkaSourceSettings) -> None:
    from collector.logs.kafka import KafkaSettings, KafkaSource

    to_kafka = KafkaSettings(bootstrap_servers=settings.bootstrap_servers, group_instance_id=settings.group_instance_id)
    signals: list[tuple[Signal, list[str]]] = [("traces", settings.traces), ("logs", settings.logs)]
    for kind, topics in signals:
        if topics:
            try:
                source = await KafkaSource.open(to_kafka, topics, start=settings.start)
            except LogError as error:
                raise ConfigError(f"receive.kafka: {error}") from error
            letters = process.guards.letters("receive", source.topic_of, process.logs, signal=kind)
            receiver = KafkaReceiver(
                ", ".join(topics), kind, process.logs.spans, process.telemetry,
                encoding=settings.encoding, on_poison=letters.poisoned, redactor=process.guards.redactor,
            )  # fmt: skip
            process.tasks.start(source.follow(f"{settings.group}.{kind}", letters.guarding(receiver.open_fold)))


async def _read_files(process: Process, paths: Sequence[Path]) -> None:
    count = await read_files(paths, process.logs.spans, process.telemetry, redactor=process.guards.redactor)
    logger.info("files: %d requests read, %d could not be read", count.requests, count.unreadable)
