"""Who may ask for the page, and what a browser may do with it.

The page shows what users said. Beyond the loopback it takes a token (`door.py`). On the loopback, too, a foreign site
open in the same browser is a danger: it must not read (a name that suddenly points to 127.0.0.1: only known hosts are
answered), not write (a label needs JSON and the page's own origin), not frame it, and judged text must never run (a
strict Content-Security-Policy).
"""

from __future__ import annotations

import ipaddress
import logging
import traceback
from collections.abc import Callable, Collection, Mapping
from urllib.parse import urlsplit

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from collector.errors import BadInput
from collector.logs.log import LogUnavailable
from collector.receive.otlp_http import Guard
from collector.receive.refusal import Refused

logger = logging.getLogger(__name__)

_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def guarded(
    hosts: Collection[str], guard: Guard | None, login: Callable[[str], web.Response] | None = None
) -> Middleware:
    """Turns away foreign hosts and whom `guard` refuses, and gives every answer its headers and errors one form.

    Who asks for a page without a right to it is answered with `login`, given what was wrong with what was sent.
    """

    @web.middleware
    async def look(request: web.Request, handler: Handler) -> web.StreamResponse:
        response = await _answer(request, handler, hosts, guard, login)
        if not response.prepared:
            response.headers.update({**_HEADERS, **response.headers})
        return response

    return look


async def _answer(
    request: web.Request,
    handler: Handler,
    hosts: Collection[str],
    guard: Guard | None,
    login: Callable[[str], web.Response] | None,
) -> web.StreamResponse:
    try:
        _known_host(request, hosts)
        if guard is not None:
            await guard(request)
        return await handler(request)
    except Refused as error:
        if error.status == 401 and login is not None and _is_page(request):
            return login(error.message if request.method == "POST" else "")
        return failure(error.status, error.message, error.headers)
    except BadInput as error:
        return failure(400, str(error))
    except LogUnavailable:
        return failure(503, "the log cannot be written now; try again")
    except web.HTTPException as error:
        return failure(error.status, error.reason)
    except Exception as error:  # noqa: BLE001 - the last place before the browser: a bug is answered and logged
        frame = traceback.extract_tb(error.__traceback__)[-1]
        logger.error("the page failed: %s at %s:%s", type(error).__name__, frame.filename, frame.lineno)  # noqa: TRY400 - the message may hold judged text
        return failure(500, "internal error")


def streaming_headers() -> dict[str, str]:
    """Headers of an answer that begins before the middleware sees it."""
    return {**_HEADERS, "Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}


def login_page(template: str, problem: str) -> web.Response:
    """The form that takes a token. Its origin has to be told to us, so that no other site can send it."""
    policy = _HEADERS["Content-Security-Policy"].replace("form-action 'none'", "form-action 'self'")
    headers = {"Content-Security-Policy": policy, "Referrer-Policy": "same-origin", "WWW-Authenticate": "Bearer"}
    return web.Response(
        status=401, text=template.replace("<!-- problem -->", problem), content_type="text/html", headers=headers
    )


def _is_page(request: web.Request) -> bool:
    return request.path in ("/", "/login") and "Authorization" not in request.headers


def failure(status: int, message: str, headers: Mapping[str, str] | None = None) -> web.Response:
    """An error as JSON."""
    body = orjson.dumps({"error": message})
    return web.Response(status=status, body=body, content_type="application/json", headers=headers)


def _known_host(request: web.Request, hosts: Collection[str]) -> None:
    name = (urlsplit(f"//{request.host}").hostname or "").lower()
    if name != "localhost" and name not in hosts and not _is_address(name):
        raise Refused(403, "the page is not known by this name; add it to page.hosts")


def _is_address(name: str) -> bool:
    """An address in numbers cannot be pointed elsewhere, as a name can."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
