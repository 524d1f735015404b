"""The rules written out: for Prometheus, its operator, Grafana and Alertmanager.

Grafana's rules read the series that Prometheus records: recording rules stay there. An alert's query gives only the
series that are wrong, so in Grafana "no data" means that all is well, and is set so; that no data comes at all has
alerts of its own (EvalstreamStale, EvalstreamDown).
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode

import yaml

from collector.alerting.rules.model import AlertingRule, Fact, Inhibition, Listing, RecordingRule, RuleGroup, RuleSet
from collector.alerting.rules.promql import duration, quoted
from collector.statistics.intervals import Z

_HEADER = "# Written by `evalstream rules`. Change the configuration instead.\n"
_DIGITS = {"count": ".0f", "n": ".0f", "error": ".2g", "doubt": ".2g", "unchanged": ".2g"}
"""How numbers of these names are written: those that count as whole ones, small distances with two digits."""
_PLACE = re.compile(r"\{(label:)?([a-z_]+)\}")


def prometheus(rules: RuleSet) -> dict[str, Any]:
    """A rule file of Prometheus."""
    return {"groups": [_group(group, rules) for group in rules.groups]}


def prometheus_rule(rules: RuleSet) -> dict[str, Any]:
    """A PrometheusRule, which the Prometheus operator loads."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "evalstream", "labels": {"app.kubernetes.io/name": "evalstream"}},
        "spec": prometheus(rules),
    }


def grafana(rules: RuleSet, datasource: str = "prometheus") -> dict[str, Any]:
    """Alert rules as Grafana's provisioning reads them, on the data source with this uid."""
    groups = [
        {
            "orgId": 1,
            "name": group.name,
            "folder": "evalstream",
            "interval": duration(group.interval),
            "rules": [_grafana_rule(rule, rules, datasource) for rule in _grafana_alerts(group)],
        }
        for group in rules.groups
    ]
    return {"apiVersion": 1, "groups": [group for group in groups if group["rules"]]}


def _grafana_alerts(group: RuleGroup) -> Iterator[AlertingRule]:
    """Grafana tells everybody of an alert that no route takes; the heartbeat is for Alertmanager."""
    return (rule for rule in group.rules if isinstance(rule, AlertingRule) and rule.severity != "heartbeat")


def alertmanager(rules: RuleSet) -> dict[str, Any]:
    """Routes and inhibitions of Alertmanager. Without a webhook in the configuration, the receiver does nothing yet."""

    def pause(seconds: float) -> str:
        return duration(max(1.0, seconds / rules.speed))

    receiver: dict[str, Any] = {"name": "evalstream"}
    if rules.webhook is not None:
        receiver["webhook_configs"] = [{"url": rules.webhook, "send_resolved": True}]
    heartbeat: list[dict[str, Any]] = []
    receivers = [receiver]
    if rules.heartbeat is not None:
        # every tick of a minute calls: with a repeat_interval as long, the last call is some milliseconds too young
        often = {"group_wait": pause(0), "group_interval": pause(60), "repeat_interval": pause(30)}
        heartbeat.append({"matchers": ['severity="heartbeat"'], "receiver": "heartbeat", **often})
        receivers.append({"name": "heartbeat", "webhook_configs": [{"url": rules.heartbeat, "send_resolved": False}]})
    return {
        "route": {
            "receiver": "evalstream",
            "group_by": ["alertname", "monitor", "evaluator"],
            "group_wait": pause(30),
            "group_interval": pause(300),
            "repeat_interval": pause(4 * 3600),
            "routes": [
                *heartbeat,
                {
                    "matchers": ['severity="page"'],
                    "receiver": "evalstream",
                    # a further fall is a group of its own, so it waits for no group_interval
                    "group_by": ["alertname", "monitor", "evaluator", "fall"],
                    "group_wait": pause(10),
                    "group_interval": pause(60),
                },
                {"matchers": ['severity="warning"'], "receiver": "evalstream"},
            ],
        },
        "inhibit_rules": [_inhibition(inhibition) for inhibition in rules.inhibitions],
        "receivers": receivers,
    }


FORMATS: Mapping[str, tuple[str, Callable[[RuleSet], dict[str, Any]]]] = {
    "prometheus": ("evalstream.rules.yml", prometheus),
    "prometheusrule": ("evalstream.prometheusrule.yml", prometheus_rule),
    "grafana": ("evalstream.grafana-alerts.yml", grafana),
    "alertmanager": ("evalstream.alertmanager.yml", alertmanager),
}
"""The file's name and the writer of every format."""


