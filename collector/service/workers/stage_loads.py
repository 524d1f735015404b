"""What each stage takes of a core for a turn, over a SQLite file: to divide them evenly, not to plan machines."""

from __future__ import annotations

from collections.abc import Mapping

from collector.config.settings import Settings

RECEIVE = 150.0
ASSEMBLE = 300.0
ASSEMBLE_WANTED = 60.0
EVALUATE_TURN = 40.0
EVALUATION = 2300.0
"""µs of CPU: receiving and assembling a turn (the latter with `keep: wanted`, of which few are); looking at a turn; and
an evaluation of a turn by a judge, with its export. From tests/bench/RESULTS.md, "a process for each stage, over one
SQLite file"; evaluate is taken apart by its rows of 1, 10 and 100 % judged.
"""


def stage_loads(settings: Settings) -> Mapping[str, float]:
    """µs of CPU a turn, by stage; what is not in it takes next to nothing.

    All turns count for every monitor, and every evaluator for one of turns: what a monitor filters is not known.
    """
    evaluations = sum(monitor.rate_of(use) for monitor in settings.monitors.values() for use in monitor.uses)
    return {
        "receive": RECEIVE,
        "assemble": ASSEMBLE_WANTED if settings.assemble.keep == "wanted" else ASSEMBLE,
        "evaluate": EVALUATE_TURN + evaluations * EVALUATION,
    }
