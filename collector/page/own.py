"""Whether something is sent by the page itself, and not by another site that is open in the same browser."""

from __future__ import annotations

from urllib.parse import urlsplit

from aiohttp import web

from collector.receive.refusal import Refused


def from_this_page(request: web.Request, content_type: str) -> None:
    """Let through only this content type from a page of this very origin, or from a program that is no browser.

    A program has no cookies: who sends one has to say where it comes from, as every browser does.

    Raises:
        Refused: anything else.
    """
    if request.content_type != content_type:
        raise Refused(415, f"send {content_type}")
    origin = request.headers.get("Origin")
    if origin is not None and urlsplit(origin).netloc.lower() != request.host.lower():
        raise Refused(403, "this comes from another site")
    site = request.headers.get("Sec-Fetch-Site", "same-origin" if origin or not request.cookies else "")
    if site != "same-origin":
        raise Refused(403, "this comes from another site")
