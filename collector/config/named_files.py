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


def elsewhere_notes(config: Config) -> list[str]:
    """One note for each folder that this machine does not have: that of the service may have it, and files in it.

    Raises:
        ConfigError: with one line for each other file that the service could not open.
    """
    settings = config.settings
    also: dict[str, object] = {
        "export": config.exporters,
        "receive": {"files": list(map(Path, settings.receive.files))},
    }
    if settings.golden is not None:
        also["golden"] = {"path": Path(settings.golden.path)}
    if settings.log.kind == "sqlite":
        also["log"] = {"path": Path(settings.log.path)}
    folders: dict[Path, str] = {}
    mistakes: list[str] = []
    for where, files in (*_named(settings, ""), *_named(also, "")):
        away = [path for path in files.values() if path.is_absolute() and not path.parent.exists()]
        folders |= {path.parent: where for path in away if path.parent not in folders}
        if not away and (problem := _problem(where, {key: path.absolute() for key, path in files.items()})):
            mistakes.append(f"{config.source}: {where}{problem}")
    if mistakes:
        raise ConfigError("\n".join(mistakes))
    return [f"{where}: this machine has no folder {folder}; the service needs it" for folder, where in folders.items()]


def _named(value: object, where: str) -> Iterator[tuple[str, Mapping[str, Path]]]:
    """The files in a part of the configuration, with their place; PEM files of one section together, by their keys."""
    if isinstance(value, Path):
        yield where, {"": value}
    elif isinstance(value, BaseModel):
        fields = dict(value)
        if pem := {name: fields.pop(name) for name in _PEM if isinstance(fields.get(name), Path)}:
            yield where, pem
        yield from _named(fields, where)
    elif isinstance(value, Mapping):
        for name, part in cast("Mapping[Any, object]", value).items():
            yield from _named(part, f"{where}.{name}" if where else str(name))
    elif isinstance(value, list | tuple):
        for number, part in enumerate(cast("Sequence[object]", value)):
            yield from _named(part, f"{where}[{number}]")


def _problem(where: str, files: Mapping[str, Path]) -> str:
    """Why they cannot be used, and the remedy; empty if they can."""
    path = files.get("")
    try:
        if path is None:
            try_pem_files(**files)
        elif where.startswith("receive.files"):
            files_in([path])
        elif where in ("log.path", "export.jsonl.path"):
            if where == "log.path" and path.exists():
                with path.open("rb") as file:
                    if file.read(16) not in (b"", b"SQLite format 3\0"):
                        return f": {path} is no SQLite file; name another, or move it away"
            return "" if path.parent.is_dir() else f": there is no folder {path.parent}; make it, or name another"
        elif not path.read_bytes().strip():
            return f": {path} is empty; write into it what the service needs"
    except OSError as error:
        return f": {path} cannot be read ({error.strerror}); name a readable file"
    except ConfigError as error:
        return f": {error}; name a file or a folder"
    except ValueError as error:
        return f".{error}"
    return ""
