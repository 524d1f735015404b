"""The demo's screen: what goes in, what is judged, and each evaluator's mean over time.

Its figures are counted as records come, with times in seconds since the start. No clock, no terminal.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from evaluators.cases import Turn
from evaluators.results import Evaluation

BIN_SECONDS = 3.0
"""Width of a column of a sparkline."""
RECENT_SECONDS = 15.0
"""The window of the recent mean, in seconds."""


@dataclass(slots=True)
class EvaluatorScores:
    """The scores of one evaluator, by the time at which they came."""

    scored: int = 0
    skipped: int = 0
    failed: int = 0
    total: float = 0.0
    scores: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])

    @property
    def mean(self) -> float | None:
        """Mean of all scores."""
        return self.total / self.scored if self.scored else None

    def mean_between(self, start: float, end: float) -> float | None:
        """Mean of the scores that came in [start, end)."""
        chosen = [score for at, score in self.scores if start <= at < end]
        return sum(chosen) / len(chosen) if chosen else None

    def bins(self, now: float, columns: int) -> Iterator[float | None]:
        """The mean of each of the last columns, oldest first; None where nothing was scored."""
        last = int(now // BIN_SECONDS)
        for column in range(max(0, last - columns + 1), last + 1):
            yield self.mean_between(column * BIN_SECONDS, (column + 1) * BIN_SECONDS)


class DemoState:
    """Counts turns and evaluations as they come. Times are seconds since the demo's start."""

    def __init__(self, *, keep: int = 8) -> None:
        self.turns = 0
        self.conversations: set[str] = set()
        self.latest_turns: deque[Turn] = deque(maxlen=keep)
        self.latest_evaluations: deque[Evaluation] = deque(maxlen=keep)
        self.series: dict[str, EvaluatorScores] = {}
        self.first_score_after: float | None = None

    def add_turn(self, turn: Turn) -> None:
        """A turn was assembled."""
        self.turns += 1
        self.conversations.add(turn.conversation_id or turn.turn_id)
        self.latest_turns.append(turn)

    def add_evaluation(self, evaluation: Evaluation, at: float) -> None:
        """An evaluation is in the ledger."""
        self.latest_evaluations.append(evaluation)
        series = self.series.setdefault(evaluation.evaluator, EvaluatorScores())
        if evaluation.score is not None:
            series.scored += 1
            series.total += evaluation.score
            series.scores.append((at, evaluation.score))
            if self.first_score_after is None:
                self.first_score_after = at
        elif evaluation.outcome == "skipped":
            series.skipped += 1
        else:
            series.failed += 1


_BLOCKS = "▁▂▃▄▅▆▇█"
_COLUMNS = 30


@dataclass(frozen=True, slots=True)
class Scene:
    """The constants of a run: the addresses to look at, and the time (s) at which the answers turn bad."""

    judge: str
    metrics_url: str
    otlp_url: str
    page_url: str
    worse_after: float


def render(board: DemoState, scene: Scene, now: float) -> RenderableType:
    """The whole screen at `now` seconds after the start."""
    return Group(_head(board, scene, now), _turns(board), _evaluations(board), _means(board, scene, now), _foot(scene))


def _head(board: DemoState, scene: Scene, now: float) -> Text:
    if now < scene.worse_after:
        phase = f"the application answers well; in {scene.worse_after - now:.0f} s it gets worse on purpose"
    else:
        phase = (
            f"for {now - scene.worse_after:.0f} s the application has been answering badly, on purpose: watch the means"
        )
    return Text.assemble(
        ("evalstream demo", "bold"),
        f"   {now:.0f} s   {board.turns} turns in {len(board.conversations)} conversations\n",
        ("judge: ", "dim"),
        f"{scene.judge}\n",
        (phase, "green" if now < scene.worse_after else "yellow"),
    )


def _turns(board: DemoState) -> Panel:
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(style="dim", width=10, no_wrap=True)
    table.add_column(ratio=2, no_wrap=True, overflow="ellipsis")
    table.add_column(ratio=3, no_wrap=True, overflow="ellipsis")
    for turn in board.latest_turns:
        table.add_row(
            _short(turn.conversation_id), Text(turn.input or ""), Text(turn.actual_output or turn.error or "")
        )
    return Panel(table, title="turns, as read from the application's OpenTelemetry spans", title_align="left")


