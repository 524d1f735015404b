"""Draws by hash: the same key draws the same number in every process and every replay."""

import hashlib
from math import nextafter
from typing import Literal

_LARGEST = nextafter(1.0, 0.0)


def draw(key: str | bytes, *, salt: str = "", algorithm: Literal["blake2b", "sha256"] = "blake2b") -> float:
    """A number in [0, 1) that depends only on its arguments, evenly spread over keys. A key is in a sample of rate p if
    its draw is below p, so a sample contains every sample of a lower rate. Keys for different purposes begin with
    different words, so that their draws are independent. Only BLAKE2b uses the salt, the first 64 bytes of its UTF-8.

    Why two algorithms: stored samples stay as they were drawn. BLAKE2b's draws are cut to the 53 bits that a float can
    hold; SHA-256's are rounded to the nearest float below 1. New draws take the default.
    """
    data = key if isinstance(key, bytes) else key.encode("utf-8", "replace")
    if algorithm == "sha256":
        return min(int.from_bytes(hashlib.sha256(data).digest()[:8], "big") / 2**64, _LARGEST)
    digest = hashlib.blake2b(data, key=salt.encode()[:64], digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2**53
