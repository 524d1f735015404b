"""The biases of a judge: the effect of length and attributes on its scores among answers that people score equally.

A noisy judge errs upward on bad answers and downward on good ones. So the difference between its score and people's
varies with everything that goes with good answers, although it does not among answers that people score equally. Two
weighted least-squares fits of the judge's scores on all columns are made, and a bias is named only if both show it. One
fit holds people's scores fixed by quintile. The other takes a part of the variance of people's scores as error and
subtracts it (Fuller 1987, Measurement Error Models); otherwise people's errors would accuse a category with more good
answers. A verdict of 0 or 1 that is wrong with chance e has the variance e (1 - e) around a line in the right one,
however many answers are good. Of scores with mean m between 0 and 1, that is the share e (1 - e) / (m (1 - m)).

A label is coarser than the quality that the judge scores: of two groups' good answers, those of one may be better. So
two more findings are needed. At the same score by the judge, people's scores must differ the other way: a group with
better answers has better labels there, too. And the judge must differ in the same direction on the answers that people
score low and on those that they score high: those of a group with answers of like quality lie nearer to the middle on
both sides. A true bias passes both, unless the difference in quality hides it.

Errors are cluster-robust, conversations as clusters (Liang and Zeger 1986, with G / (G - K) for K columns and the
mean). They are tested by Student's t. Its degrees of freedom are the conversations on the smaller side of a column's
middle minus one. The longest prompts of ten conversations count as equally long, and so do the shortest of ten:
otherwise one long prompt would decide the fit and hide its own error (Huber 1981, Robust Statistics, on leverage). A
column is named at an error rate of 2 % over all columns (Holm 1979), if it also has an effect without the others.
`tests/unit/statistics/test_bias.py` measures it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import hypot, sqrt
from operator import mul
from statistics import NormalDist
from typing import cast

from collector.statistics.conversations import by_conversation
from collector.statistics.intervals import Z, plus_minus

ERROR_RATE = 0.02
"""The chance that a bias is named although the judge has none."""
FEWEST = 20
"""The fewest conversations on either side of a column that is tested."""
_TAIL = 10
"""The conversations whose longest prompts count as equally long (so do as many shortest), and the fewest on either side
of the middle length.
"""
_MOST = 20
"""The most columns: those of the most frequent values."""
PEOPLE_ERRORS, AUDIT_ERRORS = 0.08, 0.1
"""The share of a reference's verdicts that may be wrong: a judge without a bias is named no more often then."""
_MOST_ERROR = 0.9
"""The largest share of the variance of references that is taken as error: few verdicts differ from the others then."""
_KNOWN = 0.8
"""The least share of lengths that must be known; unknown lengths count as the mean."""
_CLEAR = 1.0
"""The standard errors that an effect must exceed on answers with low and with high scores by people."""
_FLAT = 1e-9
_UNTESTED = "the judge's prompt tokens are unknown, or too few conversations have longer or shorter prompts."

Label = tuple[str, str]


@dataclass(frozen=True, slots=True)
class JudgedPair:
    """A judge's score, the reference score by people or an audit, their weight, and the labels of the judged answer.

    `tokens` is the length of the judge's prompt, as its endpoint reports it; None if unknown.
    """

    judge: float
    reference: float
    weight: float
    conversation: str
    tokens: float | None
    labels: frozenset[Label]


@dataclass(frozen=True, slots=True)
class BiasTerm:
    """A named bias: by how much it raises the judge's scores, and the standard error of that."""

    cause: str
    size: float
    error: float


@dataclass(frozen=True, slots=True)
class BiasReport:
    """The biases that are named, surest first, and the number of causes that were tested."""

    named: tuple[BiasTerm, ...]
    looked_at: tuple[str, ...]
    length_unknown: bool = False

    def sentences(self, whom: str) -> list[str]:
        """The biases in words, compared with the scores of `whom`; none if nothing was tested."""
        sentences = [
            f"Biased: at the same score by {whom}, the judge scores {abs(bias.size):.3f} "
            f"{plus_minus(Z * bias.error)} {'higher' if bias.size > 0 else 'lower'} for {bias.cause}."
            for bias in self.named
        ]
        causes = ", ".join(self.looked_at)
        nothing = f"No bias found, compared with {whom} ({100.0 * ERROR_RATE:g} % false alarms in all), for: {causes}."
        untested = f"Length was not tested against {whom}: {_UNTESTED}"
        return (sentences or [nothing] * bool(causes)) + [untested] * self.length_unknown


