"""The base of judges that wrap a judge, and the members of juries and cascades."""

from collections.abc import Callable, Sequence

from evaluators.asking.sight import sight_of
from evaluators.judge import Judge, decides, takes_packs
from evaluators.judges.cascade import Cascade
from evaluators.judges.jury import Jury


class JudgeWrapper:
    """A judge around a judge, under its model's name. A subclass's `ask` adds one thing and asks `inner`.

    Wrapping is nesting, so the order of a chain is the order of its calls; `collector/judging/layers.py` has the
    service's as a list.
    """

    def __init__(self, inner: Judge) -> None:
        self.inner = inner
        self.model = inner.model
        self.sight = sight_of(inner)
        self.takes_packs: bool = takes_packs(inner)
        self.decides: bool = decides(inner)


def members_of(judge: Judge) -> Sequence[Judge]:
    """The judges that are asked: a jury's judges, or a cascade's first and then second judges."""
    if isinstance(judge, Cascade):
        return (*members_of(judge.first), *members_of(judge.then))
    return judge.judges if isinstance(judge, Jury) else (judge,)


def with_members(judge: Judge, change: Callable[[Judge], Judge]) -> Judge:
    """The jury or cascade with each member replaced by `change`, in the order of `members_of`."""
    if isinstance(judge, Cascade):
        first, then = with_members(judge.first, change), with_members(judge.then, change)
        return Cascade(first, then, doubt=judge.doubt, share=judge.share, salt=judge.salt)
    if isinstance(judge, Jury):
        return Jury([change(each) for each in judge.judges], combine=judge.combine, quorum=judge.quorum)
    return change(judge)
