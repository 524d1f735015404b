"""The part of a configuration that a running service takes, and what else of a changed one it cannot take.

Without secrets it is stored in a log that all processes read. Secrets come from each process's own file.
"""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, cast

import orjson

from collector.config.configured import Config
from collector.config.loading import check
from collector.config.section_hashes import differing, section_hashes
from collector.config.settings import Settings
from collector.errors import ConfigError

LIVE = (
    "judges", "juries", "cascades", "evaluators", "monitors", "evaluate", "alerts", "golden", "canary", "traffic",
    "log_level",
)  # fmt: skip
"""Sections that a running service takes."""
LIVE_KEYS = ("receive.trust_tracestate",)
"""Keys of other sections that a running service takes, too."""
NOT_LIVE = ("alerts.watcher.",)
"""Parts of these sections that only a start reads, with a dot behind."""
AT_START = ("assemble", "dialects", "feedback", "redact", "store_text", "dead_letters", "plugins")
"""Sections that only a start reads and all processes share; of the others each process may have its own."""
STARTED = "start"
"""Their hashes in a stored live part; those of earlier releases have none."""
KEYED = "keyed"
"""Says that a stored live part was drawn with the deployment's key; those of earlier releases were not."""
_OWN_ALERT_KEYS = ("webhook", "heartbeat", "watcher")
"""Addresses that may contain a secret, and are of no use to another process."""
SECRET_JUDGE_KEYS = ("api_key", "headers", "proxy", "options", "client_options", "tls")
"""A judge's keys that are not stored: secrets, and files of one machine."""


def live_values(config: Config) -> dict[str, Any]:
    """The live part as the file has it, without secrets, and what else decides what is judged."""
    values = config.settings.model_dump(mode="json", exclude_unset=True)
    live: dict[str, Any] = {name: values[name] for name in LIVE if name in values}
    for name, judge in config.settings.judges.items():
        plain = live["judges"][name]
        if present := {key: plain.pop(key) for key in SECRET_JUDGE_KEYS if key in plain}:
            plain["secret"] = {key: sorted(judge.headers) if key == "headers" else True for key in present}
    if "alerts" in live:
        live["alerts"] = {key: value for key, value in live["alerts"].items() if key not in _OWN_ALERT_KEYS}
    if attributes := values.get("assemble", {}).get("attributes"):
        live["attributes"] = attributes
    if names := values.get("feedback", {}).get("names"):
        live["feedback_names"] = names
    if trust := values.get("receive", {}).get("trust_tracestate"):
        live["trust_tracestate"] = trust
    live[KEYED] = True
    live[STARTED] = _start_hashes(config)
    return live


def _start_hashes(config: Config) -> dict[str, str]:
    return {name: value for name, value in section_hashes(config).items() if name.partition(".")[0] in AT_START}


def digest_of(live: Mapping[str, Any]) -> str:
    """A digest of a live part: 12 hex digits. The order of monitors counts: it decides which one comes first."""
    plain = {name: value for name, value in live.items() if name != STARTED or value}
    return hashlib.sha256(orjson.dumps(plain)).hexdigest()[:12]


def unlogged(key: str) -> bool:
    """Whether the log lacks this key's value, or the key is of no use without such a value."""
    section, _, rest = key.partition(".")
    return section == "golden" or (section == "judges" and rest.partition(".")[2] in SECRET_JUDGE_KEYS)


def start_changes(live: Mapping[str, Any], own: Config) -> list[str]:
    """The keys that differ between a stored configuration and a process's own, and that only a start reads."""
    ours = _start_hashes(own)
    return differing(ours, live.get(STARTED, ours))


def with_live_values(own: Config, live: Mapping[str, Any], source: str, *, answering: bool = True) -> Config:
    """A process's own configuration with another live part.

    With `answering` false, no judge is asked: what is secret is left out, and the declared attributes and the names of
    feedback are those of the live part.

    Raises:
        ConfigError: it cannot work here: a judge's secrets are not known, or a name in it is not.
    """
    values = own.settings.model_dump(exclude_unset=True)
    alerts = {key: value for key, value in values.get("alerts", {}).items() if key in _OWN_ALERT_KEYS}
    values = {name: value for name, value in values.items() if name not in LIVE}
    values |= {name: live[name] for name in LIVE if name in live}
    if alerts:
        values["alerts"] = {**values.get("alerts", {}), **alerts}
    values["judges"] = {
        name: _with_secrets(name, judge, own.settings if answering else None, source)
        for name, judge in cast("Mapping[str, dict[str, Any]]", live.get("judges", {})).items()
    }
    if "receive" in values or "trust_tracestate" in live:
        values.setdefault("receive", {"otlp_http": {}})["trust_tracestate"] = live.get("trust_tracestate", "never")
    if not answering:
        values.setdefault("assemble", {})["attributes"] = live.get("attributes", [])
        values.setdefault("feedback", {})["names"] = live.get("feedback_names", {})
        values.pop("golden", None)
    return check(values, source, folder=own.folder)


def _with_secrets(name: str, judge: Mapping[str, Any], own: Settings | None, source: str) -> dict[str, Any]:
    """A stored judge with the secrets of the process's own judge of this name, which must be at the same address."""
    values = {key: value for key, value in judge.items() if key != "secret"}
    if own is None or "secret" not in judge:
        return values
    mine = own.judges.get(name)
    defaults = {"kind": "openai", "base_url": "https://api.openai.com/v1"}
    if mine is None or (mine.kind, mine.base_url) != tuple(values.get(key, defaults[key]) for key in defaults):
        raise ConfigError(
            f"{source}: judges.{name}: its key is not known to this process, whose file has no judge of this name "
            "at this address; give it the same file"
        )
    return {**values, **{key: getattr(mine, key) for key in judge["secret"]}}


def restart_keys(old: Settings, new: Settings) -> list[str]:
    """The keys that differ and that only a start reads, sorted: `log.kafka.partitions`."""
    return sorted(path for path in _differences(old.model_dump(), new.model_dump()) if not is_live(path))


def live_keys(old: Settings, new: Settings) -> list[str]:
    """The keys that differ and that a running service takes, sorted."""
    return sorted(path for path in _differences(old.model_dump(), new.model_dump()) if is_live(path))


def is_live(path: str) -> bool:
    """Whether a running service takes a change of this key; of others it refuses the whole file."""
    return (path.partition(".")[0] in LIVE or path in LIVE_KEYS) and not f"{path}.".startswith(NOT_LIVE)


_ABSENT = object()


def _differences(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """The paths at which two values differ, down to values that are not mappings."""
    if old == new:
        return
    if not (isinstance(old, dict) and isinstance(new, dict)):
        yield path
        return
    before, after = cast("dict[str, Any]", old), cast("dict[str, Any]", new)
    for key in dict.fromkeys((*before, *after)):
        yield from _differences(before.get(key, _ABSENT), after.get(key, _ABSENT), f"{path}.{key}".lstrip("."))
