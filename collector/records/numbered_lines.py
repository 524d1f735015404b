"""The lines of a user's file, by number."""

from codecs import BOM_UTF8
from pathlib import Path

from collector.errors import ConfigError


def numbered_lines(path: Path, key: str = "", remedy: str = "; name another file") -> list[tuple[int, bytes]]:
    """The lines that are not empty, counted from 1, without the mark that files saved on Windows begin with.

    Raises:
        ConfigError: the file cannot be read; the sentence begins with `key`.
    """
    try:
        lines = path.read_bytes().removeprefix(BOM_UTF8).splitlines()
    except OSError as error:
        raise ConfigError(f"{key}{path}: cannot be read ({error.strerror}){remedy}") from error
    return [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
