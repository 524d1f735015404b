"""The progress bar of evaluations in a command."""

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text


def progress_bar(*, visible: bool | None = None) -> Progress:
    """A bar on stderr with count, rate, cost and the time left; its tasks have a field `cost`.

    Unless `visible` decides, it appears only if stderr is a terminal.
    """
    console = Console(stderr=True, force_terminal=visible or None)
    return Progress(
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TextColumn("{task.fields[cost]}"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not (console.is_terminal if visible is None else visible),
    )


class _Rate(ProgressColumn):
    """Evaluations a second."""

    def render(self, task: Task) -> Text:
        """The latest rate, empty before there is one."""
        return Text(f"{task.speed:.3g}/s" if task.speed else "")