def text(document: dict[str, Any]) -> str:
    """A document as YAML."""
    return _HEADER + yaml.safe_dump(document, sort_keys=False, width=200, allow_unicode=True)


def _group(group: RuleGroup, rules: RuleSet) -> dict[str, Any]:
    return {
        "name": group.name,
        "interval": duration(group.interval),
        "rules": [_recording(rule) if isinstance(rule, RecordingRule) else _alert(rule, rules) for rule in group.rules],
    }


def _recording(rule: RecordingRule) -> dict[str, Any]:
    return {"record": rule.record, "expr": rule.expr, **({"labels": dict(rule.labels)} if rule.labels else {})}


def _alert(alert: AlertingRule, rules: RuleSet) -> dict[str, Any]:
    return {
        "alert": alert.name,
        "expr": alert.expr,
        **({"for": duration(alert.hold)} if alert.hold else {}),
        "labels": {"severity": alert.severity, **rules.labels, **alert.labels},
        "annotations": _annotations(alert, rules, lambda word: _prometheus_value(alert, word)),
    }


def _annotations(alert: AlertingRule, rules: RuleSet, value: Callable[[str], str]) -> dict[str, str]:
    def fill(template: str) -> str:
        return _PLACE.sub(lambda place: label(place[2]) if place[1] else value(place[2]), template)

    def label(name: str) -> str:  # texts cannot show labels that the rule itself adds
        return alert.labels.get(name) or f"{{{{ $labels.{name} }}}}"

    annotations = {"summary": fill(alert.summary), "description": fill(alert.description)}
    annotations["runbook_url"] = f"{rules.runbooks}/{alert.name}.md"
    if rules.dashboards is not None:
        annotations["dashboard_url"] = dashboard_address(rules.dashboards, alert.board, alert.labels)
    if rules.page is not None and alert.board == "quality":
        annotations["page_url"] = page_address(rules.page, alert.labels)
    return annotations


def dashboard_address(grafana: str, board: str, labels: Mapping[str, str]) -> str:
    """The dashboard of an alert's last day, with its monitor and evaluator chosen."""
    chosen = "".join(f"&var-{name}={quote(labels[name])}" for name in ("monitor", "evaluator") if name in labels)
    return f"{grafana.rstrip('/')}/d/evalstream-{board}?from=now-24h&to=now{chosen}"


def page_address(page: str, labels: Mapping[str, str]) -> str:
    """The evaluations that an alert is about on evalstream's page, the worst first."""
    # without the audit's mark or the share's label
    evaluator = labels.get("evaluator", "").replace("=", ":").partition(":")[0]
    chosen = {"monitor": labels.get("monitor", ""), "evaluator": evaluator}
    return f"{page.rstrip('/')}/?{urlencode({name: value for name, value in chosen.items() if value})}".rstrip("?")


def _prometheus_value(alert: AlertingRule, word: str) -> str:
    if word in {"value", "count"}:
        return _number("$value", word)
    fact = alert.facts[word]
    fixed = "".join(f",{name}={quoted(value)}" for name, value in fact.labels.items())
    matchers = ",".join(f"{name}=%q" for name in fact.by) + fixed
    arguments = " ".join(quoted(alert.labels[name]) if name in alert.labels else f"$labels.{name}" for name in fact.by)
    query = _over(fact, f"{fact.series}{{{matchers}}}").replace('"', '\\"')
    known = f'{{{{ with printf "{query}" {arguments} | query }}}}'
    if (listed := fact.listed) is not None:
        return f"{known}{listed.intro}{_items(listed)}{{{{ else }}}}{listed.otherwise}{{{{ end }}}}"
    value = _number("(. | first | value)", word, fact)
    if fact.phrase:
        return f"{known}{fact.phrase.replace('{}', value)}{{{{ end }}}}"
    return f"{known}{value}{{{{ else }}}}?{{{{ end }}}}"


