"""Connections to brokers: every client is made here, and only after one connection has shown that it can be.

kafka-python repeats a refused login until its time-out, says in the end that it reached no broker, and leaves a thread
behind. So one connection is made first, by itself: whether a broker answers, and takes us, is known at once.
"""

import logging
import socket
import ssl
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from kafka import errors
from kafka.net.compat import KafkaNetClient
from kafka.protocol.metadata import MetadataRequest

from collector.logs.kafka.settings import KafkaSettings, login_sentence, named_error, translated
from collector.logs.kafka.workarounds import client_without_topic_creation
from collector.logs.log import LogError, LogRefused, LogUnavailable

KNOCK = 3.0
"""Seconds to wait for a broker to take a connection."""

_ALERTS = ("CERTIFICATE_REQUIRED", "BAD_CERTIFICATE", "UNKNOWN_CA", "CERTIFICATE_UNKNOWN", "CERTIFICATE_EXPIRED")
"""A broker's answer to a client certificate, or to a missing one."""


def connect(client: Callable[..., Any], settings: KafkaSettings, options: Mapping[str, Any]) -> Any:
    """Make a client that has reached a broker. Blocks.

    Raises:
        LogUnavailable: no broker answers.
        LogRefused: a broker refuses us.
    """
    with translated(settings):
        secured = settings.credentials.options()
        knock(settings, secured)
        return client(**options, **secured, kafka_client=partial(_client, settings.credentials.login))


def knock(settings: KafkaSettings, secured: Mapping[str, Any]) -> None:
    """Connect to one of the servers, as every client will.

    Raises:
        LogUnavailable: none answers.
        LogRefused: one refuses us.
    """
    problem: LogError | None = None
    for server in settings.bootstrap_servers:
        if is_reachable(server):
            try:
                return _log_in(settings, server, secured)
            except LogRefused:
                raise
            except LogError as error:
                problem = error
    raise problem or LogUnavailable(f"no Kafka broker answers at {', '.join(settings.bootstrap_servers)}")


def _client(login: Callable[[], Mapping[str, Any]], **options: Any) -> KafkaNetClient:
    """A client that logs in with what is right then, be it for a new connection or, as brokers may want, again."""
    client: Any = client_without_topic_creation(**options)
    manager = client._manager  # noqa: SLF001 - kafka-python has no other place for it
    get = manager.get_connection

    def get_connection(node: Any, *arguments: Any, **named: Any) -> Any:
        is_new = node not in manager._conns  # noqa: SLF001
        connection = get(node, *arguments, **named)
        if is_new:
            authenticate = connection._sasl_authenticate  # noqa: SLF001

            async def authenticate_with_latest(timeout_at: float | None = None) -> None:
                connection.config.update(login())
                await authenticate(timeout_at)

            connection._sasl_authenticate = authenticate_with_latest  # noqa: SLF001
        return connection

    manager.get_connection = get_connection
    return client


def is_reachable(server: str) -> bool:
    """Whether something takes connections there. Blocks."""
    host, _, port = server.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=KNOCK).close()
    except OSError:
        return False
    return True


def _log_in(settings: KafkaSettings, server: str, secured: Mapping[str, Any]) -> None:
    """Connect, log in, and ask for something that only those get who are in."""
    timeout = int(min(settings.request_timeout, 10.0) * 1000)
    client: Any = client_without_topic_creation(
        bootstrap_servers=[server], client_id=settings.client_id, request_timeout_ms=timeout, **secured
    )
    manager = client._manager  # noqa: SLF001 - see above

    async def ask() -> None:
        node = manager.cluster.bootstrap_brokers()[0].node_id
        connection = await manager.get_connection(node, timeout_ms=timeout, refresh_metadata_on_err=False)
        await connection.send_request(MetadataRequest(topics=[], allow_auto_topic_creation=False))

    connections = logging.getLogger("kafka.net")
    connections.setLevel(logging.CRITICAL)  # the error of a connection that fails becomes a sentence with the remedy
    try:
        manager.run(ask)
    except LogError:  # of the token endpoint
        raise
    except Exception as error:
        raise refusal(error, server, settings) from error
    finally:
        connections.setLevel(logging.NOTSET)
        client.close()


def refusal(error: BaseException, server: str, settings: KafkaSettings) -> LogError:
    """Why no connection came about, with the remedy."""
    security, where = settings.credentials.security, f"Kafka at {server}"
    tls = _tls_error(error)
    if tls is not None:
        return LogRefused(f"{where} {_tls_sentence(tls)}")
    closed = isinstance(error, errors.KafkaConnectionError) and "disconnected" in str(error)
    refused_token = closed and security is not None and security.oauth is not None  # told by closing the connection
    if refused_token or isinstance(error, errors.SaslAuthenticationFailedError):
        return LogRefused(f"{where} {login_sentence(settings)}")
    if isinstance(error, (errors.UnsupportedSaslMechanismError, errors.IllegalSaslStateError)):
        mechanism = security.mechanism if security is not None else None
        return LogRefused(f"{where} does not offer {mechanism} on this port; correct security.mechanism, or the port")
    if isinstance(error, (ValueError, errors.KafkaConfigurationError)):
        return LogRefused(f"{where} did not prove who it is, or cannot be logged in to: {error}")
    if isinstance(error, errors.InvalidReceiveError):
        return LogRefused(f"{where} answers with something else than Kafka's protocol; TLS? Then set security.protocol")
    if closed:
        protocol = security.protocol if security is not None else "PLAINTEXT"
        return LogUnavailable(
            f"{where} closes the connection; if its listener is not {protocol}, set security.protocol as it is"
        )
    return LogUnavailable(f"{where} does not answer ({named_error(error)})")


def _tls_error(error: BaseException) -> ssl.SSLError | None:
    """The TLS error that caused another error."""
    inner: BaseException | None = error
    while inner is not None:
        for cause in (inner, *inner.args):
            if isinstance(cause, ssl.SSLError):
                return cause
        inner = inner.__cause__ or inner.__context__
    return None


def _tls_sentence(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        why = error.verify_message
        if "ostname" in why or "IP address" in why:
            return f"has a certificate for another name ({why}); write a name of it into bootstrap_servers"
        return f"has a certificate that is not trusted ({why}); set security.ca to the PEM file of its authority"
    reason = error.reason or ""
    if any(alert in reason for alert in _ALERTS):
        return (
            f"does not accept the client certificate, or wants one ({reason.replace('_', ' ').lower()}); "
            "set security.certificate and security.key"
        )
    return (
        f"does not speak TLS on this port ({reason.replace('_', ' ').lower()}); correct security.protocol, or the port"
    )
