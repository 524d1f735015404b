"""Checks of the judges of a configuration: addresses without secrets, pairs of judges, and list prices.

An address must not be the metadata address of a cloud. If an evaluator has two judges, one writes the texts and the
other decides. Judges without prices get those of well-known models at their vendors, by `genai-prices`; its data take
half a second to import, so an address that cannot be a vendor's is not looked up.
"""

import ipaddress
import os
import re
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from pydantic import SecretStr

from collector.section import checked_base
from collector.wording import unknowns

_KEYS = {
    "input_mtok": "usd_per_million_input_tokens",
    "output_mtok": "usd_per_million_output_tokens",
    "cache_read_mtok": "usd_per_million_cached_input_tokens",
    "cache_write_mtok": "usd_per_million_cache_write_tokens",
}
"""Its prices, and the keys of the configuration in their place."""


@cache
def list_prices(model: str, base_url: str) -> Mapping[str, float]:
    """The list prices of a model in US dollars per million tokens, by the configuration's keys; none if unknown.

    A price that depends on the length of a prompt is that of the usual length.
    """
    host = urlsplit(base_url).hostname or ""
    if "." not in host or host.replace(".", "").isdigit():
        return {}
    from genai_prices.data_snapshot import get_snapshot

    try:
        _, priced = get_snapshot().find_provider_model(model, None, None, base_url)
    except LookupError:
        return {}
    listed: Any = priced.get_prices(datetime.now(UTC))
    prices = {key: getattr(listed, name, None) for name, key in _KEYS.items()}
    known = {key: float(getattr(price, "base", price)) for key, price in prices.items() if price is not None}
    return known if _KEYS["input_mtok"] in known else {}


@cache
def date_of_list() -> str:
    """The day of the newest change of a price that the list knows."""
    from genai_prices.data_snapshot import get_snapshot

    changes = (
        getattr(price.constraint, "start_date", None)
        for provider in get_snapshot().providers
        for model in provider.models
        if isinstance(model.prices, list)
        for price in model.prices
    )
    today = datetime.now(UTC).date()
    return max(change for change in changes if change is not None and change <= today).isoformat()


class JudgePair(NamedTuple):
    """Names from `judges`."""

    extract: str
    decide: str

    @property
    def name(self) -> str:
        """The name of the pair, used like a judge's in metrics, plans and reports."""
        return f"{self.decide}+{self.extract}"


def pair_named(name: str, judges: Collection[str]) -> JudgePair | None:
    """The pair of judges with this name, if there is one."""
    pairs = (JudgePair(extract, decide) for extract in judges for decide in judges if extract != decide)
    return next((pair for pair in pairs if pair.name == name), None)


def pair_mistakes(where: str, value: Mapping[object, object], judges: Collection[str]) -> Iterator[str]:
    """The mistakes in `judge: {extract: …, decide: …}`."""
    known = sorted(judges)
    if set(value) != {"extract", "decide"}:
        yield f"{where}: give the name of a judge, or two as {{extract: …, decide: …}}"
        return
    for key in ("extract", "decide"):
        yield from unknowns(f"{where}.{key}", "judge", [str(value[key])], known)
    if value["extract"] == value["decide"]:
        yield f"{where}: extract and decide are the same judge; write its name alone"


_METADATA = frozenset(
    {"metadata.google.internal", "metadata.goog", "instance-data", "fd00:ec2::254", "100.100.100.200"}
)


_ADDED = ("/chat/completions", "/completions", "/responses", "/messages")
"""Paths of requests, which belong to the API and not to its base."""


_BASES = {
    **dict.fromkeys(("api.openai.com", "eu.api.openai.com", "us.api.openai.com"), "/v1"),
    **dict.fromkeys(("api.anthropic.com", "api.mistral.ai", "api.together.xyz", "api.x.ai"), "/v1"),
    "openrouter.ai": "/api/v1",
    "api.groq.com": "/openai/v1",
    "generativelanguage.googleapis.com": "/v1beta/openai",
}
"""The paths of vendors' APIs; nothing answers at the hosts alone."""


def checked_endpoint(url: str) -> str:
    """The URL, if judged text may be sent there.

    Raises:
        ValueError: it contains a name or password, or is the address where a cloud hands out a machine's credentials.
    """
    parts = urlsplit(checked_base(url, *_ADDED))
    host = (parts.hostname or "").rstrip(".").lower()
    if parts.username is not None or parts.password is not None:
        raise ValueError("contains a name or password, which would be printed; write api_key: ${env:NAME} instead")
    if not host:
        raise ValueError("has no host; write it like https://host/v1")
    if url != url.strip() or " " in url:
        raise ValueError("contains a space; remove it")
    if (parts.query and "/openai/deployments/" not in parts.path) or parts.fragment:  # Azure's has its version there
        raise ValueError(
            "ends with ?… or #…, after which no path can be added; write the base alone, like https://host/v1"
        )
    if parts.path in ("", "/") and host in _BASES:
        raise ValueError(f"has no path; write https://{host}{_BASES[host]}")
    if host in _METADATA or _is_link_local(host):
        raise ValueError("is a link-local or metadata address; name the endpoint of a judge")
    return url


_PLACEHOLDER = re.compile(r"<[^<>]*>|your[-_ ][^ ]{0,40}key[^ ]{0,40}|sk-\.{3}|\.{3}", re.IGNORECASE)


def checked_key(secret: SecretStr) -> SecretStr:
    """The key, unless it is a text that no endpoint takes as one. The message does not have it.

    Raises:
        ValueError: it is an example's, or more than the key.
    """
    key = secret.get_secret_value()
    if key.startswith("Bearer "):
        raise ValueError("begins with Bearer, which is added to it; write the key alone")
    if _PLACEHOLDER.fullmatch(key):
        raise ValueError("is an example's text; write the key, usually as ${env:NAME}")
    if any(sign.isspace() for sign in key):
        raise ValueError("contains a space or an end of line; write the key alone")
    return secret


Cloud = Literal["azure", "aws", "google"]
_CLOUDS: Mapping[str, Cloud] = {
    ".openai.azure.com": "azure",
    ".cognitiveservices.azure.com": "azure",
    ".services.ai.azure.com": "azure",
    ".amazonaws.com": "aws",
    ".api.aws": "aws",
    "aiplatform.googleapis.com": "google",
}


def cloud_of(url: str) -> Cloud | None:
    """The cloud whose identities the official client can show at an address; None elsewhere."""
    host = urlsplit(url).hostname or ""
    return next((cloud for end, cloud in _CLOUDS.items() if host.endswith(end)), None)


def is_classic_azure(url: str) -> bool:
    """Whether an address of Azure has deployments and versions of its API in its paths, which the client writes."""
    return cloud_of(url) == "azure" and "/openai/v1" not in urlsplit(url).path


def only_by_client(url: str, *, has_key: bool) -> bool:
    """Whether only the official client can ask at an address: see `judges.<name>.client`."""
    at_openai = urlsplit(url).hostname == "api.openai.com"
    named = at_openai and any(os.environ.get(name) for name in ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID"))
    return named or is_classic_azure(url) or (cloud_of(url) is not None and not has_key)


def _is_link_local(host: str) -> bool:
    try:
        address = ipaddress.ip_address(int(host, 0) if host.startswith("0x") or host.isdigit() else host)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_link_local
