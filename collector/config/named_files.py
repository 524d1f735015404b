"""The files that a configuration names: `check` says which of them the service could not open at its start."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel

from collector.config.configured import Config
from collector.errors import ConfigError
from collector.receive.files import files_in
from evaluators.wire.pem_files import try_pem_files

_PEM = ("certificate", "key", "ca", "client_ca")
_Place = tuple[str | int, ...]


def elsewhere_notes(config: Config) -> list[str]:
    """One note for each folder that this machine does not have: that of the service may have it, and files in it.

    Raises:
        ConfigError: with one line for each other file that the service could not open.
    """
    settings = config.settings
    named = [*_named(settings, ()), *_named(config.exporters, ("export",))]
    if settings.golden is not None:
        named.append((("golden", "path"), Path(settings.golden.path)))
    if settings.log.kind == "sqlite":
        named.append((("log", "path"), Path(settings.log.path)))
    named += [(("receive", "files", number), Path(path)) for number, path in enumerate(settings.receive.files)]
    folders: dict[Path, str] = {}
    mistakes: list[str] = []
    for place, files in named:
        where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)[1:]
        paths = files.values() if isinstance(files, Mapping) else [files]
        away = [path for path in paths if path.is_absolute() and not path.parent.exists()]
        folders |= {path.parent: where for path in away if path.parent not in folders}
        if not away and (problem := _problem(place, files)):
            mistakes.append(f"{config.source}: {where}{problem}")
    if mistakes:
        raise ConfigError("\n".join(mistakes))
    return [f"{where}: this machine has no folder {folder}; the service needs it" for folder, where in folders.items()]


def _named(value: object, place: _Place) -> Iterator[tuple[_Place, Path | Mapping[str, Path]]]:
    """The files in a part of the configuration; PEM files of one section together, by their keys."""
    parts: Mapping[Any, object] = {}
    if isinstance(value, Path):
        yield place, value
    elif isinstance(value, BaseModel):
        parts = {name: getattr(value, name) for name in type(value).model_fields}
        pem = {name: path for name in _PEM if isinstance(path := parts.get(name), Path)}
        if pem:
            yield place, pem
        parts = {name: part for name, part in parts.items() if name not in pem}
    elif isinstance(value, Mapping):
        parts = cast("Mapping[Any, object]", value)
    elif isinstance(value, list | tuple):
        parts = dict(enumerate(cast("Sequence[object]", value)))
    for name, part in parts.items():
        yield from _named(part, (*place, name))


def _problem(place: _Place, files: Path | Mapping[str, Path]) -> str:
    """Why it cannot be used, and the remedy; empty if it can."""
    try:
        if isinstance(files, Mapping):
            try_pem_files(**files)
        elif place[:2] == ("receive", "files"):
            files_in([files])
        elif place[-1] == "path" and place[0] != "golden":
            return "" if files.parent.is_dir() else f": there is no folder {files.parent}; make it, or name another"
        elif not files.read_bytes().strip():
            return f": {files} is empty; write into it what the service needs"
    except OSError as error:
        return f": {files} cannot be read ({error.strerror}); name a readable file"
    except ConfigError as error:
        return f": {error}; name a file or a folder"
    except ValueError as error:
        return f".{error}"
    return ""
