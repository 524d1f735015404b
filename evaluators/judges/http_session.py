"""HTTP sessions to an endpoint of judges."""

from __future__ import annotations

import io
import os
import ssl
from collections.abc import Mapping
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

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
    """The proxy to an address: the given one, else that which the environment names for it, if any."""
    if proxy is None:
        parts = urlsplit(url)
        named = getproxies()
        proxy = None if proxy_bypass(parts.netloc) else named.get(parts.scheme) or named.get("all")
    if not proxy:
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


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
