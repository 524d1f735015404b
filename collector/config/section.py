"""The base of every mapping in the configuration file."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A mapping of the file: no unknown keys, and nothing changes after reading."""

    model_config = ConfigDict(frozen=True, extra="forbid")
