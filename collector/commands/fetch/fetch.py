"""The command: reads traces from a source into a file, a trace in each line."""

import base64
import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO

import orjson
from google.protobuf.json_format import MessageToDict

from collector.backoff import Backoff
from collector.commands.fetch import jaeger, langfuse, mlflow, phoenix, tempo
from collector.commands.fetch.api_reader import LONGEST, TIMEOUT, ApiReader, Document, authorization
from collector.commands.fetch.source import Source, Wanted, objects
from collector.config.command_options import refuse_existing, require_window
from collector.errors import DONE, FAILED, BadInput, ConfigError
from collector.otlp.decode import read_request, request_from_protobuf, split_by_trace
from collector.wording import plural, unknown
from evaluators.private_files import open_private
from evaluators.secret_files import SecretFiles
from evaluators.wire.http_client import HttpClient

SOURCES: Mapping[str, Source] = MappingProxyType({
    "tempo": tempo.SOURCE,
    "jaeger": jaeger.SOURCE,
    "phoenix": phoenix.SOURCE,
    "langfuse": langfuse.SOURCE,
    "mlflow": mlflow.SOURCE,
})  # fmt: skip


_PART = ".part"


@contextmanager
def whole_file(path: Path) -> Generator[BinaryIO, None, None]:
    """A file to write, which has its name only once the block has ended without an error.

    Raises:
        ConfigError: it exists already, or cannot be written.
    """
    part = path.with_name(f"{path.name}.{os.getpid()}{_PART}")
    refuse_existing(path)
    try:
        with open(part, "xb", opener=open_private) as file:
            try:
                yield file
                file.flush()
                os.fsync(file.fileno())
                refuse_existing(path)  # once more: reading may take an hour
                part.rename(path)
            finally:
                part.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written ({error.strerror}); name another file with --output") from None


_IDS = ("traceId", "spanId", "parentSpanId")


def trace_lines(request: bytes) -> Iterator[tuple[str, bytes]]:
    """The traces in a request, in either encoding: their ids in hex, and a line for each, without its end.

    Raises:
        BadInput: it is no OTLP request.
    """
    for trace_id, piece in split_by_trace(read_request(request, "traces")).pieces:
        document = MessageToDict(request_from_protobuf(piece, "traces"), use_integers_for_enums=True)
        yield trace_id, orjson.dumps(_with_hex_ids(document))


def _with_hex_ids(document: Any) -> Document:
    """Ids are hex in OTLP JSON, where protobuf's own mapping has base64."""
    for resource in objects(document.get("resourceSpans")):
        for scope in objects(resource.get("scopeSpans")):
            for span in objects(scope.get("spans")):
                for item in (span, *objects(span.get("links"))):
                    item.update({name: base64.b64decode(item[name]).hex() for name in _IDS if name in item})
    return document


TOKEN = "EVALSTREAM_FETCH_TOKEN"  # noqa: S105 - the name of a variable


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOptions(Wanted):
    """The command's options: the requested traces, and where from. `patience` is how long (s) a request that may yet be
    answered is repeated.
    """

    source: str
    output: Path
    url: str | None = None
    token_file: Path | None = None
    headers: Sequence[str] = ()
    patience: float = 120.0


class _NoTraces(Exception):
    """There is no trace, and there is to be no file."""


async def fetch_traces(options: FetchOptions, environment: Mapping[str, str], say: Callable[[str], None]) -> int:
    """Write the traces; the exit status: 1 if there are none, or not all that were requested.

    Raises:
        ConfigError: an option is wrong, or the file exists already or cannot be written.
        FetchFailed: the source does not give them; then there is no file.
    """
    source = _source(options)
    headers = _headers(options, environment)
    async with HttpClient(timeout=TIMEOUT, longest=LONGEST) as client:
        backoff = Backoff(deadline=options.patience, patience=options.patience)
        api = ApiReader(source.title, options.url or source.url, headers, client, backoff=backoff, say=say)
        try:
            with whole_file(options.output) as file:
                count = await _write(source, api, options, file)
        except _NoTraces:
            between = f"between {_minute(options.since)} and {_minute(options.until)}"
            say(f"no trace {between} in {source.title}; an earlier --from takes in more")
            return FAILED
    full = f"; more may be there: --limit is {options.limit:,}" if count == options.limit else ""
    say(f"{options.output}: {plural(count, 'trace')} from {source.title}{full}")
    return FAILED if api.is_partial else DONE


async def _write(source: Source, api: ApiReader, wanted: Wanted, file: BinaryIO) -> int:
    seen: set[str] = set()
    async with aclosing(source.read(api, wanted)) as requests:
        async for request in requests:
            try:
                lines = list(trace_lines(request))
            except BadInput as error:
                api.left(f"an answer that is not OTLP: {error}")
                continue
            for trace_id, line in lines:
                if trace_id not in seen:
                    seen.add(trace_id)
                    file.write(line + b"\n")
                if len(seen) >= wanted.limit:
                    return len(seen)
    if not seen:
        raise _NoTraces
    return len(seen)


def _source(options: FetchOptions) -> Source:
    source = SOURCES.get(options.source)
    if source is None:
        raise ConfigError(unknown("source", options.source, SOURCES))
    chosen = {"query": options.query, "service": options.services, "project": options.project}
    for name in (each for each, value in chosen.items() if value and each not in source.takes):
        takes = ", ".join(f"--{take}" for take in sorted(source.takes))
        raise ConfigError(f"--{name}: {source.title} is not searched so; it takes {takes}")
    require_window(options.since, options.until)
    if options.url is not None and not options.url.startswith(("http://", "https://")):
        raise ConfigError("--url: not an address; write one like http://127.0.0.1:3200")
    return source


def _headers(options: FetchOptions, environment: Mapping[str, str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for header in options.headers:
        name, equals, value = header.partition("=")
        if not equals or not name.strip() or not header.isprintable():
            raise ConfigError("--header: write NAME=VALUE, like X-Scope-OrgID=team-a")
        if name.strip().lower() == "authorization":
            raise ConfigError(
                f"--header: credentials belong into {TOKEN} or --token-file, where no list of processes shows them"
            )
        headers[name.strip()] = value.strip()
    token = _token(options, environment)
    return {**headers, "Authorization": authorization(token)} if token else headers


def _token(options: FetchOptions, environment: Mapping[str, str]) -> str | None:
    if options.token_file is None:
        token = environment.get(TOKEN, "").strip()
        if not token.isprintable() or not token.isascii():
            raise ConfigError(f"{TOKEN}: holds no key; one line of printable ASCII is needed")
        return token or None
    try:
        return SecretFiles({"token": options.token_file}).texts()["token"]
    except OSError as error:
        raise ConfigError(f"{options.token_file}: {error.strerror}; correct --token-file") from None
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _minute(moment: datetime) -> str:
    return moment.isoformat(timespec="minutes")