def _items(listed: Listing) -> str:
    """The items of a list, with commas; `args` makes a map whose keys are in the order of its arguments."""
    item = f"{{{{ .Labels.{listed.label} }}}} ({{{{ .Value | {listed.form} }}}}{listed.unit})"
    items = f"{{{{ $comma }}}}{{{{ $comma = `, ` }}}}{item}"
    if listed.order:
        of_place = f"{{{{ range $all }}}}{{{{ if eq .Labels.{listed.label} $place }}}}{items}{{{{ end }}}}{{{{ end }}}}"
        items = f"{{{{ range $place := args {' '.join(map(quoted, listed.order))} }}}}{of_place}{{{{ end }}}}"
        return f"{{{{ $all := . }}}}{{{{ $comma := `` }}}}{items}"
    return f"{{{{ $comma := `` }}}}{{{{ range . }}}}{items}{{{{ end }}}}"


def _number(place: str, word: str, fact: Fact | None = None) -> str:
    """A value as people write it: a time, or three digits (of the alert's own, four), and all before the point."""
    if fact is not None and fact.is_time:
        return f"{{{{ {place} | humanizeTimestamp }}}}"
    few = f'{{{{ {place} | printf "%{_DIGITS.get(word, ".3g" if fact else ".4g")}" }}}}'
    return f'{{{{ if ge {place} 999.5 }}}}{{{{ {place} | printf "%.0f" }}}}{{{{ else }}}}{few}{{{{ end }}}}'


def _grafana_rule(alert: AlertingRule, rules: RuleSet, datasource: str) -> dict[str, Any]:
    letters = {word: chr(ord("D") + number) for number, word in enumerate(alert.facts)}
    queries = [_query("A", alert.expr, datasource)]
    queries += [_query(letters[word], _fact_query(fact), datasource) for word, fact in alert.facts.items()]
    condition = {"refId": "C", "type": "math", "expression": "is_number($A)", "datasource": {"uid": "__expr__"}}
    queries.append({"refId": "C", "datasourceUid": "__expr__", "model": condition})

    def value(word: str) -> str:
        if word in {"value", "count"}:
            return _number("$values.A.Value", word)
        fact, place = alert.facts[word], f"$values.{letters[word]}"
        if fact.listed is not None:
            return fact.listed.elsewhere
        number = _number(f"{place}.Value", word, fact)
        return f"{{{{ if {place}.Labels }}}}{fact.phrase.replace('{}', number)}{{{{ end }}}}" if fact.phrase else number

    return {
        "uid": "evalstream-" + hashlib.sha256(f"{alert.name} {alert.expr}".encode()).hexdigest()[:12],
        # Grafana wants titles that differ within a folder
        "title": f"{alert.name} ({alert.severity}, {hashlib.sha256(alert.expr.encode()).hexdigest()[:6]})",
        "condition": "C",
        "data": queries,
        "noDataState": "OK",
        "execErrState": "Error",
        "for": duration(alert.hold) if alert.hold else "0s",
        "labels": {"severity": alert.severity, **rules.labels, **alert.labels},
        "annotations": _annotations(alert, rules, value),
    }


def _query(letter: str, expr: str, datasource: str) -> dict[str, Any]:
    return {
        "refId": letter,
        "datasourceUid": datasource,
        "relativeTimeRange": {"from": 600, "to": 0},
        "model": {"refId": letter, "expr": expr, "instant": True, "range": False},
    }


def _fact_query(fact: Fact) -> str:
    matchers = ",".join(f"{name}={quoted(value)}" for name, value in fact.labels.items())
    return _over(fact, f"{fact.series}{{{matchers}}}" if matchers else fact.series)


def _over(fact: Fact, selected: str) -> str:
    known = f"last_over_time({selected}[{fact.within}])" if fact.within else selected
    value = f"{Z:.2f} * {known}" if fact.is_margin else f"floor({known})" if fact.is_time else known
    value = f"{value} < Inf {fact.only}".rstrip()  # no text says NaN
    return (
        f"{fact.rounds}(({value}) * 100 {'+' if fact.rounds == 'floor' else '-'} 1e-7) / 100" if fact.rounds else value
    )


def _inhibition(inhibition: Inhibition) -> dict[str, Any]:
    def matchers(names: tuple[str, ...], labels: Mapping[str, str]) -> list[str]:
        return [f'alertname=~"{"|".join(names)}"', *(f'{name}="{value}"' for name, value in labels.items())]

    document: dict[str, Any] = {
        "source_matchers": matchers(inhibition.sources, inhibition.source_labels),
        "target_matchers": matchers(inhibition.targets, inhibition.target_labels),
    }
    return document | ({"equal": list(inhibition.equal)} if inhibition.equal else {})
