"""The figures of an evaluator's day, learnt from its evaluations: the error and the cost of a mean at given rates.

Each evaluation stands for 1 / its probability. Draws are nested, so a conversation is in two strata's samples with the
lower of their probabilities. Therefore figures that were learnt at one rate hold for all rates. All figures are sums
that fade: an evaluation of `MEMORY` seconds ago counts e times less. The sums of partitions add up.

A conversation is judged in stratum h where its draw is below p_h, so of strata h and g it is in both with probability
min(p_h, p_g). With r_h the sum of the residuals (y - mean) of its subjects in h, each weighted 1 / p_h, the sum of
squares from which the service computes its error (`collector.statistics.bounded_sums`) is expected to be

    Σ_h Σ_g S_hg / max(p_h, p_g),    S_hg = Σ r_h r_g over all conversations,

divided by N², the squared number of subjects. It is the Horvitz–Thompson variance with conversations as clusters, for
draws that are nested (Särndal, Swensson and Wretman 1992, ch. 2.8 and 4), plus the day's own chance.

A better judge, or a person, may score a share s of the judged subjects again (a second phase: audits, labels). The
squares of the better scores' mean are theirs plus the part that the first scores do not explain,

    Σ_h Σ_g S_hg / max(p_h, p_g) + (1/s - 1) Σ_h T_h / p_h,

with T_h the sum of squared residuals of the regression of the second scores on the first ones (Cochran 1977, ch. 12,
double sampling for regression: S² (1 - ρ²) / n + S² ρ² / n').
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from collector.records.audits import FEWEST_AUDITS, AuditScore
from collector.statistics.bounded_sums import Weight
from collector.statistics.conversations import Conversations, fading
from evaluators.results import Sampling

ENOUGH_AGAIN = 50
"""The second scores that a day should have. With so many on average, hardly any day has fewer than `FEWEST_AUDITS`."""

_HALVINGS = 18
"""The steps of the search for a rate; the result is exact to 1e-4 of itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondPhase:
    """The second scores of judged subjects, by stratum, as if all subjects of a day were scored twice.

    `spread` is the variance of the second scores divided by that of the first, `residuals` are T_h of the module's
    formula, `usd` the costs. `correlation` is the correlation of first and second scores over `pairs` pairs.
    """

    spread: float
    residuals: tuple[float, ...]
    usd: tuple[float, ...]
    correlation: float
    pairs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DayFigures:
    """A day of an evaluator's traffic, by stratum, as if all of it were judged. The first stratum has no boost.

    `subjects` is the number of subjects before earlier samplers, estimated by weights; `arrived` is the number that
    came through; `squares` is the sum of their squared weights. All three are equal without earlier samplers. `usd` is
    the cost of judging them, and `products` are S_hg of the module's formula.
    """

    subjects: tuple[float, ...]
    arrived: tuple[float, ...]
    usd: tuple[float, ...]
    squares: tuple[float, ...]
    products: tuple[tuple[float, ...], ...]
    second: SecondPhase | None = None

    def error(self, rates: Sequence[float], share: float = 1.0) -> float:
        """The standard error of a day's mean at these rates, all in (0, 1]; infinite with too few second scores."""
        sum_of_squares = sum(
            product / max(one, other)
            for one, row in zip(rates, self.products, strict=True)
            for other, product in zip(rates, row, strict=True)
        )
        total = sum(self.subjects)
        if self.second is None:
            return math.sqrt(max(0.0, sum_of_squares)) / total
        number = self.scored_again(rates, share)
        if number < FEWEST_AUDITS:
            return math.inf
        unexplained = sum(residual / rate for residual, rate in zip(self.second.residuals, rates, strict=True))
        squares = self.second.spread * sum_of_squares + (1.0 / share - 1.0) * unexplained
        return math.sqrt(max(0.0, squares) * number / (number - 2.0)) / total

    def scored_again(self, rates: Sequence[float], share: float) -> float:
        """The effective number of second scores in a day (Kish), if each is in its own conversation."""
        squares = sum(square / rate for square, rate in zip(self.squares, rates, strict=True))
        return sum(self.subjects) ** 2 * share / squares

    def cost(self, rates: Sequence[float], share: float = 1.0) -> float:
        """The cost of a day at these rates (USD)."""
        again = (0.0,) * len(self.usd) if self.second is None else self.second.usd
        return sum(rate * (one + share * two) for rate, one, two in zip(rates, self.usd, again, strict=True))

    def second_alone(self) -> "DayFigures | None":
        """The same day if the second scorer alone scored the whole sample; None without a second phase."""
        if self.second is None:
            return None
        spread = self.second.spread
        products = tuple(tuple(spread * product for product in row) for row in self.products)
        return replace(self, usd=self.second.usd, products=products, second=None)