def labels_of(attributes: Mapping[str, object]) -> frozenset[Label]:
    """The labels of an evaluation's attributes; a list gives one for each of its members."""
    labels: set[Label] = set()
    for name, value in attributes.items():
        members = cast("list[object]", value) if isinstance(value, (list, tuple)) else [value]
        labels.update((name, str(member)) for member in members if isinstance(member, (str, int, float)))
    return frozenset(labels)


def biases(pairs: Sequence[JudgedPair], wrong: float = PEOPLE_ERRORS) -> BiasReport:
    """The biases of a judge by these pairs; `wrong` is the share of the references that may be wrong."""
    length = _length(pairs)
    columns = [*length, *_values(pairs)]
    terms = sorted(_terms(pairs, columns, wrong) if columns else [], key=lambda term: term[0])
    named: list[BiasTerm] = []
    for place, (chance, bias, column) in enumerate(terms):
        if chance > ERROR_RATE / (len(terms) - place):
            break
        # if two causes are correlated, one may only compensate for an overestimate of the other
        [(alone, own, _)] = _terms(pairs, [column], wrong)
        if alone < ERROR_RATE and own.size * bias.size > 0.0:
            named.append(bias)
    length_unknown = not length and len(by_conversation(pairs)) >= 2 * FEWEST
    return BiasReport(tuple(named), tuple(cause for cause, _ in columns), length_unknown)


def _terms(
    pairs: Sequence[JudgedPair], columns: Sequence["Column"], wrong: float
) -> list[tuple[float, BiasTerm, "Column"]]:
    """Each column with its effect and its p-value, the largest one of three fits; 1 if a half contradicts them.

    The first fit holds people's score fixed by quintile and by the score itself, the third the judge's.
    """
    people, judge = [pair.reference for pair in pairs], [pair.judge for pair in pairs]
    fits = (
        _fit(pairs, judge, _strata(people), columns, 0.0), _fit(pairs, judge, [people], columns, wrong),
        _fit(pairs, people, _strata(judge), columns, 0.0), *_fits_of_halves(pairs, judge, people, columns),
    )  # fmt: skip
    return [
        (_chance(effects, _smaller_side(pairs, column[1]) - 1.0), BiasTerm(column[0], *effects[0]), column)
        for column, *effects in zip(columns, *fits, strict=True)
    ]


