"""Reading of large JSON bodies without garbage collection in between."""

import gc
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def read_large(body: bytes, read: Callable[[bytes], T]) -> T:
    """Selective reading of a large JSON body, which keeps only the needed parts in memory.

    Token probabilities are tens of thousands of small objects. Python looks for garbage every few hundred of them,
    among all that were made before: most of the time that reading such a body takes, and none of them is garbage yet.
    What is gone again when `read` returns is never looked at.
    """
    if not gc.isenabled():
        return read(body)
    gc.disable()
    try:
        return read(body)
    finally:
        gc.enable()
