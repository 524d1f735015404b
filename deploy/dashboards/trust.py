"""The trust dashboard: is enough of the traffic evaluated, evenly, and by the intended judge?"""

from grafana_foundation_sdk.builders import dashboard as boards

from collector.alerting.rules.series import AUDIT_GAIN, AUDIT_NUMBER, SCORE_MARGIN, SCORE_MEAN, UNSCORED_SHARE
from collector.statistics.intervals import Z
from collector.telemetry.series import (
    AGREEMENT,
    AGREEMENT_BOUND,
    AGREEMENT_LABELS,
    AUDITS,
    CONVERSATIONS,
    ESTIMATOR_CLIPPED,
    ESTIMATOR_W,
    EVALUATION_WEIGHT,
    EVALUATIONS,
    GOLDEN_LAST_RUN,
    GOLDEN_SHIFT,
    GOLDEN_SHIFT_STDERR,
    JUDGE_MODEL_CHANGES,
    LABEL_OVERFLOW,
    LAST_SUCCESS,
    PEOPLE_AGREEMENT,
    SCORE,
    TURNS,
)
from deploy.dashboards.frame import filled, frame, segment, window
from deploy.dashboards.panels import Look, Query, lines, number, rows
from deploy.dashboards.queries import SEGMENTS, WATCHED, WINDOW, Selected, having, increase, share

PAIR = "monitor, evaluator"
LEGEND = "{{monitor}} {{evaluator}}"
MATCHED = '{monitor=~"$monitor",outcome=~"sampled|sampled_out"}'
SAMPLED = '{monitor=~"$monitor",outcome="sampled"}'
DRAWN = '{evaluator=~"($evaluator)(:audit)?",statistic="kappa"}'
KAPPA = 'statistic="cohen_kappa"'
UNSCORED = SEGMENTS.replace("}", ',outcome!="scored"}')

UNAUDITED = WATCHED.replace("}", ',outcome!="scored"}')


def trust() -> boards.Dashboard:
    """The dashboard."""
    board = frame(
        "trust", "Whether the means can be believed: coverage, precision, what has no score, and the weights."
    )
    board = board.with_variable(segment()).with_variable(window())
    parts = {
        "How much of the traffic is judged?": _coverage(),
        "What has no score?": _unscored(),
        "Is it the same judge?": _judge(),
        "What are cheap verdicts worth?": _audits(),
        "Do people agree with it?": _agreement(),
        "Are the weights right?": _weights(),
    }
    return filled(board, parts)


def _coverage() -> list[object]:
    return [
        lines(
            Look("Coverage", "Turns that were sampled, of those that a monitor watches.", unit="percentunit", low=0),
            Query(
                share(increase(TURNS, "monitor", SAMPLED, WINDOW), increase(TURNS, "monitor", MATCHED, WINDOW)),
                "{{monitor}}",
            ),
        ),
        lines(
            Look(
                "What the sample is worth",
                "n_eff: how many equally weighted scores of independent conversations would be as exact. Below 30 no"
                " alert compares a mean with its target.",
                low=0,
                steps=((0, "red"), (30, "green")),
            ),
            Query(Selected(by=PAIR).effective_number(), LEGEND),
        ),
    ]


def _unscored() -> list[object]:
    return [
        lines(
            Look(
                "Unscored share",
                "Evaluations of the last hour without a score that should have one, in all segments, as the alert"
                " EvalstreamUnscored has it: they failed, or were skipped to save money or time, or as their turn is"
                " incomplete. They are missing for a reason (long ones time out), so beyond a few percent the mean is"
                " of another traffic. Neither what an evaluator does not apply to is among them, nor what `rejudge`"
                " replaced with a score.",
                unit="percentunit",
                low=0,
                steps=((0.05, "red"),),
            ),
            Query(f"{UNSCORED_SHARE}{WATCHED}", LEGEND),
        ),
        lines(
            Look(
                "Why there is no score",
                "Evaluations over the window by the reason, also of what `rejudge` has replaced since.",
                width=8,
            ),
            Query(
                f"{increase(EVALUATIONS, 'evaluator, outcome, reason', UNSCORED, WINDOW)} > 0",
                "{{evaluator}} {{outcome}}: {{reason}}",
            ),
            stacked=True,
        ),
        number(
            Look(
                "Since the last score", "The newest score of each evaluator.", unit="s", width=4, steps=((900, "red"),)
            ),
            Query(f"time() - max by ({PAIR}) ({LAST_SUCCESS.name}{WATCHED})", LEGEND),
        ),
    ]


