"""A hash of each section of a configuration: shows which sections two configurations have in common."""

import hashlib
from collections.abc import Mapping
from typing import Any

import orjson

from collector.config.configured import Config
from collector.plugins import open_folder
from collector.wording import listed

_NAMED = ("judges", "juries", "cascades", "evaluators", "monitors")
"""Sections whose entries have names: each has a hash of its own."""
_UNUSED_BY_THE_SERVICE = ("traffic",)
_OF_A_PROCESS: Any = {
    "log": {"kafka": {"group_instance_id": True, "state_directory": True}},
    "receive": {"kafka": {"__all__": {"group_instance_id": True}}},
}


def section_hashes(config: Config) -> dict[str, str]:
    """12 hex digits by section (`receive`, `monitors.chatbot`); secrets are masked before hashing.

    Names and folders of processes are left out: each process of a service may have another.
    """
    values: dict[str, Any] = config.settings.model_dump(mode="json", exclude=_OF_A_PROCESS)
    sections: dict[str, Any] = {
        f"export.{name}": settings.model_dump(mode="json") for name, settings in config.exporters.items()
    }
    for name, value in values.items():
        if name in _NAMED:
            sections |= {f"{name}.{key}": entry for key, entry in value.items()}
        elif name == "plugins" and value is not None:
            sections[name] = [value, open_folder(config.folder / value).digest]
        elif name != "export" and name not in _UNUSED_BY_THE_SERVICE:
            sections[name] = value
    return {name: _hash(value) for name, value in sorted(sections.items())}


def differences(ours: Mapping[str, str], theirs: Mapping[str, str]) -> str:
    """The sections that differ, in words; "" if none does."""
    changed = sorted(name for name in ours.keys() & theirs.keys() if ours[name] != theirs[name])
    parts = [
        (changed, "not the same"),
        (sorted(ours.keys() - theirs.keys()), "in this file alone"),
        (sorted(theirs.keys() - ours.keys()), "in the running one alone"),
    ]
    return "; ".join(f"{listed(names)} {'is' if len(names) == 1 else 'are'} {what}" for names, what in parts if names)


def _hash(value: Any) -> str:
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()[:12]
