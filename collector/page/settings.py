"""The page's section of the configuration file."""

from collections.abc import Iterator
from typing import Literal
from urllib.parse import quote

from pydantic import Field

from collector.durations import Seconds
from collector.logs.addresses import ListeningHost
from collector.page.label_queue import LabelQueueSettings
from collector.receive.access import AuthSettings, TlsSettings, is_loopback
from collector.section import Section

Kind = Literal["grafana", "tempo", "jaeger", "phoenix", "langfuse", "template"]

_EXPLORE = (
    '{{"trace":{{"datasource":"{datasource}","queries":[{{"refId":"A","datasource":{{"type":"tempo","uid":"{datasource}"}},'
    '"queryType":"traceql","query":"{trace_id}"}}],"range":{{"from":"now-7d","to":"now"}}}}}}'
)


class TraceLinkSettings(Section):
    """The address at which a trace can be viewed."""

    kind: Kind
    """The tool that shows the traces; template: any other. Tempo has no page of its own: it is Grafana's Explore."""
    url: str = Field(pattern=r"^https?://[^\s]+$")
    """Its address, like https://grafana.example.com; for template with {trace_id} and {span_id} in it."""
    datasource: str = Field(default="tempo", pattern=r"^[A-Za-z0-9_-]+$")
    """grafana, tempo: uid of the Tempo data source."""
    project: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_-]+$")
    """langfuse: the project's id, as its address shows it."""

    def _mistakes(self) -> Iterator[str]:
        if self.kind == "template" and "{trace_id}" not in self.url:
            yield "url has no {trace_id}; write it where the trace's id belongs"
        if self.kind == "langfuse" and self.project is None:
            yield "langfuse needs project: the id that stands in its address after /project/"

    def link(self, trace_id: str, span_id: str | None) -> str:
        """The address of a trace, at the span where the target can show one. Ids are put in as data, quoted."""
        base, trace, span = self.url.rstrip("/"), quote(trace_id, safe=""), quote(span_id or "", safe="")
        match self.kind:
            case "grafana" | "tempo":
                panes = _EXPLORE.format(datasource=self.datasource, trace_id=trace)
                return f"{base}/explore?schemaVersion=1&orgId=1&panes={quote(panes, safe='')}"
            case "jaeger":
                return f"{base}/trace/{trace}" + (f"?uiFind={span}" if span else "")
            case "phoenix":
                return f"{base}/redirects/spans/{span}" if span else f"{base}/redirects/traces/{trace}"
            case "langfuse":
                return f"{base}/project/{self.project}/traces/{trace}" + (f"?observation={span}" if span else "")
            case "template":
                return self.url.replace("{trace_id}", trace).replace("{span_id}", span)


class PageSettings(Section):
    """A page to look at the service with: on it people see conversations and label evaluations."""

    host: ListeningHost = "127.0.0.1"
    """Address to listen on."""
    port: int = Field(default=8321, ge=0, le=65535)
    """Port; 0 takes any free one."""
    url: str | None = Field(default=None, pattern=r"^https?://[^\s?#]+$")
    """The address at which people reach the page, like https://evalstream.example.com: alerts, and scores on other
    platforms, link to it."""
    allowed_hosts: list[str] = Field(default_factory=list)
    """Host names of the page, in addition to localhost; others are rejected."""
    show_text: bool = True
    """Whether texts of users and applications are shown; false: figures only."""
    max_evaluations: int = Field(default=5000, ge=10, le=1_000_000)
    """The newest evaluations that are listed."""
    max_text_bytes: int = Field(default=64 * 1024**2, ge=1024)
    """Memory for the conversations of listed evaluations; the oldest are dropped first."""
    auth: AuthSettings | None = None
    """Tokens that open the page; by default those of receive.otlp_http."""
    tls: TlsSettings | None = None
    """TLS, and mutual TLS."""
    insecure: bool = False
    """Show the page beyond this machine without authentication."""
    max_age: Seconds = Field(default=86400.0, gt=0)
    """Nothing older than this is listed."""
    queue: LabelQueueSettings = LabelQueueSettings()
    """The evaluations that people label before they see a score."""
    trace_link: TraceLinkSettings | None = None
    """The place where traces can be viewed."""

    @property
    def only_operators(self) -> bool:
        """Whether nobody else can reach it, even without tokens."""
        return is_loopback(self.host) or (self.tls is not None and self.tls.client_ca is not None)

    @property
    def closed(self) -> bool:
        """Whether it may be served without tokens."""
        return self.only_operators or self.insecure
