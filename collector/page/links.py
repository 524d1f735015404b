"""Links from an evaluation to its trace, in whatever shows traces."""

from __future__ import annotations

from typing import Literal
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field, model_validator

Kind = Literal["grafana", "tempo", "jaeger", "phoenix", "langfuse", "template"]

_EXPLORE = (
    '{{"trace":{{"datasource":"{datasource}","queries":[{{"refId":"A","datasource":{{"type":"tempo","uid":"{datasource}"}},'
    '"queryType":"traceql","query":"{trace_id}"}}],"range":{{"from":"now-7d","to":"now"}}}}}}'
)


class TraceLinkSettings(BaseModel):
    """Where a trace can be looked at."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Kind = Field(
        description="What shows the traces; template: any other. Tempo has no page of its own: it is Grafana's Explore."
    )
    url: str = Field(
        pattern=r"^https?://[^\s]+$",
        description="Its address, like https://grafana.example.com; for template with {trace_id} and {span_id} in it.",
    )
    datasource: str = Field(
        default="tempo", pattern=r"^[A-Za-z0-9_-]+$", description="grafana, tempo: uid of the Tempo data source."
    )
    project: str | None = Field(
        default=None, pattern=r"^[A-Za-z0-9_-]+$", description="langfuse: the project's id, as its address shows it."
    )

    @model_validator(mode="after")
    def _complete(self) -> TraceLinkSettings:
        if self.kind == "template" and "{trace_id}" not in self.url:
            raise ValueError("url has no {trace_id}; write it where the trace's id belongs")
        if self.kind == "langfuse" and self.project is None:
            raise ValueError("langfuse needs project: the id that stands in its address after /project/")
        return self

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
