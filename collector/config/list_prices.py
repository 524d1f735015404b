"""Prices of well-known models at their vendors, by `genai-prices`: for judges whose configuration has none.

Its data take half a second to import, so an address that cannot be a vendor's is not looked up.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any
from urllib.parse import urlsplit

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