def rates_of(rate: float, boosts: Sequence[float]) -> tuple[float, ...]:
    """The rates of strata: the rate of the first, times the boosts, at most 1."""
    return tuple(min(1.0, rate * boost) for boost in boosts)


def least_rate(
    day: DayFigures, boosts: Sequence[float], error: float, share: float = 1.0, *, lowest: float = 1e-4
) -> float | None:
    """The lowest rate of the first stratum, from `lowest` to 1, that reaches a standard error; None if none does.

    With a second phase, the rate also gives `ENOUGH_AGAIN` second scores a day.
    """

    def reaches(rate: float) -> bool:
        rates = rates_of(rate, boosts)
        enough_again = day.second is None or day.scored_again(rates, share) >= ENOUGH_AGAIN
        return enough_again and day.error(rates, share) <= error

    if not reaches(1.0):
        return None
    low, high = math.log(lowest), 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        if reaches(math.exp(middle)):
            high = middle
        else:
            low = middle
    return math.exp(high)


DAY = 86_400.0
MEMORY = 2.0 * DAY
"""Seconds in which a figure fades to 1 / e: long enough for nights and days, short enough to follow the traffic."""
_CONVERSATIONS = 20_000
"""The most conversations that are remembered."""
FEWEST = 200
"""With fewer scores the variance is unknown, and the largest variance of scores in [0, 1] is taken."""
LARGEST_VARIANCE = 0.25
FLOOR = 1e-4
"""The least variance, because equal scores do not prove that all scores are equal."""
_UNSEEN_TURNS = 2.0
"""The scores per conversation that are assumed before any is known."""
_SUMS = ("subjects", "squares", "scores", "nn", "ny", "yy")
_PAIRS = ("w", "ww", "x", "y", "xx", "xy", "yy")


@dataclass(slots=True)
class _LearnedCell:
    """Sums over a conversation's subjects in a stratum that were judged with probability 1 / `own`."""

    stratum: int
    own: float
    number: float = 0.0
    score: float = 0.0


