"""Who may see the page: bearer tokens, or in a browser a cookie that was given for one.

The cookie holds no token but what a token makes of the time at which the cookie ends, so it needs no store, holds
after a restart and in every process, and ends with its token. `HttpOnly` keeps it from scripts, `SameSite=Strict` from
requests that other sites cause.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from aiohttp import web

from collector.page.own import from_this_page
from collector.receive.access import Tokens
from collector.receive.refusal import Refused

COOKIE = "evalstream_page"
SESSION = 12 * 3600
"""Seconds for which a browser is let in."""
OPEN = frozenset({"/login", "/assets/base.css", "/assets/icon.svg"})
"""What everybody may ask for: what it takes to show a token."""


class Door:
    """The guard of the page. `secure`: browsers send the cookie over TLS alone."""

    def __init__(self, tokens: Tokens, *, secure: bool = False, clock: Callable[[], float] = time.time) -> None:
        self._tokens = tokens
        self._secure = secure
        self._clock = clock

    async def __call__(self, request: web.BaseRequest) -> None:
        """Let the request in.

        Raises:
            Refused: 401.
        """
        if request.path in OPEN or self._good(request.cookies.get(COOKIE, "")):
            return
        await self._tokens.guard(request)

    async def login(self, request: web.Request) -> web.Response:
        """Take the form with a token; gives the cookie and leads to the page.

        Raises:
            Refused: 401, 403 or 415.
        """
        from_this_page(request, "application/x-www-form-urlencoded")
        shown = _text(await request.post(), "token").strip()
        if not self._tokens.know(shown):
            raise Refused(401, "this token is not known; ask for one that is in the configuration")
        response = web.Response(status=303, headers={"Location": "./"})
        ends = str(int(self._clock()) + SESSION)
        response.set_cookie(
            COOKIE,
            f"{ends}.{self._tokens.sign(shown, _said(ends))}",
            max_age=SESSION,
            httponly=True,
            samesite="Strict",
            secure=self._secure,
        )
        return response

    def _good(self, cookie: str) -> bool:
        ends, _, signature = cookie.partition(".")
        if not (ends.isascii() and ends.isdigit() and len(ends) < 15 and int(ends) > self._clock()):
            return False
        return self._tokens.signed(_said(ends), signature)


def _said(ends: str) -> str:
    return f"evalstream page until {ends}"


def _text(form: Mapping[str, object], name: str) -> str:
    value = form.get(name, "")
    return value if isinstance(value, str) else ""
