"""Addresses in a configuration: hosts that are listened on, and brokers."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field

_BROKER = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[^:]*))?")
_HIGHEST_PORT = 65_535


def checked_broker(address: str) -> str:
    """An address of a broker, `host:port`.

    Raises:
        ValueError: it is something else, like a URL or several addresses in one text.
    """
    if "," in address:
        raise ValueError(f"holds several brokers; write each as an item: [{', '.join(address.split(','))}]")
    scheme, separator, rest = address.partition("://")
    if separator:
        secured = f", and security: {{protocol: {scheme}}} beside it" if "S" in scheme.upper()[:4] else ""
        raise ValueError(f"begins with {scheme}://, and a broker is host:port; write {rest.rstrip('/')}{secured}")
    match = _BROKER.fullmatch(address)
    if match is None:
        raise ValueError(f"{address!r} is no address of a broker; write host:9092")
    port = match["port"]
    if port is None:
        raise ValueError(f"{address!r} has no port; write {address}:9092")
    if not (port.isdecimal() and 0 < int(port[:6]) <= _HIGHEST_PORT):
        raise ValueError(f"{port!r} is no port; write host:9092")
    return address


def checked_host(host: str) -> str:
    """A host that is listened on.

    Raises:
        ValueError: it is a URL, or has a port.
    """
    bare = host.partition("://")[2].rstrip("/") or host
    name, separator, port = bare.rpartition(":")
    if separator and port.isdecimal() and ":" not in name:
        raise ValueError(f"must be a host alone; write host: {name} and port: {port}")
    if bare != host:
        raise ValueError(f"must be a host alone; write host: {bare}")
    return host


BrokerAddresses = Annotated[list[Annotated[str, AfterValidator(checked_broker)]], Field(min_length=1)]
"""Kafka brokers."""
ListeningHost = Annotated[str, AfterValidator(checked_host), Field(min_length=1)]
"""A host to listen on."""
