"""`evalstream rules`: the rules of a configuration, to stdout or into a folder."""

from collections.abc import Sequence
from pathlib import Path

from collector.alerting.dashboards import write_dashboards
from collector.alerting.rules.formats import FORMATS, text
from collector.alerting.rules.generate import rules_of
from collector.config.command_options import require_known
from collector.config.configured import Config
from collector.errors import ConfigError


def render(config: Config, formats: Sequence[str]) -> dict[str, str]:
    """File names and contents in the named formats; in all formats if none is named.

    Raises:
        ConfigError: a format is unknown.
    """
    require_known("--format", "format", formats, FORMATS)
    rules = rules_of(config)
    return {FORMATS[each][0]: text(FORMATS[each][1](rules)) for each in formats or FORMATS}


def write(config: Config, formats: Sequence[str], folder: Path) -> list[Path]:
    """Write the files; returns where they are. With no format named, the dashboards go into the folder `grafana` in it.

    Raises:
        ConfigError: a format is unknown, or the folder cannot be written.
    """
    written: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in render(config, formats).items():
            (folder / name).write_text(content)
            written.append(folder / name)
        if not formats:
            written += write_dashboards(folder / "grafana")
    except OSError as error:
        remedy = "choose a writable folder with --output"
        raise ConfigError(f"{error.filename}: cannot be written ({error.strerror}); {remedy}") from error
    return written
