"""Configurations that many tests share: one monitor, `all`, with every evaluator of the file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from collector.config.configured import Config
from collector.config.loading import check


def checked(
    evaluators: Mapping[str, Any],
    *,
    monitor: Mapping[str, Any] | None = None,
    folder: Path | None = None,
    **sections: Any,
) -> Config:
    """The checked configuration of these evaluators; with `folder` its logs are in `logs.db` there."""
    if folder is not None:
        sections["log"] = {"kind": "sqlite", "path": str(folder / "logs.db")}
    monitors = {"all": {"evaluators": list(evaluators), **(monitor or {})}}
    return check({"evaluators": dict(evaluators), "monitors": monitors, **sections}, "test.yaml")
