"""The intervals of `evalstream compare judges`: the same scores have the same ones."""

from random import Random

from collector.commands.judges.bench import Place, mean_figure


def test_the_interval_does_not_depend_on_the_order_in_which_scores_come() -> None:
    """Cases in the order of a set gave other intervals in each run."""
    chance = Random(1)
    values = {f"case {number}": chance.random() for number in range(60)}
    places = {case: Place(f"c{number // 2}", 1.0 + number % 3) for number, case in enumerate(values)}
    shuffled = dict(chance.sample(sorted(values.items()), len(values)))
    assert mean_figure(values, places) == mean_figure(shuffled, places)
