"""The server: stdio for an agent on this machine, HTTP for those whom the page accepts."""

from __future__ import annotations

import hashlib
import importlib
import os
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from functools import wraps
from http import HTTPStatus
from pathlib import Path
from typing import Any

import orjson

from collector.commands.mcp.command_runner import CommandRunner
from collector.commands.mcp.page_reader import PageReader, PageUnavailable
from collector.commands.mcp.tools import INSTRUCTIONS, Tools
from collector.errors import ConfigError, EvalstreamError
from collector.page.settings import PageSettings
from collector.receive.access import is_loopback

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_BELIEVED = 30.0
"""Seconds for which the page's word about a token counts."""
_MOST_TOKENS = 1000
_LARGEST_PORT = 65535
_VARIABLE = "EVALSTREAM_PAGE_TOKEN"


@dataclass(frozen=True, slots=True, kw_only=True)
class McpOptions:
    """The command's options; `token` opens the page, where it needs one."""

    config: Path
    page: str
    token: str | None = None


def make_server(options: McpOptions) -> Any:
    """The server with all tools. Raises ConfigError without the extra `mcp`."""
    try:
        library: Any = importlib.import_module("mcp.server")
        types: Any = importlib.import_module("mcp_types")
        exceptions: Any = importlib.import_module("mcp.server.mcpserver.exceptions")
    except ImportError:
        raise ConfigError("mcp needs the extra `mcp`; install evalstream[mcp]") from None
    tools = Tools(PageReader(options.page, options.token), CommandRunner(options.config))
    server: Any = library.MCPServer("evalstream", instructions=INSTRUCTIONS, log_level="WARNING")
    read_only = types.ToolAnnotations(read_only_hint=True, destructive_hint=False, open_world_hint=False)
    for function in tools.functions:
        tool = _with_sentences(function, exceptions.ToolError)
        server.tool(annotations=read_only, structured_output=False)(tool)
    return server


def _with_sentences(function: Callable[..., Awaitable[Any]], error_of: Callable[[str], Exception]) -> Any:
    """The same tool, whose own errors reach the agent: the library hides those that it does not know."""

    @wraps(function)
    async def tool(*arguments: Any, **named: Any) -> Any:
        try:
            return await function(*arguments, **named)
        except EvalstreamError as error:
            raise error_of(str(error)) from error

    return tool


def page_address(settings: PageSettings | None) -> str:
    """The address of a configuration's page on this machine. Raises ConfigError without one."""
    if settings is None:
        raise ConfigError("the configuration has no page, which answers what agents ask; write `page: {}`, or --page")
    host = settings.host if is_loopback(settings.host) else "127.0.0.1"
    return f"{'https' if settings.tls else 'http'}://{host}:{settings.port}"


def page_token(file: Path | None) -> str | None:
    """The token in a file, or in EVALSTREAM_PAGE_TOKEN. Raises ConfigError."""
    if file is None:
        return os.environ.get(_VARIABLE) or None
    try:
        return file.read_text().strip()
    except OSError as error:
        raise ConfigError(f"--token-file: {file} cannot be read ({error.strerror})") from error


def address_of(text: str) -> tuple[str, int]:
    """The host and port of --http. Raises ConfigError."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > _LARGEST_PORT:
        raise ConfigError(f"--http: {text!r} is no address; write it like 127.0.0.1:8322")
    return host.strip("[]"), int(port)


async def serve_stdio(options: McpOptions) -> None:
    """Serve an agent over stdin and stdout until it leaves. Raises ConfigError."""
    await make_server(options).run_stdio_async()


async def serve_http(options: McpOptions, host: str, port: int) -> None:
    """Serve agents over HTTP, at /mcp, until stopped.

    Raises:
        ConfigError: the page is not there, or would give everybody what it shows on this machine alone.
    """
    server = make_server(options)
    page = PageReader(options.page, options.token)
    try:
        is_open = await page.status(None) == HTTPStatus.OK
    except PageUnavailable as error:
        raise ConfigError(str(error)) from error
    if is_open and not is_loopback(host):
        raise ConfigError(
            f"--http {host}:{port}: the page needs no token, so everybody could read it there; set page.auth, or "
            "name 127.0.0.1"
        )
    uvicorn: Any = importlib.import_module("uvicorn")
    application = Gate(server.streamable_http_app(host=host, stateless_http=True, json_response=True), page)
    config = uvicorn.Config(application, host=host, port=port, log_level="warning", access_log=False)
    http: Any = uvicorn.Server(config)
    try:
        await http.serve()
    finally:
        if http.started and not http.should_exit:  # cancelled: it leaves its socket open
            await http.shutdown()


class Gate:
    """Lets requests through that have a token which the page accepts; any, where the page needs none."""

    def __init__(self, application: App, page: PageReader, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._application = application
        self._page = page
        self._clock = clock
        self._accepted: dict[bytes, float] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, as ASGI has it."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        try:
            status = await self._status(_token(scope))
        except PageUnavailable:
            status = HTTPStatus.SERVICE_UNAVAILABLE
        if status == HTTPStatus.OK:
            await self._application(scope, receive, send)
            return
        await _refuse(send, status)

    async def _status(self, token: str | None) -> int:
        now, key = self._clock(), hashlib.sha256((token or "").encode()).digest()
        if key in self._accepted and self._accepted[key] + _BELIEVED > now:
            return HTTPStatus.OK
        self._accepted.pop(key, None)
        status = await self._page.status(token)
        if status == HTTPStatus.OK:
            if len(self._accepted) >= _MOST_TOKENS:
                self._accepted.clear()
            self._accepted[key] = now
        return status


def _token(scope: Scope) -> str | None:
    for name, value in scope["headers"]:
        if name == b"authorization" and value[:7].lower() == b"bearer ":
            return bytes(value[7:]).decode("latin-1").strip()
    return None


async def _refuse(send: Send, status: int) -> None:
    body = orjson.dumps({"error": "the page does not accept this token"})
    headers = [(b"content-type", b"application/json"), (b"www-authenticate", b"Bearer")]
    await send({"type": "http.response.start", "status": int(status), "headers": headers})
    await send({"type": "http.response.body", "body": body})
