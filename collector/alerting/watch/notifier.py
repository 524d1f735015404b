"""Notifications to Alertmanager (API v2) or a webhook (Alertmanager's payload) of alerts that begin, last and end."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp
import orjson

from collector.alerting.rules.formats import page_address
from collector.alerting.rules.service import SHIFT
from collector.backoff import FailureLog
from collector.export.acceptance import no_acceptance
from collector.logs.log import Log, LogUnavailable, Record
from collector.logs.whole_log import notes_in
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
NOTIFIED_KEY = b"notified alerts"
"""The key of the notes in the definitions log, one for each begin and end. The last one of an alert counts."""


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
    four evaluations. A webhook is notified of changes only; after a restart once more of what still fires, and of the
    end of what does not, by the notes of earlier processes.
    """

    client: HttpClient
    telemetry: Telemetry
    interval: float
    alertmanager: str | None = None
    webhook: str | None = None
    page: str | None = None
    """The address of evalstream's page, to which alerts link."""
    notes: Log | None = None
    """The definitions log, for notes of the alerts on scores that the webhook takes to be firing."""
    _noted: Mapping[str, float | None] | None = None
    """The targets of the alerts that fire by the notes; None before these are read."""
    _earlier: dict[str, _TrackedAlert] = field(default_factory=dict[str, _TrackedAlert])
    """The alerts that fire by the notes of earlier processes, until this one notifies of each."""
    _firing: dict[str, _TrackedAlert] = field(default_factory=dict[str, _TrackedAlert])
    _ended: dict[str, _TrackedAlert] = field(default_factory=dict[str, _TrackedAlert])
    _to_alertmanager: FailureLog = field(default_factory=lambda: FailureLog("posting alerts to Alertmanager"))
    _to_webhook: FailureLog = field(default_factory=lambda: FailureLog("posting alerts to the webhook"))
    _to_notes: FailureLog = field(default_factory=lambda: FailureLog("noting alerts in the definitions log"))

    def hand_over(self) -> None:
        """Say nothing more of these alerts: another process watches now, and notifies of what fires."""
        self._firing.clear()
        self._ended.clear()
        self._earlier.clear()
        self._noted = None

    async def notify(
        self,
        active: Sequence[AlertInstance],
        now: float,
        why_over: Callable[[AlertInstance], str] = lambda _alert: "",
        *,
        is_restored: bool = False,
    ) -> None:
        """Notify of what fires at `now` (seconds since the epoch), and of what does not any more, with `why_over`.

        `is_restored` says whether `active` comes from all scores. Until then, an alert of an earlier process may fire.
        """
        current = {instance.key: self._with_page_link(instance) for instance in active}
        await self._read_notes()
        for key, earlier in self._earlier.items():
            # the scores alone do not say whether a shift has ended
            is_known = is_restored and earlier.alert.labels["alertname"] != SHIFT
            if key not in current and (is_known or why_over(earlier.alert)):
                self._firing.setdefault(key, earlier)
        for key in [each for each in self._firing if each not in current]:
            self._ended[key] = ended = self._firing.pop(key)
            ended.notified |= self._earlier.pop(key, None) is not None
            why, annotations = why_over(ended.alert) or "It has ended.", ended.alert.annotations
            text = f"{why} Its last text: {annotations['description']}" if "description" in annotations else why
            ended.alert = replace(ended.alert, annotations={**annotations, "description": text})
        for key, alert in current.items():
            began = self._earlier[key].since if key in self._earlier else alert.since or now
            self._firing.setdefault(key, _TrackedAlert(alert, began)).alert = alert
            self._ended.pop(key, None)
        ended = list(self._ended.values())
        done = await self._post_to_alertmanager(ended, now)
        done = await self._post_to_webhook(ended, now) and done
        if done:
            self._ended.clear()
        await self._note()

    async def _read_notes(self) -> None:
        if self.notes is None or self.webhook is None or self._noted is not None:
            return
        noted = dict[str, Any]()
        with self._to_notes.attempt(LogUnavailable, KeyError, TypeError):  # the last two: of a newer release
            async for note in notes_in(self.notes, NOTIFIED_KEY):
                noted[note["fingerprint"]] = note["firing"]
            earlier = {key: AlertInstance(**firing) for key, firing in noted.items() if firing}
            self._earlier = {key: _TrackedAlert(of, of.since or 0.0, notified=True) for key, of in earlier.items()}
            self._noted = {key: of.target for key, of in earlier.items()}

    async def _note(self) -> None:
        """Note what the webhook takes to be firing now, and did not before; and what it does not any more."""
        if self.notes is None or self._noted is None:
            return
        alerts = self._ended | self._firing | self._earlier
        # an alert without a target is about a release, and ends with it
        firing = {key: of.alert.target for key, of in alerts.items() if of.notified and of.alert.target is not None}
        changed = [key for key in {**self._noted, **firing} if self._noted.get(key) != firing.get(key)]
        notes = [{"fingerprint": key, "firing": _to_note(alerts[key]) if key in firing else None} for key in changed]
        if changed:
            with self._to_notes.attempt(LogUnavailable):
                await self.notes.append([Record(NOTIFIED_KEY, orjson.dumps(note), partition=0) for note in notes])
                self._noted = firing

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
        over = [alert for alert in ended if alert.notified]
        done = True
        for status, changed in (("firing", fresh), ("resolved", over)):
            if changed and not await self._post(self.webhook, _message(status, changed, now), self._to_webhook):
                done = False
            elif status == "firing":
                for alert in changed:
                    alert.notified = True
                    self._earlier.pop(alert.alert.key, None)
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


def _to_note(of: _TrackedAlert) -> dict[str, Any]:
    """Without its text, which may hold values of attributes: `erase` does not look for them here."""
    annotations = {name: text for name, text in of.alert.annotations.items() if name != "description"}
    return {"labels": of.alert.labels, "annotations": annotations, "target": of.alert.target, "since": of.since}


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


def _message(status: str, changed: Sequence[_TrackedAlert], now: float) -> dict[str, Any]:
    lasts = {"endsAt": "0001-01-01T00:00:00Z"} if status == "firing" else {}
    alerts = [
        {**_v2(alert, now), **lasts, "status": status, "generatorURL": "", "fingerprint": alert.alert.key}
        for alert in changed
    ]
    return {
        "version": "4", "status": status, "receiver": "evalstream", "groupKey": "evalstream", "groupLabels": {},
        "commonLabels": {}, "commonAnnotations": {}, "externalURL": "", "truncatedAlerts": 0, "alerts": alerts,
    }  # fmt: skip
