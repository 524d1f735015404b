"""The port of wire formats whose models write their answers."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from evaluators.cases import Json
from evaluators.judges.capabilities import Capabilities
from evaluators.judges.chats import Chat
from evaluators.judges.completions import Completion
from evaluators.judges.requests import Request

Body = Callable[[Chat, Request, Capabilities, int], "dict[str, Json]"]
"""Makes a request's JSON of the messages, the request, the endpoint's capabilities, and the number of answers."""


def bearer(api_key: str) -> Mapping[str, str]:
    """The header in which most endpoints take the key."""
    return {"Authorization": f"Bearer {api_key}"}


def same(features: Capabilities) -> Capabilities:
    """The capabilities, unchanged."""
    return features


def key_of(vendor: str, api_key: str | None) -> str:
    """The given key, else the key in the environment.

    Raises:
        ValueError: there is none.
    """
    key = os.environ.get(f"{vendor}_API_KEY") if api_key is None else api_key
    if key is None:
        raise ValueError(f"api_key: give one, or set {vendor}_API_KEY; for an endpoint without keys any text will do")
    return key


@dataclass(frozen=True, slots=True, kw_only=True)
class WritingApi:
    """One wire format: where requests go, with which headers, and how they and their answers are written.

    `abilities` removes the capabilities that no endpoint of this format has. `vendor` begins the names of the
    environment's variables with an address and a key; `base_url` is the vendor's own address. `takes_cache_key`: a
    request may name what it shares with others (`prompt_cache_key`). `shareable` is a form of answers that puts no part
    of a question before its messages, so that questions share a cached beginning.
    """

    name: str
    path: str
    body: Body
    completion: Callable[[bytes], Completion]
    headers: Callable[[str], Mapping[str, str]] = bearer
    abilities: Callable[[Capabilities], Capabilities] = same
    takes_cache_key: bool = False
    shareable: Literal["json_object", "text"] = "json_object"
    vendor: str = "OPENAI"
    base_url: str = "https://api.openai.com/v1"
