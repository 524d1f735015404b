"""The page's section of the configuration file."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from collector.durations import Seconds
from collector.page.links import TraceLinkSettings


class PageSettings(BaseModel):
    """A page to look at the service with: on it people see conversations and label evaluations."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on.")
    port: int = Field(default=8321, ge=0, le=65535, description="Port to listen on; 0 takes any free one.")
    hosts: list[str] = Field(
        default_factory=list,
        description="Names under which browsers may ask for the page, besides localhost; others are refused.",
    )
    text: bool = Field(
        default=True, description="Whether what users and applications said is shown; without it only figures are."
    )
    evaluations: int = Field(default=5000, ge=10, le=1_000_000, description="The newest evaluations that are listed.")
    text_bytes: int = Field(
        default=64 * 1024**2, ge=1024, description="Memory for the conversations they came from; the oldest go first."
    )
    keep: Seconds = Field(default=86400.0, gt=0, description="Nothing older than this is listed.")
    trace_link: TraceLinkSettings | None = Field(default=None, description="Where a trace can be looked at.")
