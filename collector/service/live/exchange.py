"""The parts that a process runs by its configuration, prepared as a whole and then exchanged.

Every step that can fail comes before anything changes: files are read, judges opened, plans built. Then each stage
takes over.
"""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from collector.config.configured import Config
from collector.evaluate.plan import Plan
from collector.evaluate.recovery.generated_steps import GeneratedStepsStore
from collector.evaluate.sampling.draw_key import make_draw_key
from collector.evaluate.stage import GROUP
from collector.export.exporter import ExportContext
from collector.judging.open_judges import open_judges
from collector.logs.log import Log, confirm_of
from collector.otlp.own_items import OwnItems
from collector.service.gauges import show_configuration
from collector.service.plan_builder import build_plan
from collector.service.process import Apply, Process
from collector.service.process_resources import ProcessResources
from collector.telemetry.registry import Telemetry

if TYPE_CHECKING:
    from collector.judging.judge_spans import JudgeSpans


class OpenedJudges:
    """The judges of the running configuration; their connections close when others take over."""

    def __init__(
        self, steps: GeneratedStepsStore, telemetry: Telemetry, resources: ProcessResources, turns: Log, own: OwnItems
    ) -> None:
        self._open = partial(
            open_judges,
            definitions=steps,
            telemetry=telemetry,
            health=resources.health,
            confirm=confirm_of(turns, GROUP),
        )
        self._steps = steps
        self._context = ExportContext(telemetry=telemetry, own=own)
        self._stack = AsyncExitStack()

    async def open(self, config: Config) -> tuple[Plan, AsyncExitStack]:
        """The plan of a configuration with its judges, and what closes them.

        Raises:
            ConfigError: a judge cannot be opened; nothing is open then.
        """
        stack = AsyncExitStack()
        try:
            key = await make_draw_key(self._steps)
            spans = await stack.enter_async_context(_judge_spans(config, self._context))
            return build_plan(config, await stack.enter_async_context(self._open(config, spans=spans)), key), stack
        except BaseException:
            await stack.aclose()
            raise

    async def open_first(self, config: Config) -> Plan:
        """Open those of the configuration at the start."""
        plan, self._stack = await self.open(config)
        return plan

    async def use(self, stack: AsyncExitStack) -> None:
        """From now on these are asked; those of before close."""
        before, self._stack = self._stack, stack
        await before.aclose()

    async def close(self) -> None:
        """Close the connections."""
        await self._stack.aclose()


@asynccontextmanager
async def _judge_spans(config: Config, context: ExportContext) -> "AsyncGenerator[JudgeSpans | None]":
    """The maker of spans of requests to judges; None unless the exporter over OTLP is to send such."""
    settings = config.exporters.get("otlp")
    if settings is None:
        yield None
        return
    from collector.export.otlp import OtlpExportSettings
    from collector.judging.judge_spans import open_judge_spans

    if not isinstance(settings, OtlpExportSettings) or not settings.judge_spans:
        yield None
        return
    async with open_judge_spans(settings, context) as spans:
        yield spans


@dataclass(frozen=True, slots=True)
class Prepared:
    """A configuration that can be taken."""

    config: Config
    plan: Plan
    judges: AsyncExitStack
    applies: tuple[Apply, ...]


class Exchange:
    """Exchanges what a process runs by its configuration."""

    def __init__(self, process: Process, judges: OpenedJudges) -> None:
        self.process = process
        self._judges = judges

    async def prepare(self, config: Config) -> Prepared:
        """Do all that can fail.

        Raises:
            ConfigError: this configuration cannot be taken; nothing has changed.
        """
        applies = [await prepare(config) for prepare in self.process.changes]
        plan, judges = await self._judges.open(config)
        return Prepared(config, plan, judges, tuple(applies))

    async def take(self, prepared: Prepared, number: int, since: float) -> None:
        """Let every stage of the process take over, and close what served the configuration of before."""
        before = self.process
        self.process = replace(before, config=prepared.config, plan=prepared.plan, number=number, since=since)
        show_configuration(before.telemetry, prepared.config, before.config)
        for apply in prepared.applies:
            await apply(self.process)
        await self._judges.use(prepared.judges)
