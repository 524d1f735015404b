"""A hash of each section of a configuration: shows which sections two configurations have in common."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

import orjson
from pydantic import BaseModel, SecretStr

from collector.config.configured import Config
from collector.plugins import open_folder

_NAMED = ("judges", "juries", "cascades", "evaluators", "monitors", "dialects")
"""Sections whose entries have names: each has a hash of its own."""
_UNUSED_BY_THE_SERVICE = ("traffic",)
_OF_A_PROCESS: Any = {
    "log": {"kafka": {"group_instance_id": True, "state_directory": True}},
    "receive": {"kafka": {"__all__": {"group_instance_id": True}}},
}


def section_hashes(config: Config) -> dict[str, str]:
    """12 hex digits by entry (`monitors.chatbot`) or key (`log.path`); secrets are masked before hashing.

    Defaults are left out, and names and folders of processes: each process of a service may have another.
    """
    values: dict[str, Any] = config.settings.model_dump(mode="json", exclude=_OF_A_PROCESS, exclude_defaults=True)
    sections: dict[str, Any] = {
        f"export.{name}": settings.model_dump(mode="json") for name, settings in config.exporters.items()
    }
    for name, value in values.items():
        if name in _NAMED:
            sections |= {f"{name}.{key}": entry for key, entry in value.items()}
        elif name == "plugins":
            sections[name] = open_folder(config.folder / value).digest
        elif name != "export" and name not in _UNUSED_BY_THE_SERVICE:
            sections |= dict(_keys_of(name, value))  # so that a refusal can name the key
    return {name: hash_of(value) for name, value in sorted(sections.items())}


def _keys_of(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The keys of a section (`log.kafka.prefix`) with their values."""
    if not isinstance(value, dict) or not value:
        yield path, value
        return
    for key, inner in cast("dict[str, Any]", value).items():
        yield from _keys_of(f"{path}.{key}", inner)


def differing(ours: Mapping[str, str], theirs: Mapping[str, str]) -> list[str]:
    """The sections that differ, by their hashes, sorted."""
    return sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))


def with_secrets_set(config: Config) -> Config:
    """The configuration as if every secret that the file names had a value."""
    return replace(config, settings=_set(config.settings), exporters=_set(config.exporters))


def _set(value: Any) -> Any:
    match value:
        case SecretStr():
            return SecretStr("set")
        case BaseModel():
            return value.model_copy(update={key: _set(getattr(value, key)) for key in value.model_fields_set})
        case dict():
            return {key: _set(item) for key, item in cast("dict[str, Any]", value).items()}
        case list() | tuple():
            items = cast("list[Any]", value)
            return type(items)(map(_set, items))
        case _:
            return value


def hash_of(value: Any) -> str:
    """12 hex digits of a section or a part of one."""
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()[:12]
