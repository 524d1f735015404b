"""`evalstream rules`: the rules of a configuration, to stdout or into a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from collector.config.loading import Config
from collector.dashboards import write_dashboards
from collector.errors import ConfigError
from collector.rules.formats import FORMATS, text
from collector.rules.generate import rules_of


def rendered(config: Config, formats: Sequence[str]) -> dict[str, str]:
    """File name to content, of the named formats, all of them if none is named.

    Raises:
        ConfigError: there is no such format.
    """
    for each in formats:
        if each not in FORMATS:
            raise ConfigError(f"--format: {each!r} is no format; there are {', '.join(FORMATS)}")
    rules = rules_of(config)
    chosen = formats or tuple(FORMATS)
    return {FORMATS[each][0]: text(FORMATS[each][1](rules)) for each in chosen}


def write(config: Config, formats: Sequence[str], folder: Path) -> list[Path]:
    """Write the files; returns where they are. With no format named, the dashboards go into the folder `grafana` in it.

    Raises:
        ConfigError: there is no such format, or the folder cannot be written.
    """
    written: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in rendered(config, formats).items():
            (folder / name).write_text(content)
            written.append(folder / name)
        if not formats:
            written += write_dashboards(folder / "grafana")
    except OSError as error:
        wanted = "name a folder with --output that can be written"
        raise ConfigError(f"{error.filename}: cannot be written ({error.strerror}); {wanted}") from error
    return written