def _judge() -> list[object]:
    by, where = "evaluator, judge", '{evaluator=~"$evaluator"}'
    shift = f"max by ({by}) ({GOLDEN_SHIFT.name}{where})"
    error = f"max by ({by}) ({GOLDEN_SHIFT_STDERR.name}{where})"
    return [
        lines(
            Look(
                "Golden set: shift of the judge",
                "How far the scores of frozen cases have moved from their references, with the 95 %"
                " interval. When production drops and this does not, it is the application; when both do, the judge.",
            ),
            Query(shift, "{{evaluator}} {{judge}}"),
            Query(f"{shift} - {Z:.2f} * {error}", "{{evaluator}} {{judge}} low end"),
            Query(f"{shift} + {Z:.2f} * {error}", "{{evaluator}} {{judge}} high end"),
        ),
        number(
            Look("Golden set: last judged", "Time since then.", unit="s", width=6),
            Query(f"time() - max by ({by}) ({GOLDEN_LAST_RUN.name}{where})", "{{evaluator}} {{judge}}"),
        ),
        number(
            Look(
                "Judges that changed",
                "Further models or fingerprints that a judge named as its own over the time shown.",
                width=6,
                steps=((1, "red"),),
            ),
            Query(increase(JUDGE_MODEL_CHANGES, "evaluator", WATCHED, "$__range"), "{{evaluator}}"),
        ),
    ]


def _agreement() -> list[object]:
    by, where = "evaluator, statistic", '{evaluator=~"$evaluator"}'
    return [
        lines(
            Look(
                "Agreement with people: Cohen's kappa",
                "Verdicts of the judge and of people who gave labels on the page; 1 is full agreement, 0 what chance"
                " would give. With the ends of the 95 % interval. Below 0.4 pass and fail mean little. Empty below ten"
                " labels.",
                low=-0.2,
                high=1,
                width=6,
            ),
            Query(f"max by (evaluator) ({AGREEMENT.name}{_with(where, KAPPA)})", "{{evaluator}}"),
            Query(
                f"max by (evaluator, bound) ({AGREEMENT_BOUND.name}{_with(where, KAPPA)})", "{{evaluator}} {{bound}}"
            ),
        ),
        rows(
            Look(
                "Agreement now",
                "Every measure with its 95 % interval. Below 200 labels the interval is too narrow; labels chosen by"
                " hand are no random sample.",
                width=8,
            ),
            ("value", "low", "high"),
            Query(f"max by ({by}) ({AGREEMENT.name}{where})", "{{evaluator}} {{statistic}}"),
            *(
                Query(f"max by ({by}) ({AGREEMENT_BOUND.name}{_with(where, bound)})", "{{evaluator}} {{statistic}}")
                for bound in ('bound="low"', 'bound="high"')
            ),
        ),
        lines(
            Look(
                "Agreement by drawn labels",
                "Kappa with the ends of its 95 % interval, weighted, by labels of the queue alone: what"
                " alerts.min_agreement asks for. Of an audit's judge it is the series of the audits.",
                low=-0.2,
                high=1,
                width=6,
            ),
            Query(f"max by (evaluator, bound) ({PEOPLE_AGREEMENT.name}{DRAWN})", "{{evaluator}} {{bound}}"),
        ),
        number(
            Look(
                "Labels",
                "Labelled evaluations of the versions in use.",
                width=4,
                steps=((10, "orange"), (200, "green")),
                base="red",
            ),
            Query(f"max by (evaluator) ({AGREEMENT_LABELS.name}{where})", "{{evaluator}}"),
        ),
    ]


