"""Endpoints out of the configuration: no secrets in them, and none that only a machine's own cloud answers."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

_METADATA = frozenset(
    {"metadata.google.internal", "metadata.goog", "instance-data", "fd00:ec2::254", "100.100.100.200"}
)


def checked_endpoint(url: str) -> str:
    """The URL, if judged text may be sent there.

    Raises:
        ValueError: it holds a name or password, or leads to where clouds hand out a machine's credentials.
    """
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").rstrip(".").lower()
        userinfo = parts.username is not None or parts.password is not None
        _ = parts.port  # raises where it is no port
    except ValueError:
        raise ValueError("is no URL; write it like https://host/v1") from None
    if userinfo:
        raise ValueError("holds a name or password, which would be shown; write api_key: ${env:NAME} instead")
    if not host:
        raise ValueError("names no host; write it like https://host/v1")
    if host in _METADATA or _is_link_local(host):
        raise ValueError("leads to a link-local or metadata address, where no judge is")
    return url


def _is_link_local(host: str) -> bool:
    try:
        address = ipaddress.ip_address(int(host, 0) if host.startswith("0x") or host.isdigit() else host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_link_local
