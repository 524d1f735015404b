"""Reading of large JSON bodies without garbage collection in between."""

import gc
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def read_large(body: bytes, read: Callable[[bytes], T]) -> T:
    """Selective reading of a large JSON body, which keeps only the needed parts in memory.

    Token probabilities are tens of thousands of small objects. Python searches all objects for garbage after every few
    hundred new objects. That takes most of the time of reading such a body, and finds nothing, as no object is garbage
    yet. Objects that are gone when `read` returns are never searched.
    """
    if not gc.isenabled():
        return read(body)
    gc.disable()
    try:
        return read(body)
    finally:
        gc.enable()
