"""HTTP sessions to an endpoint of judges."""

from __future__ import annotations

import io
import os
import ssl
from collections.abc import Mapping
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from evaluators.errors import JudgeUnavailable

_MOST_CONNECTIONS = 1000
_LONG = 1 << 20
"""Bytes of a body beyond which aiohttp warns of one that is written at once."""


def trusting(ssl_context: ssl.SSLContext | None) -> ssl.SSLContext | None:
    """The given context, else one with the certificates that the environment names; None for the usual authorities.

    Raises:
        OSError: they cannot be read.
    """
    file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    if ssl_context is not None or not (file or folder):
        return ssl_context
    return ssl.create_default_context(cafile=file or None, capath=folder or None)


def proxy_for(url: str, proxy: str | None) -> str | None:
    """The proxy to an address: the given one, else that which the environment names for it, if any.

    Raises:
        JudgeUnavailable: the environment names one of another kind than HTTP.
    """
    if proxy is None:
        parts = urlsplit(url)
        named = getproxies()
        proxy = None if proxy_bypass(parts.netloc) else named.get(parts.scheme) or named.get("all")
    if not proxy:
        return None
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    if not proxy.lower().startswith(("http://", "https://")):
        kind = proxy.partition(":")[0]
        raise JudgeUnavailable(
            f"no connection to the judge: the environment names a proxy of the kind {kind}, and only HTTP proxies are "
            "spoken to; name one with the judge's key `proxy`, or put the judge's host into NO_PROXY"
        )
    return proxy


def is_success(status: int) -> bool:
    """Whether the status of a response says so; a redirect is none, as nobody is followed elsewhere."""
    return 200 <= status < 300


def body_of(content: bytes) -> bytes | io.BytesIO:
    """The content as a session takes it: what is long is written piece by piece, and does not hold the loop."""
    return content if len(content) <= _LONG else io.BytesIO(content)


def open_session(
    headers: Mapping[str, str], *, ssl_context: ssl.SSLContext | None, proxy: str | None, timeout: aiohttp.ClientTimeout
) -> aiohttp.ClientSession:
    """A session of the running event loop, without cookies. Close it.

    The proxy is given and not left to the session, which would look into `.netrc` for each request, too.
    """
    connector = aiohttp.TCPConnector(ssl=ssl_context or True, limit=_MOST_CONNECTIONS)
    return aiohttp.ClientSession(
        connector=connector, cookie_jar=aiohttp.DummyCookieJar(), headers=headers, proxy=proxy, timeout=timeout
    )
