"""Endpoints of the configuration: without secrets, and not the metadata address of a cloud."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from typing import Literal
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


Cloud = Literal["azure", "aws", "google"]
_CLOUDS: Mapping[str, Cloud] = {
    ".openai.azure.com": "azure",
    ".cognitiveservices.azure.com": "azure",
    ".services.ai.azure.com": "azure",
    ".amazonaws.com": "aws",
    ".api.aws": "aws",
    "aiplatform.googleapis.com": "google",
}


def cloud_of(url: str) -> Cloud | None:
    """The cloud whose identities the official client can show at an address; None elsewhere."""
    host = urlsplit(url).hostname or ""
    return next((cloud for end, cloud in _CLOUDS.items() if host.endswith(end)), None)


def is_classic_azure(url: str) -> bool:
    """Whether an address of Azure has deployments and versions of its API in its paths, which the client writes."""
    return cloud_of(url) == "azure" and "/openai/v1" not in urlsplit(url).path


def only_by_client(url: str, *, has_key: bool) -> bool:
    """Whether only the official client can ask at an address: see `judges.<name>.client`."""
    at_openai = urlsplit(url).hostname == "api.openai.com"
    named = at_openai and any(os.environ.get(name) for name in ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID"))
    return named or is_classic_azure(url) or (cloud_of(url) is not None and not has_key)


def _is_link_local(host: str) -> bool:
    try:
        address = ipaddress.ip_address(int(host, 0) if host.startswith("0x") or host.isdigit() else host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_link_local
