"""What every mapping of the configuration file has in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A mapping of the file: no unknown keys, and nothing changes after reading."""

    model_config = ConfigDict(frozen=True, extra="forbid")
