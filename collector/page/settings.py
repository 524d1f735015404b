"""The page's section of the configuration file."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from collector.durations import Seconds
from collector.page.label_draw import LabelQueueSettings
from collector.page.links import TraceLinkSettings
from collector.receive.access import AuthSettings, TlsSettings, is_loopback


class PageSettings(BaseModel):
    """A page to look at the service with: on it people see conversations and label evaluations."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on.")
    port: int = Field(default=8321, ge=0, le=65535, description="Port to listen on; 0 takes any free one.")
    url: str | None = Field(
        default=None,
        pattern=r"^https?://[^\s?#]+$",
        description="Where people reach the page, like https://evalstream.example.com: scores that go to other "
        "platforms link to it.",
    )
    allowed_hosts: list[str] = Field(
        default_factory=list,
        description="Host names of the page, in addition to localhost; others are rejected.",
    )
    show_text: bool = Field(
        default=True, description="Whether texts of users and applications are shown; false: figures only."
    )
    max_evaluations: int = Field(
        default=5000, ge=10, le=1_000_000, description="The newest evaluations that are listed."
    )
    max_text_bytes: int = Field(
        default=64 * 1024**2, ge=1024, description="Memory for their conversations; the oldest are dropped first."
    )
    auth: AuthSettings | None = Field(
        default=None, description="Tokens that open the page; those of receive.otlp_http, if left out."
    )
    tls: TlsSettings | None = Field(default=None, description="TLS, and mutual TLS.")
    insecure: bool = Field(default=False, description="Show the page beyond this machine without authentication.")
    max_age: Seconds = Field(default=86400.0, gt=0, description="Nothing older than this is listed.")
    queue: LabelQueueSettings = Field(
        default=LabelQueueSettings(),
        description="Which evaluations people label before they see a score.",
    )
    trace_link: TraceLinkSettings | None = Field(default=None, description="Where traces can be viewed.")

    @property
    def only_operators(self) -> bool:
        """Whether nobody else can reach it, even without tokens."""
        return is_loopback(self.host) or (self.tls is not None and self.tls.client_ca is not None)

    @property
    def closed(self) -> bool:
        """Whether it may be served without tokens."""
        return self.only_operators or self.insecure