def _audits() -> list[object]:
    by, where = (
        "monitor, evaluator",
        '{monitor=~"$monitor",evaluator=~"($evaluator)(:audit)?",evaluator=~".+:audit",window="24h"}',
    )
    mean, error = f"max by ({by}) ({SCORE_MEAN}{where})", f"max by ({by}) ({SCORE_MARGIN}{where})"
    return [
        lines(
            Look(
                "Mean by audits",
                "The mean that the dear judge would have given, of a random share that it judges again and of what the"
                " cheap one says of all, over 24 hours by the recording rules; with the 95 % interval. Empty"
                " without an audit, or with fewer than 30.",
                width=10,
            ),
            Query(mean, LEGEND),
            Query(f"clamp({mean} - {error}, 0, 1)", "{{evaluator}} low end"),
            Query(f"clamp({mean} + {error}, 0, 1)", "{{evaluator}} high end"),
        ),
        lines(
            Look(
                "How many audits the mean is worth",
                "How many audits alone would be as sure of that mean, beside how many there were. The quotient is what"
                " the cheap verdicts are worth: 1 is nothing.",
                low=0,
                width=8,
            ),
            Query(f"max by ({by}) ({AUDIT_NUMBER}{where} * {AUDIT_GAIN}{where})", "{{evaluator}}: worth"),
            Query(f"max by ({by}) ({AUDIT_NUMBER}{where})", "{{evaluator}}: audits"),
        ),
        lines(
            Look(
                "Audits without a verdict",
                "Share of the audits in which the dear judge gave no score, by the reason. Those that it refuses may"
                " be others than the rest: beyond a few percent the mean is of another traffic.",
                unit="percentunit",
                low=0,
                width=6,
                steps=((0.05, "red"),),
            ),
            Query(
                f"{increase(AUDITS, f'{PAIR}, outcome', UNAUDITED, WINDOW)} / on ({PAIR}) group_left ()"
                f" ({increase(AUDITS, PAIR, WATCHED, WINDOW)} > 0)",
                "{{evaluator}}: {{outcome}}",
            ),
        ),
    ]


def _with(where: str, condition: str) -> str:
    return where.replace("}", f",{condition}}}")


def _weights() -> list[object]:
    estimated = Selected(by=PAIR)
    weight = increase(EVALUATION_WEIGHT, PAIR, SEGMENTS, WINDOW)
    plain = share(
        f"sum by ({PAIR}) (increase({SCORE.name}_sum{SEGMENTS}[{WINDOW}]))",
        f"sum by ({PAIR}) (increase({SCORE.name}_count{SEGMENTS}[{WINDOW}]))",
    )
    turns = increase(TURNS, "monitor", MATCHED, WINDOW)
    conversations = increase(CONVERSATIONS, "monitor", '{monitor=~"$monitor"}', WINDOW)
    return [
        lines(
            Look(
                "Weight check",
                "For evaluators of turns: the turns as the weights have them, over the turns as counted. 1, within the"
                " sampling error; less until an evaluator has been in use for the whole time.",
                low=0,
                width=8,
            ),
            Query(f"({weight} and {having('scope', 'turn')}) / on (monitor) group_left () ({turns} > 0)", LEGEND),
        ),
        lines(
            Look(
                "Weight check of conversations",
                "The same for evaluators of conversations, over the conversations that fell silent. Empty where none"
                " judges a conversation as a whole.",
                low=0,
                width=8,
            ),
            Query(
                f"({weight} and {having('scope', 'conversation')}) / on (monitor) group_left () ({conversations} > 0)",
                LEGEND,
            ),
        ),
        lines(
            Look(
                "What the weights change",
                "The weighted mean less the plain mean of the same scores: what a dashboard without weights would be"
                " wrong by.",
                width=8,
            ),
            Query(f"({estimated.mean()}) - ({plain})", LEGEND),
        ),
        lines(
            Look(
                "Weight left out of the mean",
                "A conversation counts for at most 20 times the mean weight of the last 1,000; what is beyond is"
                " clipped, and biases the mean by at most this share. Much of it: one conversation is very long, or a"
                " trusted tracestate claims a very low rate.",
                unit="percentunit",
                low=0,
                width=8,
                steps=((0.1, "red"),),
            ),
            Query(
                share(
                    increase(ESTIMATOR_CLIPPED, PAIR, SEGMENTS, WINDOW),
                    f"sum by ({PAIR}) (increase({ESTIMATOR_W.name}{SEGMENTS}[{WINDOW}])"
                    f" + increase({ESTIMATOR_CLIPPED.name}{SEGMENTS}[{WINDOW}]))",
                ),
                LEGEND,
            ),
        ),
        number(
            Look(
                "Labels beyond the cap",
                "Uses of label values that are counted as `other`: a set that was thought closed is open.",
                width=4,
                steps=((1, "red"),),
            ),
            Query(f"sum by (label) (increase({LABEL_OVERFLOW.name}[$__range])) or vector(0)", ""),
        ),
    ]
