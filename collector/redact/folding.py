"""Digits of all scripts and full-width signs as ASCII, character for character."""

import re
import unicodedata

_ZEROS = tuple(
    code
    for code in range(0x660, 0x10000)
    if unicodedata.category(chr(code)) == "Nd" and unicodedata.digit(chr(code)) == 0
)
"""The zero of each script; nine more digits follow each."""
_FOLDED = {
    **{code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)},
    0x3000: 0x20,
    0x2212: 0x2D,
    **{zero + digit: 0x30 + digit for zero in _ZEROS for digit in range(10)},
}
FOLDED_SIGNS = "\uff0b\uff0e\uff20"
"""The full-width plus, full stop and at: a text with one of them is folded whole, as one with a foreign digit is."""
_WORTH_FOLDING = re.compile(f"[{FOLDED_SIGNS}" + "".join(f"{chr(zero)}-{chr(zero + 9)}" for zero in _ZEROS) + "]")

FOREIGN_DIGITS = tuple((chr(zero), chr(zero + 9)) for zero in _ZEROS)
"""The first and last digit of each script but ASCII."""


def fold(text: str) -> str:
    """The text, of the same length, with digits, full-width signs and the minus sign in ASCII."""
    return text if text.isascii() or not _WORTH_FOLDING.search(text) else text.translate(_FOLDED)