def _evaluations(board: DemoState) -> Panel:
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(style="dim", width=10, no_wrap=True)
    table.add_column(width=18, no_wrap=True)
    table.add_column(width=5, justify="right")
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    for evaluation in board.latest_evaluations:
        table.add_row(
            _short(evaluation.subject.conversation_id),
            evaluation.evaluator,
            _score(evaluation),
            Text(_why(evaluation), style="dim"),
        )
    return Panel(table, title="evaluations, as written into the ledger", title_align="left")


def _means(board: DemoState, scene: Scene, now: float) -> Panel:
    table = Table(box=None, expand=True, pad_edge=False)
    table.add_column("evaluator")
    table.add_column("scored", justify="right")
    table.add_column("mean", justify="right")
    table.add_column(f"last {RECENT_SECONDS:.0f} s", justify="right")
    table.add_column("over time (the red column: where the answers turn bad)")
    for name, series in sorted(board.series.items()):
        recent = series.mean_between(now - RECENT_SECONDS, now + 1)
        table.add_row(name, str(series.scored), _number(series.mean), _coloured(recent), _sparkline(series, scene, now))
    return Panel(table, title="means", title_align="left")


def _foot(scene: Scene) -> Text:
    return Text.assemble(
        ("look at it: ", "dim"), (scene.page_url, "bold"),
        ("\nPrometheus ", "dim"), scene.metrics_url, ("   send your own traces to ", "dim"), scene.otlp_url,
        ("   Ctrl-C ends it", "dim"),
    )  # fmt: skip


def _sparkline(series: EvaluatorScores, scene: Scene, now: float) -> Text:
    line = Text()
    for column, mean in enumerate(series.bins(now, _COLUMNS), start=max(0, int(now // BIN_SECONDS) - _COLUMNS + 1)):
        block = " " if mean is None else _BLOCKS[min(7, int(mean * 8))]
        line.append(block, style="on red" if column == int(scene.worse_after // BIN_SECONDS) else _colour(mean))
    return line


def _score(evaluation: Evaluation) -> Text:
    if evaluation.score is None:
        return Text(evaluation.outcome[:5], style="red" if evaluation.outcome == "failed" else "dim")
    return _coloured(evaluation.score)


def _why(evaluation: Evaluation) -> str:
    if evaluation.error is not None:
        return f"{evaluation.error.type}: {evaluation.error.message}"
    return evaluation.explanation or evaluation.reason or ""


def _coloured(mean: float | None) -> Text:
    return Text(_number(mean), style=_colour(mean))


def _colour(mean: float | None) -> str:
    if mean is None:
        return "dim"
    return "green" if mean >= 0.7 else "yellow" if mean >= 0.5 else "red"


def _number(mean: float | None) -> str:
    return "–" if mean is None else f"{mean:.2f}"


def _short(conversation_id: str | None) -> str:
    return (conversation_id or "–")[-10:]


def summary(board: DemoState, scene: Scene, seconds: float) -> Iterable[str]:
    """The closing lines: what was seen, and the next steps."""
    traffic = f"{board.turns} turns of {len(board.conversations)} conversations"
    yield f"{traffic} in {seconds:.0f} s, judged by {scene.judge}."
    for name, series in sorted(board.series.items()):
        before = series.mean_between(0, scene.worse_after)
        after = series.mean_between(scene.worse_after + RECENT_SECONDS / 3, seconds + 1)
        outcomes = f"{series.scored} scored, {series.skipped} skipped, {series.failed} failed"
        yield f"  {name}: {outcomes}; mean {_number(before)} before, {_number(after)} after the drop."
    if board.first_score_after is not None:
        yield f"The first score was there {board.first_score_after:.1f} s after the start."
    yield "Next: README, 'Your own traces, in five minutes': evalstream init, evalstream check, evalstream run"
