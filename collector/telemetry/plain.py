"""Texts of strangers on their way out: to terminals, log lines, XML, cells of tables and chats."""

import re
import sys
import traceback
from collections.abc import Sequence

from collector.errors import DONE, FAILED

_LONGEST = 4_000
_CONTROLS = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\uffff\ud800-\udfff"
    "\U000e0000-\U000e007f"
)
_CONTROL = re.compile(f"[{_CONTROLS}]")
_CONTROL_OR_SPACE = re.compile(f"[\t\n{_CONTROLS}]")
_IN_CHAT = re.compile(r"://|\{\{|(?<=\w)\.(?=[^\W\d_]{2})|[<>@\[\]`*~|]")
_FORMULA = re.compile(r"(?:\A(?=[\t\n])|(?:\A|(?<=[;\t]))(?=[=+\-@＝＋－＠]))")
"""A formula can begin at the start, and behind what some spreadsheets take for the end of a cell."""
_HARMLESS = {"://": ":⁄⁄", "{{": "{ {", ".": "․"} | dict(zip("<>@[]`*~|", "‹›＠［］ˋ∗∼¦", strict=True))


def plain(text: str) -> str:
    """One line of text: control characters are escaped, and it is cut off beyond 4,000 characters."""
    return _CONTROL_OR_SPACE.sub(_escaped, text if len(text) <= _LONGEST else f"{text[:_LONGEST]} […]")


def fault_of(error: BaseException) -> str:
    """The type of an error and its place in the code, without its message: that may hold judged text."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {frame.filename}:{frame.lineno}"


def printable(text: str) -> str:
    """Lines of text or of JSON: control characters but line ends and tabs are escaped as JSON escapes them."""
    return _CONTROL.sub(_escaped, text)


def cell(value: object) -> object:
    """A value for a CSV file: no spreadsheet takes a text for a formula."""
    return value if not isinstance(value, str) else _FORMULA.sub("'", printable(value))


def in_chat(text: str) -> str:
    """One line for a chat: no person is mentioned by it, and nothing becomes a link, a mark or a template."""
    return _IN_CHAT.sub(lambda match: _HARMLESS[match[0]], plain(text))


def in_code(text: str) -> str:
    """One line as a code span for a cell of a Markdown table: a key can be copied, nothing becomes a link or mark."""
    return f"`{plain(text).replace('`', _HARMLESS['`']).replace('|', _HARMLESS['|'])}`"


def _escaped(match: re.Match[str]) -> str:
    number = ord(match[0])
    if number < 0x10000:
        return f"\\u{number:04x}"
    return f"\\u{0xD7C0 + (number >> 10):04x}\\u{0xDC00 | number & 0x3FF:04x}"


def show(text: str, *, end: str = "\n", err: bool = False) -> None:
    """Print lines for people, or data for programs: the one way to a terminal. With `err` on stderr."""
    print(printable(text), end=end, file=sys.stderr if err else sys.stdout, flush=err)


def to_terminal(report: str) -> None:
    """Say something to who waits for a command, on stderr."""
    show(f"evalstream: {report}", err=True)


def report_problems(problems: Sequence[str]) -> int:
    """Say what went wrong; returns the exit status."""
    for problem in problems:
        to_terminal(problem)
    return FAILED if problems else DONE
