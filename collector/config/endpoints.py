"""Endpoints of the configuration: without secrets, and not the metadata address of a cloud."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

_METADATA = frozenset(
    {"metadata.google.internal", "metadata.goog", "instance-data", "fd00:ec2::254", "100.100.100.200"}
)


_ADDED = ("/chat/completions", "/completions", "/responses", "/messages")
"""Paths of requests, which belong to the API and not to its base."""


def checked_endpoint(url: str) -> str:
    """The URL, if judged text may be sent there.

    Raises:
        ValueError: it contains a name or password, or is the address where a cloud hands out a machine's credentials.
    """
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").rstrip(".").lower()
        userinfo = parts.username is not None or parts.password is not None
        _ = parts.port  # raises where it is not a port
    except ValueError:
        raise ValueError("is not a URL; write it like https://host/v1") from None
    if userinfo:
        raise ValueError("contains a name or password, which would be printed; write api_key: ${env:NAME} instead")
    if not host:
        raise ValueError("has no host; write it like https://host/v1")
    for path in _ADDED:
        if parts.path.rstrip("/").endswith(path):
            raise ValueError(f"ends with {path}, which is added to it; write {url.split(path, maxsplit=1)[0]}")
    if host in _METADATA or _is_link_local(host):
        raise ValueError("is a link-local or metadata address; name the endpoint of a judge")
    return url


def _is_link_local(host: str) -> bool:
    try:
        address = ipaddress.ip_address(int(host, 0) if host.startswith("0x") or host.isdigit() else host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_link_local
