"""The quality dashboard: is the application good now, was it better before, and where is it worst?"""

from grafana_foundation_sdk.builders import dashboard as boards

from collector.alerting.rules.drops import MEMORY
from collector.alerting.rules.series import DROP_EVIDENCE, DROP_THRESHOLD, PASS_OBJECTIVE, SCORE_TARGET
from collector.telemetry.series import (
    FEEDBACK_VERDICTS,
    FEEDBACK_W,
    FEEDBACK_WY,
    LABEL_WEIGHT,
    RELEASE_BOUND,
    RELEASE_DIFFERENCE,
    RELEASE_WORSE,
    SCORE,
    TARGET_SCORE,
    VERDICT_WEIGHT,
    VERDICTS,
)
from deploy.dashboards.frame import filled, frame, segment, window
from deploy.dashboards.panels import Look, Query, band, levels, lines, number, rows
from deploy.dashboards.queries import RATE, SEGMENTS, WATCHED, Selected, increase, rate, share

NOW = Selected(by="monitor, evaluator", version_in_force=True)
ONE = Selected(by="evaluator", version_in_force=True)
PASSED = SEGMENTS.replace("}", ',verdict="pass"}')
FAILED = SEGMENTS.replace("}", ',verdict="fail"}')
ABOUT = "monitor, evaluator, segment, version, judge, stage"
"""Labels that say what an alert is about; each has some of them."""
FIRING = f'max by (alertname, severity, {ABOUT}) (ALERTS{{alertname=~"Evalstream.*",alertstate="firing"}})'
CHOSEN = (
    "/d/evalstream-quality?var-monitor=${__data.fields.monitor}&var-evaluator=${__data.fields.evaluator}"
    "&${datasource:queryparam}&${__url_time_range}"
)
RULE = "/alerting/list?search=${__data.fields.alertname}"
OBJECTIVE = f"max by (evaluator) ({PASS_OBJECTIVE}{WATCHED})"


def _target(by: str) -> str:
    """What alerts hold the mean to, by the rules; without them the evaluator's threshold."""
    return f"max by ({by}) ({SCORE_TARGET}{WATCHED}) or max by ({by}) ({TARGET_SCORE.name}{WATCHED})"


def quality() -> boards.Dashboard:
    """The dashboard."""
    board = frame(
        "quality",
        "Unbiased means of the scores with their error, against their targets. Means are weighted by 1 / sampling"
        " probability; bands are 95 % intervals.",
        one_monitor=True,
    )
    board = board.with_variable(segment()).with_variable(window())
    parts = {
        "Is it good now?": _now(),
        "Mean score over time": [_mean()],
        "Has it dropped?": [_evidence()],
        "Verdicts": _verdicts(),
        "Labels": [_labels()],
        "What do users say?": _feedback(),
        "Where is it bad?": _where(),
        "Did a release change it?": [_releases()],
    }
    return filled(board, parts)


def _now() -> list[object]:
    legend = "{{monitor}} {{evaluator}}"
    scores = rows(
        Look(
            "Scores now",
            "Mean over the window with its standard error, target and the number of scores it is worth. A score is"
            " below its target for sure when mean + 3.5 errors is (above it when mean - 3.5 errors is, where lower is"
            " better).",
            width=16,
        ),
        ("mean", "standard error", "target", "scores' worth", "pass share"),
        Query(NOW.mean(), legend),
        Query(NOW.error(), legend),
        Query(_target("monitor, evaluator"), legend),
        Query(NOW.effective_number(), legend),
        Query(_pass_share("monitor, evaluator"), legend),
    )
    firing = rows(
        Look(
            "Alerts",
            "What the generated rules say now; empty is good. Of the rules that Prometheus has loaded: those of Grafana"
            " are under Alerting. A name leads to the rule with its runbook, or to the monitor and evaluator here.",
            width=8,
        ),
        ("firing",),
        Query(FIRING, "{{alertname}}"),
        links={"alertname": (("Its monitor and evaluator", CHOSEN), ("The rule and its runbook", RULE))},
    )
    return [scores, firing]


def _mean() -> object:
    look = Look(
        "$evaluator",
        "The mean over the window; the band is the 95 % interval; fewer than 20 effective conversations have none."
        " Only versions that run at that time.",
        low=0,
        high=1,
        width=24,
    )
    return band(
        look,
        Query(ONE.mean(), "mean"),
        Query(ONE.bound("-"), "low end"),
        Query(ONE.bound("+"), "high end"),
        Query(_target("evaluator"), "target"),
    ).repeat("evaluator")


def _evidence() -> object:
    return lines(
        Look(
            "Evidence of a drop",
            "The drop detector of the generated rules: above its threshold it pages. It rises while scores stay below"
            " their target and forgets when they come back.",
            width=24,
            low=0,
        ),
        # as the rules read it: at a restart the detector continues with it
        Query(f"max by (evaluator) (last_over_time({DROP_EVIDENCE}{WATCHED}[{MEMORY / 3600:g}h]))", "{{evaluator}}"),
        Query(f"max by (evaluator) ({DROP_THRESHOLD}{WATCHED})", "{{evaluator}} threshold"),
    )


