"""Server of the page: its files, its API in JSON, and a stream of events that report changes.

`GET /` and `/assets/*` are the page, `/api/overview`, `/api/evaluations` and `/api/evaluations/{id}` what it shows,
`/api/changes` the stream of events. `POST /api/evaluations/{id}/labels` takes a label, `…/{id}/retry` has a failed
evaluation made again, `POST /login` takes a token. `/queue` is where people label without seeing scores:
`GET /api/queue` gives the next one, `POST /api/queue/{id}` takes what they say, and only then tells the score.
`/api/evaluations/{id}/questions` has the questions of an evaluation. `/v1/releases/{attribute}/{version}` decides on a
version, for controllers and scripts.

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
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import KW_ONLY, InitVar, dataclass
from datetime import UTC, datetime
from functools import partial
from importlib import resources
from typing import Any
from urllib.parse import urlsplit

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from collector.admission.fair_limit import address_key
from collector.admission.listener import Address, serving
from collector.errors import BadInput
from collector.evaluate.retry.request import append_requests
from collector.logs.log import RETRY, Log, LogUnavailable, OpenFold
from collector.logs.whole_log import end_offsets
from collector.page.api import PageApi
from collector.page.change_notifier import ChangeNotifier
from collector.page.label_queue import LabelQueue, QueueVerdict
from collector.page.requests import append_labels, build_label, build_retry, parse_body, parse_filters, parse_gate
from collector.page.score_series import RETENTION, SumsHistory
from collector.page.settings import PageSettings
from collector.page.sources import Sources
from collector.page.stage import EVALUATIONS_GROUP, LABELS_GROUP, TURNS_GROUP, PageStage
from collector.page.view import EvaluatorView, ListedEvaluation, View
from collector.receive.access import BearerTokens, ssl_context_of
from collector.receive.rejection import Rejected
from collector.records.json import label_to_json
from collector.telemetry.plain import fault_of
from evaluators.results import Label

logger = logging.getLogger(__name__)

Guard = Callable[[web.BaseRequest], Awaitable[None]]
"""Checks a request before its body is read. Raises Rejected (401, 403)."""

_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
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
    except web.HTTPNotFound as error:
        here = request.path.startswith("/v1/") and request.method == "POST"
        return failure(error.status, "this is the page; traces go to receive.otlp_http" if here else error.reason)
    except web.HTTPException as error:
        return failure(error.status, error.reason)
    except ConnectionResetError:  # raised on, it would be logged as a fault of the server
        return failure(400, "the browser has gone")
    except Exception as error:  # noqa: BLE001 - the last place before the browser: a bug is answered and logged
        logger.error("the page failed: %s", fault_of(error))  # noqa: TRY400 - the message may hold judged text
        return failure(500, "internal error")


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
            COOKIE, f"{ends}.{self._tokens.sign(token, _signed_text(ends))}", max_age=SESSION, httponly=True,
            samesite="Strict", secure=self._secure,
        )  # fmt: skip
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
    if request.headers.get("Sec-Fetch-Site", "same-origin" if origin or not request.cookies else "") != "same-origin":
        raise Rejected(403, "this comes from another site")


MOST_CONNECTIONS = 256
MOST_STREAMS = 64
"""Browsers that may wait for changes at once."""
_KEEP_ALIVE = 15.0
_LARGEST_LABEL = 64 * 1024
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


Guarded = Callable[[str, Log, OpenFold], OpenFold]
Start = Callable[[str, Callable[[], Coroutine[Any, Any, None]], str], object]
"""Starts a background task of a kind, with its name."""
"""Wraps the folds with which a group consumes a log."""


@dataclass(frozen=True, slots=True)
class PageLogs:
    """The logs that the page reads; without a history it shows no sums of the past."""

    evaluations: Log
    labels: Log
    turns: Log
    history: Log | None = None


@dataclass(eq=False, repr=False)
class Page:
    """A stage over the logs of turns, evaluations and labels that shows what it reads, and appends what people do."""

    settings: PageSettings
    logs: PageLogs
    evaluators_in_use: InitVar[Sequence[EvaluatorView]] = ()
    _: KW_ONLY
    sources: InitVar[Sources | None] = None
    login: Login | None = None
    on_refused: Callable[[], object] = lambda: None
    clock: Callable[[], float] = time.time

    def __post_init__(self, evaluators_in_use: Sequence[EvaluatorView], sources: Sources | None) -> None:
        settings = self.settings
        self.view = View(
            evaluators_in_use, evaluations=settings.max_evaluations, text_bytes=settings.max_text_bytes,
            keep=settings.max_age, started=self.clock(),
        )  # fmt: skip
        self._ssl_context = ssl_context_of(settings.tls, "page") if settings.tls else None
        self._changes = ChangeNotifier()
        self._streams = 0
        self._files = _files()
        self._answers = PageApi(self.view, settings, sources or Sources())
        self._queue = LabelQueue(self.view, settings.queue, (sources or Sources()).draw_key)
        self._history = None if self.logs.history is None else SumsHistory(self.logs.history)
        self.stage = PageStage(self.view, self._changes.notify, self._history)

    async def follow(self, start: Start, guarded: Guarded = lambda _group, _log, open_fold: open_fold) -> None:
        """Keep the view up to date with all three logs, each followed by a task of its own. `guarded` wraps the folds.

        The history is counted first; everything after it is read from the evaluations.
        """
        if self._history is not None:
            read = partial(self._history.read_on, self.clock() - RETENTION)
            stretches = await RETRY.repeat(read, LogUnavailable, action="reading the history of scores")
            ends = partial(end_offsets, self.logs.evaluations)
            known = await RETRY.repeat(ends, LogUnavailable, action="reading evaluations")
            for stretch in stretches:  # after all that may fail, and begin again
                self.view.restore(stretch)
            for partition, end in enumerate(known):
                self.view.end_at(partition, end)
        folds = [
            (self.logs.turns, TURNS_GROUP, self.stage.open_turns),
            (self.logs.evaluations, EVALUATIONS_GROUP, self.stage.open_evaluations),
            (self.logs.labels, LABELS_GROUP, self.stage.open_labels),
        ]
        for log, group, open_fold in folds:
            start("page", partial(log.follow, group, guarded(group, log, open_fold)), group)

    def part(self) -> str | None:
        """The sentence that the page lacks what another process has; None where it has all, or nothing yet."""
        has, of = len(self.stage.partitions), self.logs.evaluations.partitions
        text = f"this page shows {has} of {of} partitions: another process has the others; run page in one process"
        return None if has in (0, of) else text

    def routes(self) -> web.Application:
        """A new application with all routes."""
        hosts = [name.lower() for name in self.settings.allowed_hosts]
        guard = security_middleware(hosts, self.login, self._login)
        application = web.Application(middlewares=[guard], client_max_size=_LARGEST_LABEL)
        application.router.add_get("/", self._file)
        application.router.add_get("/assets/{name}", self._file)
        if self.login is not None:
            application.router.add_post("/login", self.login.sign_in)
            application.router.add_get("/login", _to_the_page)
        application.router.add_get("/api/overview", self._overview)
        application.router.add_get("/api/evaluations", self._list)
        application.router.add_get("/api/evaluations/{id}", self._detail)
        application.router.add_get("/api/evaluations/{id}/questions", self._questions)
        application.router.add_post("/api/evaluations/{id}/labels", self._label)
        application.router.add_post("/api/evaluations/{id}/retry", self._retry)
        for method in ("GET", "POST"):  # controllers call webhooks by POST
            application.router.add_route(method, "/v1/releases/{attribute}/{version:.+}", self._gate)
        application.router.add_get("/{name:queue}", self._file)
        application.router.add_get("/api/queue", self._queue_next)
        application.router.add_post("/api/queue/{id}", self._queue_label)
        application.router.add_get("/api/changes", self._stream)
        application.on_shutdown.append(self._stop)
        return application

    def serve(self) -> AbstractAsyncContextManager[int]:
        """Serve until left; gives the port.

        Raises:
            ConfigError: the address cannot be bound.
        """
        return serving(
            self.routes(), address=Address("page", self.settings.host, self.settings.port),
            max_connections=MOST_CONNECTIONS, idle_timeout=30.0, stop_grace=2.0, ssl_context=self._ssl_context,
            on_refused=self.on_refused,
        )  # fmt: skip

    async def _stop(self, _application: web.Application) -> None:
        self._changes.close()

    def _login(self, problem: str) -> web.Response:
        return login_page(self._files["login.html"].decode(), problem)

    async def _file(self, request: web.Request) -> web.Response:
        name = request.match_info.get("name", "index")
        name = name if "." in name else f"{name}.html"
        if name not in self._files:
            raise web.HTTPNotFound
        return web.Response(body=self._files[name], content_type=_TYPES[name[name.rindex(".") :]], charset="utf-8")

    async def _overview(self, request: web.Request) -> web.Response:
        self.view.expire(self.clock())
        return _json(self._answers.overview(parse_filters(request.query), self.clock()) | {"part": self.part()})

    async def _list(self, request: web.Request) -> web.Response:
        answer = self._answers.evaluations(parse_filters(request.query), self.clock())
        return _json(answer | {"reads_back": self.stage.reads_back})

    async def _detail(self, request: web.Request) -> web.Response:
        return _json(self._answers.evaluation(self._find_evaluation(request)))

    async def _questions(self, request: web.Request) -> web.Response:
        find, evaluation = self._answers.sources.questions, self._find_evaluation(request).evaluation
        if find is None or not self.settings.show_text:
            raise Rejected(409, "texts are not stored or hidden (store_text, page.show_text), so no question is shown")
        case = self.view.turn_cache.case_of(evaluation)
        answer = await find(evaluation, case) if case is not None else None
        if answer is None:
            raise Rejected(404, "its turns are no longer on the page, or its evaluator is no longer configured")
        return _json(answer)

    async def _label(self, request: web.Request) -> web.Response:
        require_same_origin(request, "application/json")
        listed = self._find_evaluation(request)
        label = build_label(self.view, listed, await request.read(), datetime.fromtimestamp(self.clock(), UTC))
        await self._take(label)
        return web.Response(status=201, body=label_to_json(label), content_type="application/json")

    async def _take(self, *labels: Label) -> None:
        await append_labels(self.logs.labels, labels)
        for label in labels:
            self.view.add_label(label)  # it also comes back through the log; this answers at once
        self._changes.notify()

    async def _gate(self, request: web.Request) -> web.Response:
        gate_request = parse_gate({**request.query, **request.match_info})
        gate = self._answers.sources.gate
        answer = gate(gate_request) if gate else None
        if answer is None:
            where = f"monitors.{gate_request.monitor or '<name>'}.compare"
            raise Rejected(404, f"no monitor compares {gate_request.attribute!r} here; add it to {where}")
        return _json(answer, 200 if gate_request.expect in (None, answer["decision"]) else 409)

    async def _queue_next(self, request: web.Request) -> web.Response:
        if not self.settings.show_text:
            raise Rejected(409, "texts are hidden here (page.show_text), so there is nothing to read and to label")
        wanted = {name: request.query.get(name, "")[:200] for name in ("by", "evaluator", "monitor")}
        self.view.expire(self.clock())
        answer = self._answers.queue_next(self._queue, wanted["by"], wanted["evaluator"], wanted["monitor"])
        if answer["item"] is None:
            self._refuse_while_reading_back()  # a program took it for the end
        return _json(answer)

    async def _queue_label(self, request: web.Request) -> web.Response:
        require_same_origin(request, "application/json")
        queued = self._queue.get(self._find_evaluation(request))
        verdict, now = parse_body(QueueVerdict, await request.read()), datetime.fromtimestamp(self.clock(), UTC)
        answer = (queued, *self._queue.get_others(queued, verdict))
        labels = [self._queue.label_of(judged, verdict, now) for judged in answer]
        await self._take(*labels)
        return _json(self._answers.queue_verdict(queued.listed, labels[0]))

    async def _retry(self, request: web.Request) -> web.Response:
        require_same_origin(request, "application/json")
        if self.login is None and not self.settings.only_operators:
            raise Rejected(403, "making an evaluation again costs money, so it needs a token; write page.auth")
        listed = self._find_evaluation(request)
        if await append_requests(self.logs.turns, [(build_retry(self.view, listed), listed.partition)]):
            raise Rejected(413, "with its turns it is larger than a record of the log may be")
        listed.requested = True
        return web.Response(status=202, body=b"{}", content_type="application/json")

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        if self._streams >= MOST_STREAMS:
            raise Rejected(503, "too many pages are open", retry_after=30)
        self._streams += 1
        try:
            return await self._send_events(request)
        finally:
            self._streams -= 1

    async def _send_events(self, request: web.Request) -> web.StreamResponse:
        headers = {**_HEADERS, "Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
        response = web.StreamResponse(headers=headers)  # it begins before the middleware sees it
        await response.prepare(request)
        try:
            await response.write(b"retry: 2000\n\n")
            sent = -1
            while not self._changes.closed:
                if sent != self.view.version:
                    sent = self.view.version
                    await response.write(b"event: changed\ndata: %d\n\n" % sent)
                elif not await self._changes.wait(_KEEP_ALIVE):
                    await response.write(b": still here\n\n")
        except ConnectionError:
            pass  # the browser has gone
        return response

    def _find_evaluation(self, request: web.Request) -> ListedEvaluation:
        listed = self.view.get(request.match_info["id"])
        if listed is None:
            self._refuse_while_reading_back()
            raise Rejected(404, "this evaluation is not on the page: it is too old, or never was there")
        return listed

    def _refuse_while_reading_back(self) -> None:
        if self.stage.reads_back:
            why = "the page still reads back what was there before its start"
            raise Rejected(503, why, headers={"Retry-After": "5"})


async def _to_the_page(_request: web.Request) -> web.Response:
    return web.Response(status=303, headers={"Location": "./"})


def _files() -> dict[str, bytes]:
    """Every file of the page by its name: nothing else can be asked for."""
    folder = resources.files("collector.page") / "assets"
    return {entry.name: entry.read_bytes() for entry in folder.iterdir() if entry.name.endswith(tuple(_TYPES))}


def _json(value: Any, status: int = 200) -> web.Response:
    body = orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)
    return web.Response(status=status, body=body, content_type="application/json")