def _strata(scores: Sequence[float]) -> list[list[float]]:
    ends = sorted({sorted(scores)[len(scores) * part // 5] for part in range(1, 5)})
    return [*([float(score >= end) for score in scores] for end in ends), list(scores)]


def _fits_of_halves(
    pairs: Sequence[JudgedPair], judge: Sequence[float], people: Sequence[float], columns: Sequence["Column"]
) -> Iterator[list[tuple[float, float]]]:
    """The effects among answers that people score below their mean, and among the others."""
    middle = sum(people) / len(people)
    for is_high in (False, True):
        half = [replace(pair, weight=pair.weight * ((pair.reference >= middle) is is_high)) for pair in pairs]
        yield _fit(half, judge, [people], columns, 0.0)


def _chance(effects: Sequence[tuple[float, float]], freedom: float) -> float:
    sign = 1.0 if effects[0][0] > 0.0 else -1.0
    if any(sign * size <= _CLEAR * error for size, error in effects[3:]):
        return 1.0
    deviates = (
        direction * as_normal(size / error, freedom) if error else 0.0
        for direction, (size, error) in zip((sign, sign, -sign), effects[:3], strict=True)
    )
    return 2.0 * (1.0 - NormalDist().cdf(max(0.0, min(deviates))))


Column = tuple[str, list[float]]


def _length(pairs: Sequence[JudgedPair]) -> list[Column]:
    known = sorted(pair.tokens for pair in pairs if pair.tokens is not None)
    groups = [[tokens for pair in group if (tokens := pair.tokens) is not None] for group in by_conversation(pairs)]
    tenth, groups = len(known) // 10, [group for group in groups if group]
    if len(groups) < 2 * FEWEST or len(known) < _KNOWN * len(pairs) or known[tenth] == known[~tenth]:
        return []
    low, high, usual = known[tenth], known[~tenth], sum(known) / len(known)
    least, most = sorted(map(min, groups))[_TAIL], sorted(map(max, groups))[~_TAIL]
    lengths = [min(max(usual if pair.tokens is None else pair.tokens, least), most) / (high - low) for pair in pairs]
    column = f"prompts of {high:.0f} tokens instead of {low:.0f}", lengths
    return [column] if _smaller_side(pairs, lengths) >= _TAIL else []


def _values(pairs: Sequence[JudgedPair]) -> list[Column]:
    """A column for each value with enough conversations with and without it; one value of each attribute has no
    column.
    """
    frequent = Counter(label for pair in pairs for label in pair.labels)
    bases = {name: value for (name, value), _ in reversed(frequent.most_common())}
    chosen = [label for label, number in frequent.most_common() if number >= FEWEST and bases[label[0]] != label[1]]
    columns = ((f"{name}={value}", [float((name, value) in pair.labels) for pair in pairs]) for name, value in chosen)
    return [column for column in columns if _smaller_side(pairs, column[1]) >= FEWEST][:_MOST]


def _smaller_side(pairs: Sequence[JudgedPair], values: Sequence[float]) -> int:
    """The number of conversations on the side of the column's middle that has fewer."""
    middle = (min(values) + max(values)) / 2.0
    sides: tuple[set[str | int], set[str | int]] = set(), set()
    for place, (pair, value) in enumerate(zip(pairs, values, strict=True)):
        sides[value > middle].add(pair.conversation or place)
    return min(map(len, sides))


def _fit(
    pairs: Sequence[JudgedPair], scores: Sequence[float], fixed: Sequence[Sequence[float]],
    columns: Sequence["Column"], wrong: float,
) -> list[tuple[float, float]]:  # fmt: skip
    """The effect on `scores` and standard error of each column, given the `fixed` ones; (0, 0) if others determine it.

    `wrong` is the share of wrong verdicts in the first `fixed` column.
    """
    total = sum(pair.weight for pair in pairs) or 1.0
    table = [scores, *fixed, *(values for _, values in columns)]
    means = [sum(pair.weight * value for pair, value in zip(pairs, column, strict=True)) / total for column in table]
    rows = [[value - mean for value, mean in zip(row, means, strict=True)] for row in zip(*table, strict=True)]
    size = range(1, len(table))
    sums, *squares = [
        [sum(p.weight * row[i] * row[j] for p, row in zip(pairs, rows, strict=True)) for j in size] for i in (0, *size)
    ]
    error = min(wrong * (1.0 - wrong) / max(means[1] * (1.0 - means[1]), _FLAT), _MOST_ERROR) * squares[0][0]
    inverse = _inverse([[squares[0][0] - error, *squares[0][1:]], *squares[1:]])
    sizes = [sum(map(mul, row, sums)) for row in inverse]
    clusters: dict[object, list[float]] = {}
    for place, (pair, (over, *row)) in enumerate(zip(pairs, rows, strict=True)):
        residual = over - sum(map(mul, sizes, row))
        whole = clusters.setdefault(pair.conversation or place, [0.0] * len(row))
        whole[0] += pair.weight * error / total * sizes[0]
        for i, value in enumerate(row):
            whole[i] += pair.weight * residual * value
    corrected = len(clusters) / max(1, len(clusters) - len(table))
    influences = ([sum(map(mul, row, score)) for row in inverse] for score in clusters.values())
    errors = [hypot(*of_column) * sqrt(corrected) for of_column in zip(*influences, strict=True)]
    return list(zip(sizes, errors, strict=True))[len(fixed) :]


def _inverse(matrix: Sequence[Sequence[float]]) -> list[list[float]]:
    """The inverse of a symmetric matrix by Gauss and Jordan; rows and columns that depend on others are 0."""
    size = len(matrix)
    rows = [[*row, *(float(i == j) for j in range(size))] for i, row in enumerate(matrix)]
    pivots: list[int] = []
    for i in range(size):
        pivot = rows[i][i]
        if pivot <= _FLAT * matrix[i][i] or pivot <= 0.0:
            continue
        pivots.append(i)
        rows[i] = [value / pivot for value in rows[i]]
        for other in range(size):
            if other != i and (factor := rows[other][i]):
                rows[other] = [value - factor * own for value, own in zip(rows[other], rows[i], strict=True)]
    return [[rows[i][size + j] if i in pivots and j in pivots else 0.0 for j in range(size)] for i in range(size)]


def as_normal(t: float, freedom: float) -> float:
    """The normal deviate with nearly the same probability as Student's t with `freedom` degrees of freedom."""
    return 0.0 if freedom < 1.0 else t * (1.0 - 1.0 / (4.0 * freedom)) / sqrt(1.0 + t * t / (2.0 * freedom))
