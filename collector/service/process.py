"""A process: what its stages share, and the ordered list of the layers around its consumers' folds."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial

from collector.admission.shared_port import SharedPort
from collector.config.configured import Config
from collector.dead_letters import DeadLetterWriter, Stage
from collector.evaluate.plan import Plan
from collector.evaluate.recovery.configurations import UNNUMBERED
from collector.evaluate.recovery.generated_steps import GeneratedStepsStore
from collector.evaluate.recovery.past_plans import PlanHistory
from collector.logs.consumer_runner import SlewedClock
from collector.logs.journal.guard import Guard
from collector.logs.log import Log, OpenFold
from collector.otlp.own_items import OwnItems
from collector.records.epochs import OnVoid, fenced, ignore_void
from collector.records.shared_records import dividing
from collector.service.live.status import ConfigurationStatus
from collector.service.open_logs import Logs
from collector.service.process_resources import ProcessResources, long_lived
from collector.service.tasks import Tasks
from collector.service.workers.worker import Worker
from collector.telemetry.registry import Telemetry

FoldLayer = Callable[[OpenFold], OpenFold]
"""Opens the same folds, each with something added."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldNeeds:
    """The needs of a consumer's folds. `place` names them in the journal, `log` is the name of what they consume.

    `shared`: records may have pieces. `ledger` is the evaluations log, if that is what they consume; `on_void` is
    called with the number of records that do not count. `long_lived`: GC skips what they replay.
    """

    place: str
    log: str
    letters: DeadLetterWriter
    guard: Guard
    shared: bool = False
    ledger: Log | None = None
    on_void: OnVoid = ignore_void
    long_lived: bool = False


def layers_of(needs: FoldNeeds) -> Sequence[FoldLayer]:
    """The layers, the outermost first: a record passes them in this order."""
    return [
        # Pieces are apart before anything is dead-lettered or guarded: one bad piece does not take the rest of its
        # record with it.
        *([dividing] if needs.shared else []),
        # Around the guard: a delivery ends when the records that the guard leaves out are durable.
        needs.letters.wrap,
        partial(needs.guard.guarding, needs.place, needs.log, on_fatal=needs.letters.take),
        *([partial(fenced, needs.ledger, on_void=needs.on_void)] if needs.ledger is not None else []),
        *([long_lived] if needs.long_lived else []),
    ]


def layered(open_fold: OpenFold, needs: FoldNeeds) -> OpenFold:
    """The folds with their layers around them."""
    for layer in reversed(layers_of(needs)):
        open_fold = layer(open_fold)
    return open_fold


Apply = Callable[["Process"], Awaitable[None]]
"""Switches a stage to a process with another configuration. It cannot fail."""

PrepareChange = Callable[[Config], Awaitable[Apply]]
"""The steps of a stage before it takes another configuration: all that can fail. Raises ConfigError."""


def without_preparation(apply: Apply) -> PrepareChange:
    """A change of a stage that cannot fail."""

    async def prepare(_config: Config) -> Apply:
        return apply

    return prepare


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """The resources that the stages of one process share.

    Resources that a stage enters on `stack` close before the tasks stop: listening ends first. `clock` (s since the
    epoch) is that of budgets and waiting times: setting the machine's clock must neither open nor close a budget.
    """

    config: Config
    plan: Plan
    logs: Logs
    telemetry: Telemetry
    resources: ProcessResources
    tasks: Tasks
    stack: AsyncExitStack
    guard: Guard
    own: OwnItems
    status: ConfigurationStatus
    history: PlanHistory
    number: int = UNNUMBERED
    """The number of the configuration; an evaluating process has one before its stages start."""
    since: float = 0.0
    """When a process of the deployment took it first (s since the epoch); 0.0 for that of this process's start."""
    changes: list[PrepareChange] = field(default_factory=list[PrepareChange])
    """The steps of each stage to take another configuration, in this order."""
    clock: Callable[[], float] = field(default_factory=SlewedClock)
    steps: GeneratedStepsStore
    """Judges' answers that all processes share."""
    worker: Worker | None = None
    """Its place among the processes that one command has started."""

    def shared_port(self, name: str) -> SharedPort | None:
        """Its share of a port on which other workers of the command receive, too; None if it is alone."""
        return self.worker.ports[name] if self.worker else None

    def guarded(
        self, stage: Stage, consumer: str, log: Log, open_fold: OpenFold, *, on_void: OnVoid = ignore_void
    ) -> OpenFold:
        """The folds of a stage without dead letters of its own: a record that ends the process is dead-lettered.

        Those of the evaluations log do not see void records; `on_void` is called with their number.
        """
        needs = FoldNeeds(
            place=consumer,
            log=log.name,
            letters=self.resources.dead_letters(stage, log.name, self.logs),
            guard=self.guard,
            shared=log is self.logs.turns,
            ledger=log if log is self.logs.evaluations else None,
            on_void=on_void,
        )
        return layered(open_fold, needs)

    def follow(self, stage: Stage, log: Log, group: str, open_fold: OpenFold, *, on_void: OnVoid = ignore_void) -> None:
        """Start a stage's task that consumes a log by guarded folds."""
        self.tasks.follow(stage, log, group, self.guarded(stage, group, log, open_fold, on_void=on_void))