class LearnedFigures:
    """The sums of an evaluator's definition (`version`), by `strata`; the first stratum has the subjects without a
    boost.

    The sums begin at `time` (s since the epoch); `auditor` is the version of the audits in `pairs`.
    """

    def __init__(self, version: str, strata: Sequence[str], time: float, auditor: str | None = None) -> None:
        self.version = version
        self.auditor = auditor
        self.strata = tuple(strata)
        self.seconds = 0.0
        """The length of the past, faded like the sums (s)."""
        self.scored = 0.0
        """The number of scores, faded like the sums."""
        self.arrivals = 0.0
        """The number of subjects that came, judged or not."""
        number = len(self.strata)
        self._time = time
        self._sums = {name: [0.0] * (number if name in _SUMS[:3] else number**2) for name in _SUMS}
        self.pairs: dict[str, float] = dict.fromkeys(_PAIRS, 0.0)
        """The sums over pairs of a first and a second score."""
        self._conversations = Conversations(list[_LearnedCell], capacity=_CONVERSATIONS)

    def fade(self, now: float) -> None:
        """Let time pass."""
        passed = max(0.0, now - self._time)
        self._time = max(self._time, now)
        factor = math.exp(-passed / MEMORY)
        self.seconds = self.seconds * factor + MEMORY * (1.0 - factor)
        self.scored *= factor
        self.arrivals *= factor
        self._sums = {name: [factor * value for value in values] for name, values in self._sums.items()}
        self.pairs = {name: factor * pair for name, pair in self.pairs.items()}

    def learn(self, conversation: str, sampling: Sampling, score: float, audit: AuditScore | None, time: float) -> None:
        """Add the score of a subject, made at `time` (s since the epoch)."""
        full, own = 1.0 / sampling.probability, Weight.of(sampling.of_subject).own
        before = full / own  # what other draws than the planned one left out: earlier samplers', an evaluator's own
        stratum = self.strata.index(sampling.stratum) if sampling.stratum in self.strata else 0
        self.scored += 1.0
        self._sums["subjects"][stratum] += full
        self._sums["squares"][stratum] += own * before**2
        self._sums["scores"][stratum] += full * score
        cells, passed = self._conversations.visit(conversation, time)
        for cell in cells:  # as in the reported error of a day
            cell.number *= fading(passed)
            cell.score *= fading(passed)
        self._add_to(cells, stratum, own, before, before * score)
        if audit is not None:
            self._add_pair(full / audit.probability, score, audit.score)

    def __len__(self) -> int:
        return len(self._conversations)

    def _add_to(self, cells: list[_LearnedCell], stratum: int, own: float, number: float, score: float) -> None:
        """Add the growth of the products of the conversation's sums."""
        cell = next((cell for cell in cells if (cell.stratum, cell.own) == (stratum, own)), None)
        if cell is None:
            cell = _LearnedCell(stratum, own)
            cells.append(cell)
        for learned_cell in cells:
            larger = max(own, learned_cell.own)
            for one, other, first, second in (
                (stratum, learned_cell.stratum, (number, score), (learned_cell.number, learned_cell.score)),
                (learned_cell.stratum, stratum, (learned_cell.number, learned_cell.score), (number, score)),
            ):
                self._add_products(one, other, larger, first, second)
        self._add_products(stratum, stratum, own, (number, score), (number, score))
        cell.number += number
        cell.score += score

    def _add_products(
        self, one: int, other: int, weight: float, first: tuple[float, float], second: tuple[float, float]
    ) -> None:
        place = one * len(self.strata) + other
        self._sums["nn"][place] += weight * first[0] * second[0]
        self._sums["ny"][place] += weight * first[0] * second[1]
        self._sums["yy"][place] += weight * first[1] * second[1]

    def _add_pair(self, weight: float, first: float, second: float) -> None:
        more = (weight, weight**2, weight * first, weight * second)
        squares = (weight * first**2, weight * first * second, weight * second**2)
        for name, value in zip(_PAIRS, (*more, *squares), strict=True):
            self.pairs[name] += value

    def to_json(self) -> dict[str, Any]:
        """The figures as JSON, in six digits. Open conversations are left out, and begin again."""
        numbers = {"seconds": self.seconds, "scored": self.scored, "arrivals": self.arrivals}
        return {
            "version": self.version,
            **({} if self.auditor is None else {"auditor": self.auditor}),
            "strata": self.strata,
            "time": round(self._time, 3),
            **{name: _short(number) for name, number in numbers.items()},
            "sums": {name: list(map(_short, values)) for name, values in self._sums.items()},
            "pairs": {name: _short(pair) for name, pair in self.pairs.items()},
        }

    @classmethod
    def from_json(cls, plain: Mapping[str, Any], auditor: str | None = None) -> "LearnedFigures":
        """Read the result of `to_json`, without the audits of another auditor. Earlier releases do not name theirs."""
        made = cls(plain["version"], plain["strata"], plain["time"], auditor)
        made.seconds, made.scored, made.arrivals = plain["seconds"], plain["scored"], plain["arrivals"]
        made._sums = {name: list(map(float, values)) for name, values in plain["sums"].items()}
        if plain.get("auditor", auditor) == auditor:
            made.pairs = {name: float(pair) for name, pair in plain["pairs"].items()}
        return made

    @property
    def sums(self) -> Iterator[tuple[str, Sequence[float]]]:
        """The sums by name, over the past's `seconds`."""
        yield from self._sums.items()
        yield "arrivals", (self.arrivals,)


