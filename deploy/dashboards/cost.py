"""The cost dashboard: what evaluations cost, by monitor and evaluator, against their budgets."""

from grafana_foundation_sdk.builders import dashboard as boards

from collector.telemetry.series import (
    BUDGET_FACTOR,
    BUDGET_SPENT,
    BUDGET_USD,
    EVALUATIONS_ENDED,
    JUDGE_CACHE_REQUESTS,
    JUDGE_CALLS,
    JUDGE_COST,
    JUDGE_TOKENS,
    SAMPLING_PROBABILITY,
    TOTAL_BUDGET_SPENT,
    TOTAL_BUDGET_USD,
)
from deploy.dashboards.frame import filled, frame, window
from deploy.dashboards.panels import Look, Query, lines, number, rows
from deploy.dashboards.queries import WATCHED, WINDOW, increase, rate, share
from evaluators.results import SkipReason

PAIR = "monitor, evaluator"
MONITORS = '{monitor=~"$monitor"}'
LEGEND = "{{monitor}} {{evaluator}}"
REFUSED = WATCHED.replace("}", f',reason="{SkipReason.OVER_BUDGET}"}}')
SCORED = WATCHED.replace("}", ',outcome="scored"}')


def cost() -> boards.Dashboard:
    """The dashboard."""
    board = frame(
        "cost",
        "What evaluations cost at their judge. Counted from the prices in the configuration; the cost of a judge"
        " without prices is unknown, and not in these sums.",
    ).with_variable(window())
    parts = {"Money": _money(), "Budgets": _budgets(), "Tokens and calls": _tokens()}
    return filled(board, parts)


def _known(money: str, window: str) -> str:
    """A sum of money; nothing where calls were made and none of them was counted, as no judge has a price."""
    return f"{money} > 0 or {money} unless {increase(JUDGE_CALLS, '', WATCHED, window)} > 0"


def _money() -> list[object]:
    per_score = share(increase(JUDGE_COST, PAIR, WATCHED, WINDOW), increase(EVALUATIONS_ENDED, PAIR, SCORED, WINDOW))
    return [
        number(
            Look("Spent over the time shown", "All that the variables choose.", unit="currencyUSD", width=4, height=4),
            Query(_known(increase(JUDGE_COST, "", WATCHED, "$__range"), "$__range"), "spent"),
        ).no_value("unknown"),
        number(
            Look("At this rate in 30 days", "From the last hour.", unit="currencyUSD", width=4, height=4),
            Query(f"({_known(rate(JUDGE_COST, '', WATCHED, '1h'), '1h')}) * 2592000", "in 30 days"),
        ).no_value("unknown"),
        lines(
            Look("Cost per hour", "Over the window.", unit="currencyUSD", width=16, low=0),
            Query(f"{rate(JUDGE_COST, PAIR, WATCHED, WINDOW)} * 3600", LEGEND),
            stacked=True,
        ),
        lines(
            Look(
                "Cost of a thousand scores",
                "With rejudged scores, and with what failures and golden sets cost.",
                unit="currencyUSD",
                low=0,
            ),
            Query(f"1000 * {per_score}", LEGEND),
        ),
        rows(
            Look("Where the money goes", "Over the time shown, with what rejudging makes."),
            ("USD", "scores", "calls"),
            Query(increase(JUDGE_COST, PAIR, WATCHED, "$__range"), LEGEND),
            Query(increase(EVALUATIONS_ENDED, PAIR, SCORED, "$__range"), LEGEND),
            Query(increase(JUDGE_CALLS, PAIR, WATCHED, "$__range"), LEGEND),
        ),
    ]


def _budgets() -> list[object]:
    """Empty where no budget is configured."""
    return [
        lines(
            Look(
                "Spent of the hard cap",
                "The share of its hard caps, of the hour or the day, that a process has spent or reserved, whichever is"
                " larger. A hard cap is 1.2 times the budget if the configuration says nothing else. Rates follow the"
                " budget, so this stays about 0.83 when traffic would cost more; nothing is judged from 1 on. Empty"
                " without a budget.",
                unit="percentunit",
                low=0,
                steps=((0.84, "orange"), (1.0, "red")),
            ),
            Query(f"max by (monitor) ({BUDGET_SPENT.name}{MONITORS})", "{{monitor}}"),
            Query(f"max({TOTAL_BUDGET_SPENT.name})", "all monitors"),
        ),
        lines(
            Look(
                "Cost against the budget of an hour",
                "Cost over the last hour and the budget for it. Where only a day has a budget, see the panel beside.",
                unit="currencyUSD",
                low=0,
            ),
            Query(f"{_spent('1h')} and on (monitor) {_budget('hour')}", "{{monitor}}"),
            Query(_budget("hour"), "{{monitor}} budget"),
            Query(f"sum(increase({JUDGE_COST.name}[1h])) and {_total_budget('hour')}", "all monitors"),
            Query(_total_budget("hour"), "all monitors budget"),
        ),
        lines(
            Look(
                "Sampling",
                "With what probability subjects of each stratum were sampled last, and what budgets leave of the rates"
                " (by monitor; 1 is all). The lower, the larger the error of the means; they stay unbiased.",
                unit="percentunit",
                low=0,
                high=1,
            ),
            Query(f"min by (monitor) ({BUDGET_FACTOR.name}{MONITORS})", "{{monitor}}"),
            Query(f"max by ({PAIR}, stratum) ({SAMPLING_PROBABILITY.name}{WATCHED})", LEGEND + " {{stratum}}: sampled"),
        ),
        lines(
            Look(
                "Not judged at the hard cap",
                "Evaluations over the window that a hard cap refused. These do bias the means.",
                low=0,
                steps=((1, "red"),),
            ),
            Query(increase(EVALUATIONS_ENDED, PAIR, REFUSED, WINDOW), LEGEND),
        ),
    ]


def _spent(window: str) -> str:
    """US dollars over the last window by monitor."""
    return f"sum by (monitor) (increase({JUDGE_COST.name}[{window}]))"


def _budget(period: str) -> str:
    chosen = MONITORS.replace("}", f',period="{period}"}}')
    return f"max by (monitor) ({BUDGET_USD.name}{chosen})"


def _total_budget(period: str) -> str:
    return f'max({TOTAL_BUDGET_USD.name}{{period="{period}"}})'


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
        lines(
            Look(
                "Answered from the cache",
                "Of the questions to a judge that has a cache, the share that cost nothing. Empty where none has.",
                unit="percentunit",
                low=0,
                high=1,
                width=8,
            ),
            Query(
                share(
                    increase(JUDGE_CACHE_REQUESTS, "judge", '{result="hit"}', WINDOW),
                    increase(JUDGE_CACHE_REQUESTS, "judge", "", WINDOW),
                ),
                "{{judge}}",
            ),
        ),
    ]
