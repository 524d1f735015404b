"""Tells Alertmanager (API v2) or a webhook (in the form of Alertmanager's) about alerts that begin, last and end."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

import aiohttp

from collector.telemetry import WATCH_POSTS, Telemetry

logger = logging.getLogger(__name__)

TIMEOUT = aiohttp.ClientTimeout(total=10)


@dataclass(frozen=True, slots=True)
class Active:
    """An alert that fires. Its labels are its identity."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]

    @property
    def key(self) -> str:
        """The same for the same labels."""
        return hashlib.sha256(repr(sorted(self.labels.items())).encode()).hexdigest()[:16]


@dataclass(slots=True)
class _Known:
    alert: Active
    since: float
    told: bool = False


@dataclass(slots=True)
class Notifier:
    """Keeps what fires, and posts. What cannot be posted is posted again at the next look.

    Alertmanager is told at every look, as it wants: it forgets what nobody repeats within four looks. A webhook is told
    of changes only; after a restart it is told once more of what still fires.
    """

    session: aiohttp.ClientSession
    telemetry: Telemetry
    interval: float
    alertmanager: str | None = None
    webhook: str | None = None
    _known: dict[str, _Known] = field(default_factory=dict[str, _Known])
    _ended: dict[str, _Known] = field(default_factory=dict[str, _Known])

    async def look(self, active: Sequence[Active], now: float) -> None:
        """Say what fires now (seconds since the epoch)."""
        current = {each.key: each for each in active}
        for key in [each for each in self._known if each not in current]:
            self._ended[key] = self._known.pop(key)
        for key, alert in current.items():
            known = self._known.setdefault(key, _Known(alert, now))
            known.alert = alert
            self._ended.pop(key, None)
        ended = list(self._ended.values())
        done = await self._to_alertmanager(ended, now)
        done = await self._to_webhook(ended, now) and done
        if done:
            self._ended.clear()

    async def _to_alertmanager(self, ended: Sequence[_Known], now: float) -> bool:
        if self.alertmanager is None or not (self._known or ended):
            return True
        alerts = [_v2(each, now + 4 * self.interval) for each in self._known.values()]
        alerts += [_v2(each, now) for each in ended]
        return await self._post(f"{self.alertmanager.rstrip('/')}/api/v2/alerts", alerts)

    async def _to_webhook(self, ended: Sequence[_Known], now: float) -> bool:
        if self.webhook is None:
            return True
        fresh = [each for each in self._known.values() if not each.told]
        done = True
        messages: tuple[tuple[Literal["firing", "resolved"], Sequence[_Known]], ...] = (
            ("firing", fresh),
            ("resolved", [each for each in ended if each.told]),
        )
        for status, changed in messages:
            if changed and not await self._post(self.webhook, _message(status, changed, now)):
                done = False
            elif status == "firing":
                for each in changed:
                    each.told = True
        return done

    async def _post(self, url: str, body: Any) -> bool:
        try:
            async with self.session.post(url, json=body, timeout=TIMEOUT) as response:
                problem = None if response.status < 300 else f"status {response.status}"
        except (aiohttp.ClientError, TimeoutError) as error:
            problem = type(error).__name__
        self.telemetry.counter(WATCH_POSTS, "failed" if problem else "ok").inc()
        if problem:
            logger.warning("alerts could not be posted (%s); trying again at the next look", problem)
        return problem is None


def _v2(known: _Known, ends: float) -> dict[str, Any]:
    return {
        "labels": dict(known.alert.labels),
        "annotations": dict(known.alert.annotations),
        "startsAt": _time(known.since),
        "endsAt": _time(ends),
    }


def _message(status: Literal["firing", "resolved"], changed: Sequence[_Known], now: float) -> dict[str, Any]:
    alerts = [
        {
            "status": status,
            "labels": dict(each.alert.labels),
            "annotations": dict(each.alert.annotations),
            "startsAt": _time(each.since),
            "endsAt": _time(now) if status == "resolved" else "0001-01-01T00:00:00Z",
            "generatorURL": "",
            "fingerprint": each.alert.key,
        }
        for each in changed
    ]
    return {
        "version": "4",
        "status": status,
        "receiver": "evalstream",
        "groupKey": "evalstream",
        "groupLabels": {},
        "commonLabels": {},
        "commonAnnotations": {},
        "externalURL": "",
        "truncatedAlerts": 0,
        "alerts": alerts,
    }


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
