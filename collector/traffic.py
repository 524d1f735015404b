"""What the running service did with its traffic: for each monitor what it matched, and where that went."""

from __future__ import annotations

import http.client
from collections.abc import Iterator, Mapping
from typing import Any, cast

from prometheus_client.parser import text_string_to_metric_families

from collector.config.loading import Config
from collector.telemetry import LEDGER, TURNS

Counts = dict[tuple[str, str], dict[str, float]]
"""By monitor and evaluator ("" for the turns themselves), what became of how many."""


def traffic(config: Config) -> Iterator[str]:
    """What the service with this configuration has counted since its start, where it runs and can be asked."""
    counts = counts_of(config)
    if counts is None:
        yield "traffic    not known: the service does not run here, or has no /metrics"
        return
    yield from explained(config, counts)


def counts_of(config: Config) -> Counts | None:
    """The same as figures; None where nobody answers."""
    exporter: Any = config.exporters.get("prometheus")
    text = None if exporter is None or not exporter.port else _metrics(exporter.host, exporter.port)
    return None if text is None else counted(text)


def counted(text: str) -> Counts:
    """The ledger out of the text of /metrics."""
    counts: Counts = {}
    for family in text_string_to_metric_families(text):
        if f"{family.name}_total" not in (LEDGER.name, TURNS.name):
            continue
        for sample in family.samples:
            labels = cast("Mapping[str, str]", sample.labels)
            key = (labels.get("monitor", ""), labels.get("evaluator", ""))
            what = labels.get("what") or labels.get("outcome", "")
            reason = f" ({labels['reason']})" if labels.get("reason") else ""
            kind = counts.setdefault(key, {})
            kind[what + reason] = kind.get(what + reason, 0.0) + sample.value
    return counts


def explained(config: Config, counts: Counts) -> Iterator[str]:
    """The counts in words, and for each evaluator that never ran the reason."""
    unmatched = counts.get(("", ""), {}).get("unmatched", 0)
    if unmatched:
        yield f"traffic    {unmatched:.0f} turns match no monitor"
    for name, monitor in config.settings.monitors.items():
        turns = {what: number for what, number in counts.get((name, ""), {}).items() if number}
        yield f"traffic    {name}: turns {_listed(turns) or 'none: nothing matched'}"
        for use in monitor.uses:
            found = {what: number for what, number in counts.get((name, use.name), {}).items() if number}
            yield f"           - {use.name}: {_listed(found) or _why(config, use.name, turns)}"


def _why(config: Config, evaluator: str, turns: Mapping[str, float]) -> str:
    if not turns:
        return "never ran: no turn matched its monitor"
    if config.evaluators[evaluator].evaluator.scope == "conversation":
        return "never ran: no conversation that was sampled is over yet"
    return "never ran"


def _listed(counts: Mapping[str, float]) -> str:
    return ", ".join(f"{number:.0f} {what}" for what, number in counts.items())


def _metrics(host: str, port: int) -> str | None:
    connection = http.client.HTTPConnection("127.0.0.1" if host in {"0.0.0.0", "::"} else host, port, timeout=2.0)  # noqa: S104
    try:
        connection.request("GET", "/metrics", headers={"Accept": "text/plain"})
        return connection.getresponse().read().decode()
    except (OSError, http.client.HTTPException, UnicodeDecodeError):
        return None
    finally:
        connection.close()
