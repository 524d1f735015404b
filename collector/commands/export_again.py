"""`evalstream export again`: the log's evaluations, sent once more under the same ids."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import datetime

from collector import plugins
from collector.config.configured import Config
from collector.errors import DONE, FAILED, ConfigError
from collector.export.exporter import ExportContext, Exporter, ExporterPlugin, ExportUnavailable
from collector.logs.log import Log
from collector.past.evaluations import EvaluationFilter, evaluations_in
from collector.service.open_logs import open_stored_logs, own_items
from collector.telemetry.registry import Telemetry
from collector.wording import plural, unknown
from evaluators.results import Evaluation

PATIENCE = 120.0
"""Seconds that a destination has for a batch, with all attempts."""
_BATCH = 500
_NOT_AGAIN: Mapping[str, str] = {
    "prometheus": "prometheus is scraped, so nothing is sent to it",
    "jsonl": "jsonl appends to a file that the service has open",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """The command's options: the evaluations that ended from `since` on and before `until`; no exporters mean all."""

    since: datetime | None
    until: datetime | None = None
    exporters: Collection[str] = ()
    patience: float = PATIENCE


@dataclass(slots=True)
class _Sent:
    """The outcome of the evaluations for one exporter."""

    exporter: Exporter
    accepted: int = 0
    rejected: int = 0
    problem: str | None = None


async def export_again(config: Config, options: ExportOptions, say: Callable[[str], None]) -> int:
    """Export a time range of the evaluations log again; the exit status: 1 if a destination did not take all.

    It moves no exporter's place in the log, so it can run beside the service.

    Raises:
        ConfigError: there is no such exporter, or none that can be used again.
    """
    names = _names(config, options)
    async with AsyncExitStack() as stack:
        logs = await stack.enter_async_context(open_stored_logs(config.settings.log))
        own = await own_items(await logs.generated_steps())
        page = config.settings.page
        context = ExportContext(telemetry=Telemetry(), own=own, page=page.url if page is not None else None)
        sent: dict[str, _Sent] = {}
        for name in names:
            plugin: ExporterPlugin = plugins.load(plugins.EXPORTERS, name)
            sent[name] = _Sent(await stack.enter_async_context(plugin.open(config.exporters[name], context)))
        async for batch in _batches(logs.evaluations, EvaluationFilter(since=options.since, until=options.until)):
            for each in sent.values():
                await _send(each, batch, options.patience)
    for name, each in sent.items():
        say(f"{name}: {plural(each.accepted, 'evaluation')} exported again{_shortfall(each)}")
    return FAILED if any(outcome.problem or outcome.rejected for outcome in sent.values()) else DONE


def _names(config: Config, options: ExportOptions) -> Sequence[str]:
    for name in options.exporters:
        if name not in config.exporters:
            raise ConfigError(f"{config.source}: {unknown('exporter', name, sorted(config.exporters))}")
        if name in _NOT_AGAIN:
            raise ConfigError(f"--exporter: {_NOT_AGAIN[name]}; name another exporter")
    names = [name for name in options.exporters or config.exporters if name not in _NOT_AGAIN]
    if not names:
        raise ConfigError(f"{config.source}: export names no exporter that evaluations are sent to, like otlp")
    return names


async def _batches(log: Log, selection: EvaluationFilter) -> AsyncIterator[Sequence[Evaluation]]:
    """The selected evaluations of the log, each once, in batches of the size of a request."""
    seen: set[str] = set()
    batch: list[Evaluation] = []
    async for past in evaluations_in(log):
        evaluation = past.evaluation
        if selection.covers(evaluation) and evaluation.evaluation_id not in seen:
            seen.add(evaluation.evaluation_id)
            batch.append(evaluation)
        if len(batch) >= _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


async def _send(sent: _Sent, batch: Sequence[Evaluation], patience: float) -> None:
    if sent.problem is not None:
        return
    try:
        async with asyncio.timeout(patience):
            rejected = await sent.exporter.export(batch) or 0
    except TimeoutError:
        sent.problem = f"it did not take a batch within {patience:g} s"
    except ExportUnavailable as error:
        sent.problem = str(error)
    else:
        sent.accepted += len(batch) - rejected
        sent.rejected += rejected


def _shortfall(sent: _Sent) -> str:
    rejected = f", {sent.rejected:,} rejected" if sent.rejected else ""
    return rejected + (f"; stopped: {sent.problem}; mend it and run the command again" if sent.problem else "")
