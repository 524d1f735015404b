"""Security of the page: who may see it, and what a browser may do with it.

The page shows what users wrote. Beyond the loopback it requires a token: a bearer token, or in a browser a cookie that
a token was exchanged for. The cookie holds no token but a signature by it over the time at which the cookie expires, so
it needs no store, is valid after a restart and in every process, and ends with its token.

On the loopback, too, a foreign site open in the same browser is a danger: it must not read (a name that suddenly points
to 127.0.0.1: only known hosts are answered), not write (a label needs JSON and the page's own origin), not frame it,
and evaluated text must never run (a strict Content-Security-Policy).
"""

import ipaddress
import logging
import time
import traceback
from collections.abc import Awaitable, Callable, Collection, Mapping
from urllib.parse import urlsplit

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from collector.admission.fair_limit import address_key
from collector.errors import BadInput
from collector.logs.log import LogUnavailable
from collector.receive.access import BearerTokens
from collector.receive.rejection import Rejected

logger = logging.getLogger(__name__)

Guard = Callable[[web.BaseRequest], Awaitable[None]]
"""Checks a request before its body is read. Raises Rejected (401, 403)."""

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


def security_middleware(
    hosts: Collection[str], guard: Guard | None, login: Callable[[str], web.Response] | None = None
) -> Middleware:
    """Rejects foreign hosts and whom `guard` rejects, and gives every answer its headers and every error one form.

    A request for a page without authentication is answered with `login`, given what was wrong with the token.
    """

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        response = await _answer(request, handler, hosts, guard, login)
        if not response.prepared:
            response.headers.update({**_HEADERS, **response.headers})
        return response

    return middleware


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
    except Rejected as error:
        is_page = request.path in ("/", "/login") and "Authorization" not in request.headers
        if error.status == 401 and login is not None and is_page:
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
    """The form that takes a token. Its policy makes browsers send the origin, so that no other site can submit it."""
    policy = _HEADERS["Content-Security-Policy"].replace("form-action 'none'", "form-action 'self'")
    headers = {"Content-Security-Policy": policy, "Referrer-Policy": "same-origin", "WWW-Authenticate": "Bearer"}
    return web.Response(
        status=401, text=template.replace("<!-- problem -->", problem), content_type="text/html", headers=headers
    )


def failure(status: int, message: str, headers: Mapping[str, str] | None = None) -> web.Response:
    """An error as JSON."""
    body = orjson.dumps({"error": message})
    return web.Response(status=status, body=body, content_type="application/json", headers=headers)


def _known_host(request: web.Request, hosts: Collection[str]) -> None:
    name = (urlsplit(f"//{request.host}").hostname or "").lower()
    if name != "localhost" and name not in hosts and not _is_address(name):
        raise Rejected(403, "the page is not known by this name; add it to page.allowed_hosts")


def _is_address(name: str) -> bool:
    """A numeric address cannot be rebound, as a name can."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


COOKIE = "evalstream_page"
SESSION = 12 * 3600
"""Seconds for which a browser stays signed in."""
PUBLIC_PATHS = frozenset({"/login", "/assets/base.css", "/assets/icon.svg"})
"""Paths without authentication: what the sign-in form needs."""


class Login:
    """Authentication of the page's requests. `secure`: browsers send the cookie over TLS only."""

    def __init__(self, tokens: BearerTokens, *, secure: bool = False, clock: Callable[[], float] = time.time) -> None:
        self._tokens = tokens
        self._secure = secure
        self._clock = clock

    async def __call__(self, request: web.BaseRequest) -> None:
        """Let the request in.

        Raises:
            Rejected: 401.
        """
        if request.path in PUBLIC_PATHS or self._is_valid(request.cookies.get(COOKIE, "")):
            return
        await self._tokens.authenticate(request)

    async def sign_in(self, request: web.Request) -> web.Response:
        """Accept the form with a token; answers with the cookie and redirects to the page.

        Raises:
            Rejected: 401, 403 or 415.
        """
        require_same_origin(request, "application/x-www-form-urlencoded")
        token = _text(await request.post(), "token").strip()
        if not await self._tokens.is_right(token, address_key(request.remote)):
            raise Rejected(401, "this token is not known; ask for one that is in the configuration")
        response = web.Response(status=303, headers={"Location": "./"})
        ends = str(int(self._clock()) + SESSION)
        response.set_cookie(
            COOKIE,
            f"{ends}.{self._tokens.sign(token, _signed_text(ends))}",
            max_age=SESSION,
            httponly=True,
            samesite="Strict",
            secure=self._secure,
        )
        return response

    def _is_valid(self, cookie: str) -> bool:
        ends, _, signature = cookie.partition(".")
        if not (ends.isascii() and ends.isdigit() and len(ends) < 15 and int(ends) > self._clock()):
            return False
        return self._tokens.verify(_signed_text(ends), signature)


def _signed_text(ends: str) -> str:
    return f"evalstream page until {ends}"


def _text(form: Mapping[str, object], name: str) -> str:
    value = form.get(name, "")
    return value if isinstance(value, str) else ""


def require_same_origin(request: web.Request, content_type: str) -> None:
    """Require this content type, and a page of this very origin or a program that is not a browser.

    Why not a CSRF token: every browser that sends cookies also sends `Origin` or `Sec-Fetch-Site`, which scripts cannot
    forge, and the page stays without state. A program sends no cookies; a request with one must name its origin.

    Raises:
        Rejected: anything else.
    """
    if request.content_type != content_type:
        raise Rejected(415, f"send {content_type}")
    origin = request.headers.get("Origin")
    if origin is not None and urlsplit(origin).netloc.lower() != request.host.lower():
        raise Rejected(403, "this comes from another site")
    site = request.headers.get("Sec-Fetch-Site", "same-origin" if origin or not request.cookies else "")
    if site != "same-origin":
        raise Rejected(403, "this comes from another site")