def _verdicts() -> list[object]:
    failing = share(
        increase(VERDICT_WEIGHT, "evaluator", FAILED, "$__range"),
        increase(VERDICT_WEIGHT, "evaluator", SEGMENTS, "$__range"),
    )
    return [
        lines(
            Look(
                "Pass share",
                "The share of all traffic that passes its evaluator's threshold, estimated from the sample.",
                unit="percentunit",
                low=0,
                high=1,
            ),
            Query(_pass_share("evaluator"), "{{evaluator}}"),
            Query(OBJECTIVE, "{{evaluator}} objective"),
        ),
        number(
            Look(
                "Error budget left",
                "Of the failures that the objective allows over the time shown, the share that is left; below 0 the"
                " objective is missed. Needs an objective in the configuration and the generated rules.",
                unit="percentunit",
                width=6,
            ),
            Query(f"1 - ({failing}) / (1 - {OBJECTIVE})", "{{evaluator}}"),
        ),
        lines(
            Look("Failed verdicts", "As judged, not weighted. The dots lead to traces.", unit="cpm", width=6),
            Query(f"60 * {rate(VERDICTS, 'evaluator', FAILED)}", "{{evaluator}}", exemplars=True),
        ),
    ]


def _labels() -> object:
    chosen = increase(LABEL_WEIGHT, "evaluator, label", SEGMENTS, "$window")
    whole = increase(LABEL_WEIGHT, "evaluator", SEGMENTS, "$window")
    return lines(
        Look(
            "Share of each label",
            "Of all traffic, estimated from the sample: what classifiers chose. Alerts hold those shares to a target"
            " that the configuration names in alerts.shares.",
            unit="percentunit",
            low=0,
            high=1,
            width=24,
        ),
        Query(f"{chosen} / on (evaluator) group_left () ({whole} > 0)", "{{evaluator}}: {{label}}"),
        stacked=False,
    )


def _feedback() -> list[object]:
    by, where = "monitor, feedback, source", '{monitor=~"$monitor"}'
    weight, good = (increase(each, by, where, "$window") for each in (FEEDBACK_W, FEEDBACK_WY))
    return [
        lines(
            Look(
                "Feedback",
                "The mean of those who gave some, on 0..1. They are not the users: compare it with itself only. Alerts"
                " compare a day with the week before.",
                low=0,
                high=1,
                width=16,
            ),
            Query(f"{good} / ({weight} > 0)", "{{monitor}} {{feedback}} ({{source}})"),
        ),
        lines(
            Look(
                "Pieces of feedback",
                "Joined feedback by its verdict: good from the middle of its scale on, none for words alone.",
                low=0,
                width=8,
            ),
            Query(increase(FEEDBACK_VERDICTS, "feedback, verdict", where, "$window"), "{{feedback}}: {{verdict}}"),
        ),
    ]


def _where() -> list[object]:
    by_segment = Selected(by="monitor, evaluator, segment", version_in_force=True)
    worst = f"topk(10, {by_segment.badness()})"
    by_version = Selected(by="evaluator, evaluator_version")
    return [
        levels(
            Look("Scores", "How many scores in each level, as judged and not weighted. The dots lead to traces."),
            Query(f"sum by (le) (increase({SCORE.name}_bucket{SEGMENTS}[{RATE}]))", "{{le}}", exemplars=True),
        ),
        rows(
            Look(
                "Worst segments",
                "The ten worst means over the window, with their errors: the lowest, or the highest where lower is"
                " better. Badness is 0 at the good end of the scale and 1 at the other. If conversations have turns in"
                " several segments, these errors are right only with alerts.by_segment.",
            ),
            ("badness", "mean", "standard error"),
            Query(worst, "{{evaluator}} {{segment}}"),
            Query(f"{by_segment.mean()} and ({worst})", "{{evaluator}} {{segment}}"),
            Query(f"{by_segment.error()} and ({worst})", "{{evaluator}} {{segment}}"),
            first="badness",
        ),
        lines(
            Look(
                "By version",
                "A version is the rubric, its settings and the judge's model. Where it changed, compare before asking"
                " what happened to the application.",
                low=0,
                high=1,
                width=24,
            ),
            Query(by_version.mean(), "{{evaluator}} {{evaluator_version}}"),
        ),
    ]


def _releases() -> object:
    by, first = "evaluator, attribute, within, baseline, version", RELEASE_DIFFERENCE.name + WATCHED
    bounds = (RELEASE_BOUND.name + WATCHED.replace("}", f',bound="{bound}"}}') for bound in ("low", "high"))
    return rows(
        Look(
            "Releases",
            "Each version against the one before it, side by side where both run: the difference of the means and its"
            " 95 % interval, which may be looked at at any time. Worse is 1 where it is for sure. Computed by the"
            " process with the page or the watch stage.",
            width=24,
        ),
        ("difference", "low", "high", "worse"),
        *(Query(f"max by ({by}) ({each})", "{{evaluator}} {{version}}") for each in (first, *bounds)),
        Query(f"max by ({by}) ({RELEASE_WORSE.name}{WATCHED})", "{{evaluator}} {{version}}"),
    )


def _pass_share(by: str) -> str:
    return share(increase(VERDICT_WEIGHT, by, PASSED, "$window"), increase(VERDICT_WEIGHT, by, SEGMENTS, "$window"))
