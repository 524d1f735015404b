"""Traffic of the running service, from its /metrics: the turns and evaluations of each monitor by outcome."""

from __future__ import annotations

import http.client
from collections.abc import Iterator, Mapping
from typing import Any, cast

from prometheus_client.parser import text_string_to_metric_families

from collector.config.loading import Config
from collector.telemetry.series import EVALUATIONS_DUE, EVALUATIONS_ENDED, TURNS, UNMATCHED_TURNS
from collector.wording import plural

_FUNNEL = tuple(each.name for each in (TURNS, UNMATCHED_TURNS, EVALUATIONS_DUE, EVALUATIONS_ENDED))

Counts = dict[tuple[str, str], dict[str, float]]
"""Counts by outcome, by monitor and evaluator ("" for the turns themselves)."""


def traffic(config: Config) -> Iterator[str]:
    """Lines of the plan: the counts of the service with this configuration since its start, if it is reachable."""
    counts = counts_of(config)
    if counts is None:
        yield "traffic    unknown (no service with this configuration answers on /metrics)"
        return
    yield from count_lines(config, counts)


def counts_of(config: Config) -> Counts | None:
    """The same as figures; None if the service does not answer."""
    text = metrics_text(config)
    return None if text is None else parse_counts(text)


def metrics_text(config: Config) -> str | None:
    """What the running service shows on /metrics; None if it does not answer."""
    exporter: Any = config.exporters.get("prometheus")
    return None if exporter is None or not exporter.port else _metrics(exporter.host, exporter.port)


def parse_counts(text: str) -> Counts:
    """The counts in the text of /metrics."""
    counts: Counts = {}
    for family in text_string_to_metric_families(text):
        if f"{family.name}_total" not in _FUNNEL:
            continue
        for sample in family.samples:
            labels = cast("Mapping[str, str]", sample.labels)
            key = (labels.get("monitor", ""), labels.get("evaluator", ""))
            outcome = labels.get("origin") or labels.get("outcome", "unmatched")
            reason = f" ({labels['reason']})" if labels.get("reason") else ""
            outcomes = counts.setdefault(key, {})
            outcomes[outcome + reason] = outcomes.get(outcome + reason, 0.0) + sample.value
    return counts


def count_lines(config: Config, counts: Counts) -> Iterator[str]:
    """The counts in words, and the reason for each evaluator that never ran."""
    unmatched = counts.get(("", ""), {}).get("unmatched", 0)
    if unmatched:
        yield f"traffic    {plural(round(unmatched), 'turn')} matched no monitor"
    for name, monitor in config.settings.monitors.items():
        turns = {what: number for what, number in counts.get((name, ""), {}).items() if number}
        yield f"traffic    {name}: turns {_listed(turns) or 'none matched'}"
        for use in monitor.uses:
            evaluations = {outcome: number for outcome, number in counts.get((name, use.name), {}).items() if number}
            yield f"           - {use.name}: {_listed(evaluations) or _why(config, use.name, turns)}"


def _why(config: Config, evaluator: str, turns: Mapping[str, float]) -> str:
    if not turns:
        return "never ran: no turn matched its monitor"
    if config.evaluators[evaluator].evaluator.scope == "conversation":
        return "never ran: no sampled conversation has ended yet"
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