def _short(value: float) -> float:
    return float(f"{value:.6g}")


def day_of(parts: Iterable[LearnedFigures], share: float | None, whole: float = 1.0) -> DayFigures | None:
    """The figures of a day in some partitions, times `whole`; None if nothing came.

    All parts belong to one definition. With a `share` of audits the figures describe the second scores. Costs are not
    learnt here: all are 0.
    """
    parts = [figures for figures in parts if figures.seconds > 0.0]
    if not parts:
        return None
    sums: dict[str, list[float]] = {}
    for part in parts:
        scale = whole * DAY / part.seconds
        for name, values in part.sums:
            known = sums.setdefault(name, [0.0] * len(values))
            sums[name] = [one + scale * more for one, more in zip(known, values, strict=True)]
    number = len(parts[0].strata)
    scored = sum(figures.scored for figures in parts)
    if not any(sums["subjects"]):
        return _unseen(sums["arrivals"][0], number, share)
    day = DayFigures(
        subjects=tuple(sums["subjects"]),
        arrived=tuple(sums["subjects"]),
        usd=(0.0,) * number,
        squares=tuple(sums["squares"]),
        products=_products(sums, sum(sums["scores"]) / sum(sums["subjects"]), number, is_known=scored >= FEWEST),
    )
    return day if share is None else _audited(day, parts)


def _unseen(arrivals: float, number: int, share: float | None) -> DayFigures | None:
    """A day of which only the number of subjects is known."""
    if not arrivals:
        return None
    rest = (0.0,) * (number - 1)
    rows = ((LARGEST_VARIANCE * _UNSEEN_TURNS * arrivals, *rest), *((0.0,) * number for _ in rest))
    counts = (arrivals, *rest)
    day = DayFigures(subjects=counts, arrived=counts, usd=(0.0,) * number, squares=counts, products=rows)
    return day if share is None else _audited(day, ())


def _products(
    sums: Mapping[str, Sequence[float]], mean: float, number: int, *, is_known: bool
) -> tuple[tuple[float, ...], ...]:
    rows = [[0.0] * number for _ in range(number)]
    for one, other in product(range(number), repeat=2):
        place, mirrored = one * number + other, other * number + one
        nn = sums["nn"][place]
        residuals = sums["yy"][place] - mean * (sums["ny"][place] + sums["ny"][mirrored]) + mean**2 * nn
        rows[one][other] = residuals + FLOOR * nn if is_known else LARGEST_VARIANCE * nn
    return tuple(map(tuple, rows))


def _audited(day: DayFigures, parts: Sequence[LearnedFigures]) -> DayFigures:
    """The figures of audits; with too few audits, as if the first scores told nothing about the second."""
    pairs = {name: sum(figures.pairs[name] for figures in parts) for name in _PAIRS}
    number = pairs["w"] ** 2 / pairs["ww"] if pairs["ww"] else 0.0
    spread, unexplained, correlation = 1.0, LARGEST_VARIANCE, 0.0
    if number >= FEWEST_AUDITS:
        x, y = pairs["x"] / pairs["w"], pairs["y"] / pairs["w"]
        xx, yy = pairs["xx"] / pairs["w"] - x**2 + FLOOR, pairs["yy"] / pairs["w"] - y**2 + FLOOR
        spread, correlation = yy / xx, max(-1.0, min(1.0, (pairs["xy"] / pairs["w"] - x * y) / math.sqrt(xx * yy)))
        unexplained = yy * (1.0 - correlation**2) * number / (number - 2.0)
    second = SecondPhase(
        spread=spread, residuals=tuple(unexplained * square for square in day.squares), usd=(0.0,) * len(day.usd),
        correlation=correlation, pairs=round(number),
    )  # fmt: skip
    return replace(day, second=second)
