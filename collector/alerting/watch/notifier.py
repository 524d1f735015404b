"""Notifications to Alertmanager (API v2) or a webhook (Alertmanager's payload) of alerts that begin, last and end."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import aiohttp
import orjson

from collector.alerting.rules.formats import page_address
from collector.backoff import FailureLog
from collector.export.acceptance import no_acceptance
from collector.page.sources import Cause
from collector.telemetry.plain import in_chat
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import WATCH_NOTIFICATIONS
from collector.wording import as_utc
from evaluators.judges.connection import connection_problem
from evaluators.wire.http_client import HttpClient

WITHIN = 10.0
"""Seconds for a post."""
_JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True)
class AlertInstance:
    """An alert that fires. Its labels are its identity."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    causes: tuple[Cause, ...] = ()
    """The causes of a drop; the texts name them, too."""
    target: float | None = None
    since: float | None = None
    """When what it is about began, by the log (s since the epoch): the same after a restart. None: not known."""

    @property
    def key(self) -> str:
        """The same for the same labels."""
        return hashlib.sha256(repr(sorted(self.labels.items())).encode()).hexdigest()[:16]


@dataclass(slots=True)
class _TrackedAlert:
    alert: AlertInstance
    since: float
    notified: bool = False


@dataclass(slots=True)
class Notifier:
    """Tracks the alerts that fire, and posts. A post that fails is repeated at the next evaluation.

    Alertmanager is notified at every evaluation, as it requires: it resolves an alert that is not repeated, here within
    four evaluations. A webhook is notified of changes only; after a restart once more of what still fires.
    """

    client: HttpClient
    telemetry: Telemetry
    interval: float
    alertmanager: str | None = None
    webhook: str | None = None
    page: str | None = None
    """The address of evalstream's page, to which alerts link."""
    _firing: dict[str, _TrackedAlert] = field(default_factory=dict[str, _TrackedAlert])
    _ended: dict[str, _TrackedAlert] = field(default_factory=dict[str, _TrackedAlert])
    _to_alertmanager: FailureLog = field(default_factory=lambda: FailureLog("posting alerts to Alertmanager"))
    _to_webhook: FailureLog = field(default_factory=lambda: FailureLog("posting alerts to the webhook"))

    def hand_over(self) -> None:
        """Say nothing more of these alerts: another process watches now, and notifies of what fires."""
        self._firing.clear()
        self._ended.clear()

    async def notify(
        self, active: Sequence[AlertInstance], now: float, why_over: Callable[[AlertInstance], str] = lambda _alert: ""
    ) -> None:
        """Notify of what fires at `now` (seconds since the epoch), and of what does not any more, with `why_over`."""
        current = {instance.key: self._with_page_link(instance) for instance in active}
        for key in [each for each in self._firing if each not in current]:
            self._ended[key] = ended = self._firing.pop(key)
            why, annotations = why_over(ended.alert) or "It has ended.", ended.alert.annotations
            text = f"{why} Its last text: {annotations['description']}"
            ended.alert = replace(ended.alert, annotations={**annotations, "description": text})
        for key, alert in current.items():
            self._firing.setdefault(key, _TrackedAlert(alert, alert.since or now)).alert = alert
            self._ended.pop(key, None)
        ended = list(self._ended.values())
        done = await self._post_to_alertmanager(ended, now)
        done = await self._post_to_webhook(ended, now) and done
        if done:
            self._ended.clear()

    def _with_page_link(self, alert: AlertInstance) -> AlertInstance:
        if self.page is None:
            return alert
        return replace(alert, annotations={**alert.annotations, "page_url": page_address(self.page, alert.labels)})

    async def _post_to_alertmanager(self, ended: Sequence[_TrackedAlert], now: float) -> bool:
        if self.alertmanager is None or not (self._firing or ended):
            return True
        alerts = [_v2(alert, now + 4 * self.interval) for alert in self._firing.values()]
        alerts += [_v2(alert, now) for alert in ended]
        return await self._post(f"{self.alertmanager.rstrip('/')}/api/v2/alerts", alerts, self._to_alertmanager)

    async def _post_to_webhook(self, ended: Sequence[_TrackedAlert], now: float) -> bool:
        if self.webhook is None:
            return True
        fresh = [alert for alert in self._firing.values() if not alert.notified]
        done = True
        messages: tuple[tuple[Literal["firing", "resolved"], Sequence[_TrackedAlert]], ...] = (
            ("firing", fresh),
            ("resolved", [alert for alert in ended if alert.notified]),
        )
        for status, changed in messages:
            if changed and not await self._post(self.webhook, _message(status, changed, now), self._to_webhook):
                done = False
            elif status == "firing":
                for alert in changed:
                    alert.notified = True
        return done

    async def _post(self, url: str, body: Any, log: FailureLog) -> bool:
        try:
            answer = await self.client.request("POST", url, data=orjson.dumps(body), headers=_JSON)
            problem = no_acceptance(answer) if answer.is_success else f"status {answer.status_code}"
        except (aiohttp.ClientError, OSError, ValueError) as error:
            problem = connection_problem(error)
        self.telemetry.counter(WATCH_NOTIFICATIONS, "failed" if problem else "ok").inc()
        if problem is not None:
            log.failed(problem)
            return False
        log.succeeded()
        return True


def _annotations(alert: AlertInstance) -> dict[str, str]:
    """They hold values of attributes, which anybody may have written; the addresses are ours."""
    return {name: text if name.endswith("_url") else in_chat(text) for name, text in alert.annotations.items()}


def _v2(known: _TrackedAlert, ends: float) -> dict[str, Any]:
    return {
        "labels": dict(known.alert.labels),
        "annotations": _annotations(known.alert),
        "startsAt": as_utc(known.since),
        "endsAt": as_utc(ends),
    }


def _message(status: Literal["firing", "resolved"], changed: Sequence[_TrackedAlert], now: float) -> dict[str, Any]:
    lasts = {"endsAt": "0001-01-01T00:00:00Z"} if status == "firing" else {}
    alerts = [
        {**_v2(alert, now), **lasts, "status": status, "generatorURL": "", "fingerprint": alert.alert.key}
        for alert in changed
    ]
    return {
        "version": "4", "status": status, "receiver": "evalstream", "groupKey": "evalstream", "groupLabels": {},
        "commonLabels": {}, "commonAnnotations": {}, "externalURL": "", "truncatedAlerts": 0, "alerts": alerts,
    }  # fmt: skip
