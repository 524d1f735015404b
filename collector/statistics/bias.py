"""The biases of a judge: its scores less those of people, or of audits, regressed on length and attributes.

One weighted least-squares fit of all columns, so that a language whose answers are longer is not named for their length
alone; its errors are cluster-robust, conversations as clusters (Liang and Zeger 1986, with G / (G - K) for K columns
and the mean). They are tested by Student's t with as many degrees of freedom as the smaller side has conversations,
less one; of a length half of all. A column is named at an error rate of 2 % over all of them (Holm 1979).
`tests/unit/statistics/test_bias.py` measures it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import hypot, sqrt
from statistics import NormalDist
from typing import cast

from collector.statistics.conversations import by_conversation
from collector.statistics.intervals import Z

ERROR_RATE = 0.02
"""The chance that anything is named where nothing biases a judge."""
FEWEST = 20
"""Conversations on either side of a column that is looked at."""
_MOST = 20
"""Columns: the most frequent values."""
_UNIT = 100.0
"""Tokens of which a length's bias is told."""
_KNOWN = 0.8
"""The share of lengths that are known at least; the others count as the mean one."""
_FLAT = 1e-9

Label = tuple[str, str]


@dataclass(frozen=True, slots=True)
class JudgedPair:
    """How much higher a judge's score is than the one it is compared with, what that stands for, and what was judged.

    `tokens` is how much the judge read; None where that is not known.
    """

    difference: float
    weight: float
    conversation: str
    tokens: float | None
    labels: frozenset[Label]


@dataclass(frozen=True, slots=True)
class BiasTerm:
    """A named bias: how much higher the judge's scores are by it, and the standard error of that."""

    cause: str
    size: float
    error: float


@dataclass(frozen=True, slots=True)
class BiasReport:
    """The biases that are named, the surest first, of as many causes as were looked at."""

    named: tuple[BiasTerm, ...]
    looked_at: tuple[str, ...]

    def sentences(self, whom: str) -> list[str]:
        """The biases in words, beside the scores of `whom`; none where nothing was looked at."""
        sentences = [
            f"Biased: beside {whom}, the judge scores {abs(bias.size):.3f} ± {Z * bias.error:.3f} "
            f"{'higher' if bias.size > 0 else 'lower'} for {bias.cause}."
            for bias in self.named
        ]
        causes = ", ".join(self.looked_at)
        nothing = f"No bias against {whom} found ({100.0 * ERROR_RATE:g} % false alarms in all) by: {causes}."
        return sentences or ([nothing] if causes else [])


def labels_of(attributes: Mapping[str, object]) -> frozenset[Label]:
    """The labels of an evaluation's attributes; a list gives one for each of its members."""
    labels: set[Label] = set()
    for name, value in attributes.items():
        members = cast("list[object]", value) if isinstance(value, (list, tuple)) else [value]
        labels.update((name, str(member)) for member in members if isinstance(member, (str, int, float)))
    return frozenset(labels)


def biases(pairs: Sequence[JudgedPair]) -> BiasReport:
    """The biases of a judge by these pairs."""
    columns = [*_length(pairs), *_values(pairs)]
    fit = _fit(pairs, [values for _, values in columns]) if columns else []
    tests = [
        (
            2.0 * (1.0 - NormalDist().cdf(abs(as_normal(size / error, _freedom(pairs, values))))),
            BiasTerm(cause, size, error),
        )
        for (cause, values), (size, error) in zip(columns, fit, strict=True)
        if error > 0.0
    ]
    named: list[BiasTerm] = []
    for place, (chance, bias) in enumerate(sorted(tests, key=lambda test: test[0])):
        if chance > ERROR_RATE / (len(tests) - place):
            break
        named.append(bias)
    return BiasReport(tuple(named), tuple(cause for cause, _ in columns))


Column = tuple[str, list[float]]


def _length(pairs: Sequence[JudgedPair]) -> list[Column]:
    known = [pair.tokens for pair in pairs if pair.tokens is not None]
    if len(known) < _KNOWN * len(pairs) or len(set(known)) < 2 or len(by_conversation(pairs)) < 2 * FEWEST:
        return []
    usual = sum(known) / len(known)
    lengths = (usual if pair.tokens is None else pair.tokens for pair in pairs)
    return [(f"{_UNIT:g} more tokens to read", [tokens / _UNIT for tokens in lengths])]


def _values(pairs: Sequence[JudgedPair]) -> list[Column]:
    """A column for each value with enough conversations with and without it, but one value of each attribute."""
    frequent = Counter(label for pair in pairs for label in pair.labels)
    bases = {name: value for (name, value), _ in reversed(frequent.most_common())}
    chosen = [label for label, _ in frequent.most_common() if bases[label[0]] != label[1]]
    columns = ((f"{name}={value}", [float((name, value) in pair.labels) for pair in pairs]) for name, value in chosen)
    return [column for column in columns if _smaller_side(pairs, column[1]) >= FEWEST][:_MOST]


def _smaller_side(pairs: Sequence[JudgedPair], values: Sequence[float]) -> int:
    sides = (
        {pair.conversation or place for place, pair in enumerate(pairs) if values[place] == side} for side in (0, 1)
    )
    return min(map(len, sides))


def _freedom(pairs: Sequence[JudgedPair], values: Sequence[float]) -> float:
    if set(values) <= {0.0, 1.0}:
        return _smaller_side(pairs, values) - 1.0
    return len(by_conversation(pairs)) / 2.0 - 1.0


def _fit(pairs: Sequence[JudgedPair], columns: Sequence[Sequence[float]]) -> list[tuple[float, float]]:
    """The size and the standard error of each column; (0, 0) of one that others make up."""
    total = sum(pair.weight for pair in pairs)
    means = [sum(pair.weight * x for pair, x in zip(pairs, column, strict=True)) / total for column in columns]
    middle = sum(pair.weight * pair.difference for pair in pairs) / total
    rows = [[x - mean for x, mean in zip(row, means, strict=True)] for row in zip(*columns, strict=True)]
    size = range(len(columns))
    squares = [
        [sum(p.weight * row[i] * row[j] for p, row in zip(pairs, rows, strict=True)) for j in size] for i in size
    ]
    inverse = _inverse(squares)
    sums = [sum(p.weight * row[i] * (p.difference - middle) for p, row in zip(pairs, rows, strict=True)) for i in size]
    sizes = [sum(inverse[i][j] * sums[j] for j in size) for i in size]
    scores: dict[object, list[float]] = {}
    for place, (pair, row) in enumerate(zip(pairs, rows, strict=True)):
        left = pair.difference - middle - sum(b * x for b, x in zip(sizes, row, strict=True))
        whole = scores.setdefault(pair.conversation or place, [0.0] * len(columns))
        for i in size:
            whole[i] += pair.weight * left * row[i]
    corrected = len(scores) / max(1, len(scores) - len(columns) - 1)
    influences = ([sum(inverse[i][j] * score[j] for j in size) for i in size] for score in scores.values())
    errors = [hypot(*of_column) * sqrt(corrected) for of_column in zip(*influences, strict=True)]
    return list(zip(sizes, errors, strict=True))


def _inverse(matrix: Sequence[Sequence[float]]) -> list[list[float]]:
    """The inverse of a symmetric matrix by Gauss and Jordan; rows and columns that others make up are 0."""
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
    """Student's t of so many degrees of freedom as a normal deviate of the same probability, nearly."""
    if freedom < 1.0:
        return 0.0
    return t * (1.0 - 1.0 / (4.0 * freedom)) / sqrt(1.0 + t * t / (2.0 * freedom))
