"""Starts the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from collector.config.settings import Settings
from collector.evaluate.purse import Purse
from collector.page.door import Door
from collector.page.server import Page
from collector.page.settings import PageSettings
from collector.page.sources import Budget
from collector.page.wiring import budgets_of, sources_of, spendings_seen, watched_by
from collector.receive.access import Tokens
from collector.starting.process import Process
from collector.starting.watch import Watching, alerts_for_page


async def start_page(process: Process, watching: Watching, purse: Purse | None) -> int | None:
    """Serve the page until the process ends; gives the port, None where it is not configured.

    `purse` is None where the money is spent by other processes.

    Raises:
        ConfigError: the address cannot be bound.
    """
    settings, plan = process.config.settings.page, process.plan
    if settings is None:
        return None

    def budgets() -> Sequence[Budget]:
        now = process.clock()
        return budgets_of(spendings_seen(plan, page.view, now) if purse is None else purse.spendings(now))

    sources = replace(sources_of(process.telemetry), alerts=alerts_for_page(process, watching), budgets=budgets)
    door = _door(process.config.settings, settings)
    page = Page(
        settings, process.logs.evaluations, process.logs.labels, tuple(watched_by(plan)), sources=sources, door=door
    )
    process.tasks.start(page.follow(process.logs.turns))
    return await process.stack.enter_async_context(page.serve())


def _door(settings: Settings, page: PageSettings) -> Door | None:
    """Who may look at the page: whoever has a token, where there are any."""
    auth = settings.page_auth
    if auth is None:
        return None
    where = "page" if page.auth else "receive.otlp_http"
    return Door(Tokens(auth, where), secure=page.tls is not None)
