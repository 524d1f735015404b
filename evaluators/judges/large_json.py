"""Reading of large JSON bodies without garbage collection in between."""

from __future__ import annotations

import gc
from typing import Any

import orjson


def load_large(body: bytes) -> Any:
    """The value of a JSON body.

    Token probabilities are tens of thousands of small objects. Python looks for garbage every few hundred of them,
    among all that were made before: most of the time that reading such a body takes, and none of them is garbage yet.

    Raises:
        orjson.JSONDecodeError: it is not JSON.
    """
    if not gc.isenabled():
        return orjson.loads(body)
    gc.disable()
    try:
        return orjson.loads(body)
    finally:
        gc.enable()
