"""The PromQL of the dashboards. Names of series come from the code that feeds them, so that renaming one breaks this.

Means and errors are computed from raw counters, so that they need no recording rules; only the drop detector and the
objective come from the rules that `evalstream rules` makes. `$window` is the dashboard's variable; a mean over a window
is a quotient of increases over it, never a mean of means.
"""

from dataclasses import dataclass

from collector.statistics.intervals import Z
from collector.telemetry.series import (
    ESTIMATOR_W,
    ESTIMATOR_W2,
    ESTIMATOR_W2Y,
    ESTIMATOR_W2Y2,
    ESTIMATOR_WY,
    EVALUATOR_INFO,
    Series,
)

WATCHED = '{monitor=~"$monitor",evaluator=~"$evaluator"}'
"""The series of what the dashboard's variables choose."""

SEGMENTS = '{monitor=~"$monitor",evaluator=~"$evaluator",segment=~"$segment"}'

_ENOUGH = 20
"""Effective conversations from which a mean has the interval of many."""
RATE = "$__rate_interval"
WINDOW = "$window"


@dataclass(frozen=True, slots=True)
class Selected:
    """Which series, and over what time: the arguments that all estimates share."""

    by: str
    """The labels of the result, as `a, b`."""
    where: str = SEGMENTS
    window: str = WINDOW
    version_in_force: bool = False
    """Only versions of evaluators that run at that time: scores of two rubrics or judges are not averaged."""

    def total(self, of: Series) -> str:
        """The increase of one of the sums."""
        if not self.version_in_force:
            return f"sum by ({self.by}) (increase({of.name}{self.where}[{self.window}]))"
        versions = f"{self.by}, evaluator_version"
        running = f"sum by ({versions}) ({ESTIMATOR_W.name}{self.where})"
        return (
            f"sum by ({self.by}) (sum by ({versions}) (increase({of.name}{self.where}[{self.window}])) and {running})"
        )

    def mean(self) -> str:
        """The unbiased mean; nothing where nothing was scored."""
        return f"{self.total(ESTIMATOR_WY)} / ({self.total(ESTIMATOR_W)} > 0)"

    def error(self) -> str:
        """The standard error of the mean: Hájek's estimator, see collector/statistics/bounded_sums.py."""
        mean = f"({self.mean()})"
        squares = (
            f"{self.total(ESTIMATOR_W2Y2)} - 2 * {mean} * {self.total(ESTIMATOR_W2Y)}"
            f" + {mean} ^ 2 * {self.total(ESTIMATOR_W2)}"
        )
        return f"sqrt(clamp_min({squares}, 0)) / ({self.total(ESTIMATOR_W)} > 0)"

    def badness(self) -> str:
        """The mean, turned round where higher is better: 0 at the good end, 1 at the bad one."""
        lower = f"on (monitor, evaluator) {having('better', 'lower')}"
        return f"(({self.mean()}) and {lower}) or (1 - ({self.mean()}) unless {lower})"

    def bound(self, sign: str) -> str:
        """An end of the mean's 95 % interval, above (`+`) or below (`-`) it; too few scores have none."""
        enough = f"{self.effective_number()} >= {_ENOUGH}"
        return f"clamp({self.mean()} {sign} {Z:.2f} * ({self.error()}), 0, 1) and ({enough})"

    def effective_number(self) -> str:
        """How many equally weighted scores would be as exact (Kish)."""
        return f"{self.total(ESTIMATOR_W)} ^ 2 / ({self.total(ESTIMATOR_W2)} > 0)"


def having(label: str, value: str) -> str:
    """A series for each watched evaluator of this scope, or of which this end of the scale is the better one."""
    chosen = WATCHED.replace("}", f',{label}="{value}"}}')
    return f"max by (monitor, evaluator) ({EVALUATOR_INFO.name}{chosen} > 0)"


def increase(of: Series, by: str, where: str = "", window: str = RATE) -> str:
    """The increase of a counter, summed over everything but `by`."""
    return f"{_sum(by)} (increase({of.name}{where}[{window}]))"


def rate(of: Series, by: str, where: str = "", window: str = RATE) -> str:
    """A counter's rate per second, summed over everything but `by`."""
    return f"{_sum(by)} (rate({of.name}{where}[{window}]))"


def share(part: str, whole: str) -> str:
    """A quotient of two sums over the same labels; nothing where the whole is 0."""
    return f"{part} / ({whole} > 0)"


def quantile(of: Series, q: float, by: str, where: str = "") -> str:
    """A quantile of a histogram."""
    rates = f"sum by (le{', ' if by else ''}{by}) (rate({of.name}_bucket{where}[{RATE}]))"
    return f"histogram_quantile({q:g}, {rates})"


def _sum(by: str) -> str:
    return f"sum by ({by})" if by else "sum"
