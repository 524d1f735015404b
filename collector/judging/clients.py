"""The official client of OpenAI for the judges of a configuration that only it can ask, or that ask for it."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from collector.config.endpoints import cloud_of, is_classic_azure
from collector.config.settings import JudgeSettings
from collector.errors import ConfigError

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_AZURE_SCOPE = "https://cognitiveservices.azure.com/.default"
_GOOGLE_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_AZURE_VERSION = "2024-10-21"
"""The last version of Azure's classic API that is no preview."""
_DEPLOYMENTS = "/deployments/"
_AWS_REGION = re.compile(r"[./]([a-z]{2}(?:-[a-z]+)+-\d)[./]")
Token = Callable[[], Awaitable[str]]


def client_of(
    name: str, settings: JudgeSettings, ssl_context: ssl.SSLContext | None
) -> Callable[[], AsyncOpenAI] | None:
    """The maker of a judge's client; None for a judge that is asked directly.

    Raises:
        ConfigError: the client lacks a library, a region or another argument.
    """
    if not settings.through_client:
        return None
    from openai import OpenAIError

    try:
        client = _client(settings, ssl_context)
    except ImportError as error:
        raise ConfigError(
            f"judges.{name}: the identity of a cloud needs {error.name}; install evalstream[clouds], or write api_key"
        ) from None
    except (OpenAIError, TypeError, ValueError) as error:
        raise ConfigError(f"judges.{name}.client_options: {error}") from None
    return lambda: client


def _client(settings: JudgeSettings, ssl_context: ssl.SSLContext | None) -> AsyncOpenAI:
    from openai import AsyncAzureOpenAI, AsyncBedrockOpenAI, AsyncOpenAI

    from evaluators.judges.client_connection import fast_http

    url, options = settings.base_url, dict(settings.client_options)
    proxy = settings.proxy.get_secret_value() if settings.proxy else None
    options["http_client"] = fast_http(verify=ssl_context or True, proxy=proxy)
    key = settings.api_key.get_secret_value() if settings.has_key else None
    if "workload_identity" in options:
        return AsyncOpenAI(base_url=url, **{**options, "workload_identity": _workload(options["workload_identity"])})
    if is_classic_azure(url):
        credentials: dict[str, Any] = {"api_key": key} if key else {"azure_ad_token_provider": _entra_token()}
        return AsyncAzureOpenAI(**{**_classic(url), **credentials, **options})
    match None if settings.has_key else cloud_of(url):
        case "aws":
            region: dict[str, Any] = {"aws_region": match[1]} if (match := _AWS_REGION.search(url)) else {}
            return AsyncBedrockOpenAI(base_url=url, **{**region, **options})
        case "azure":
            return AsyncOpenAI(base_url=url, api_key=_entra_token(), **options)
        case "google":
            return AsyncOpenAI(base_url=url, api_key=_google_token(), **options)
        case None:
            return AsyncOpenAI(base_url=url, api_key=key or "none", **options)


def _classic(url: str) -> dict[str, Any]:
    """Endpoint, version and deployment of a classic address: https://name.openai.azure.com/openai/deployments/one."""
    parts = urlsplit(url)
    version = parse_qs(parts.query).get("api-version", [_AZURE_VERSION])[0]
    place: dict[str, Any] = {"azure_endpoint": f"{parts.scheme}://{parts.netloc}", "api_version": version}
    _, named, rest = parts.path.partition(_DEPLOYMENTS)
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
            credentials.append(auth.default(scopes=[_GOOGLE_SCOPE])[0])
        if not credentials[0].valid:
            credentials[0].refresh(transport.Request())
        return credentials[0].token

    async def token() -> str:
        return await asyncio.to_thread(refreshed)

    return token
