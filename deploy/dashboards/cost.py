"""What judging costs, and what for."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as boards

from collector.telemetry import EVALUATIONS, JUDGE_CALLS, JUDGE_COST, JUDGE_TOKENS
from deploy.dashboards.frame import frame, window
from deploy.dashboards.panels import Look, Query, lines, number, rows
from deploy.dashboards.queries import WATCHED, WINDOW, increase, rate, share

PAIR = "monitor, evaluator"
LEGEND = "{{monitor}} {{evaluator}}"
SCORED = WATCHED.replace("}", ',outcome="scored"}')


def cost() -> boards.Dashboard:
    """The dashboard."""
    board = frame(
        "cost",
        "What evaluations cost at their judge. Counted from the prices in the configuration; a judge without prices"
        " costs nothing here.",
    ).with_variable(window())
    for title, panels in (("Money", _money()), ("Tokens and calls", _tokens())):
        board = board.with_row(boards.Row(title))
        for panel in panels:
            board = board.with_panel(panel)
    return board


def _money() -> list[object]:
    per_score = share(increase(JUDGE_COST, PAIR, WATCHED, WINDOW), increase(EVALUATIONS, PAIR, SCORED, WINDOW))
    return [
        number(
            Look("Spent over the time shown", "All that the variables choose.", unit="currencyUSD", width=4, height=4),
            Query(increase(JUDGE_COST, "", WATCHED, "$__range"), "spent"),
        ),
        number(
            Look("At this rate in 30 days", "From the last hour.", unit="currencyUSD", width=4, height=4),
            Query(f"{rate(JUDGE_COST, '', WATCHED, '1h')} * 2592000", "in 30 days"),
        ),
        lines(
            Look("Cost per hour", "Over the window.", unit="currencyUSD", width=16, low=0),
            Query(f"{rate(JUDGE_COST, PAIR, WATCHED, WINDOW)} * 3600", LEGEND),
            stacked=True,
        ),
        lines(
            Look("Cost of a thousand scores", "With what failed evaluations cost.", unit="currencyUSD", low=0),
            Query(f"1000 * {per_score}", LEGEND),
        ),
        rows(
            Look("Where the money goes", "Over the time shown."),
            ("USD", "scores", "calls"),
            Query(increase(JUDGE_COST, PAIR, WATCHED, "$__range"), LEGEND),
            Query(increase(EVALUATIONS, PAIR, SCORED, "$__range"), LEGEND),
            Query(increase(JUDGE_CALLS, PAIR, WATCHED, "$__range"), LEGEND),
        ),
    ]


def _tokens() -> list[object]:
    return [
        lines(
            Look("Tokens per minute", "To the judge (input) and from it (output).", low=0, width=8),
            Query(f"60 * {rate(JUDGE_TOKENS, 'direction', WATCHED)}", "{{direction}}"),
            stacked=True,
        ),
        lines(
            Look("Tokens of a call", "A prompt that grows makes every score dearer.", low=0, width=8),
            Query(
                f"{increase(JUDGE_TOKENS, 'monitor, evaluator, direction', WATCHED, WINDOW)}"
                f" / on (monitor, evaluator) group_left () ({increase(JUDGE_CALLS, PAIR, WATCHED, WINDOW)} > 0)",
                LEGEND + " {{direction}}",
            ),
        ),
        lines(
            Look("Judge calls per minute", "What the endpoints' limits are about.", low=0, width=8),
            Query(f"60 * {rate(JUDGE_CALLS, PAIR, WATCHED)}", LEGEND),
            stacked=True,
        ),
    ]
