"""The CPU time of spans, turns and evaluations, as measured: in pure Python, and compiled as in the image.

tests/bench/SIZING.md says how the figures come out of those of `make bench`. Another machine has others, and so has
other traffic.
"""

from dataclasses import dataclass

from collector.telemetry.compilation import is_compiled

FLOOR = 10.3e-6
"""Seconds of CPU of parsing a span and making a dict of its attributes, on the machine that these costs are of: another
takes more or less in proportion."""
AT_REST = {"receive": 0.012, "assemble": 0.012, "evaluate": 0.012, "export": 0.017}
"""Share of a core that a process uses over Kafka before anything comes: its consumers ask, commit and beat."""
ROUND = {"receive": 0.0045, "assemble": 0.0035, "evaluate": 0.001, "export": 0.0}
"""Seconds of CPU of a round of a process, whatever it brings: a poll, a delivery, an append, for three partitions."""
ROUNDS = 10.0
"""Rounds a second of a process to which records come all the time: see `DeliveryPace`."""
TURNS_OF_A_ROUND = 50.0
"""Turns that come together at least, as senders batch them: with fewer turns a second there are fewer rounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuCosts:
    """Seconds of CPU over Kafka, beside what a process takes at rest and for its rounds.

    Receiving a span, and redacting and appending a trace; assembling a span, and a turn; evaluating a turn's monitors;
    making and appending an evaluation without its judge request; that request; one that goes into a batch of 100, for
    which the evaluation runs twice; exporting an evaluation. And of a turn that no monitor can want, with
    `assemble.keep: wanted`, if it is a plain model call in one request: receiving its trace beside its spans, all of
    its assembly, and a look at it.
    """

    receive_span: float
    receive_trace: float
    assemble_span: float
    assemble_turn: float
    evaluate_turn: float
    evaluation: float
    judge_request: float
    export_evaluation: float
    unwanted_trace: float
    unwanted_assemble_turn: float
    unwanted_evaluate_turn: float

    @property
    def deferred_request(self) -> float:
        """That of a batch."""
        return 1.15 * self.judge_request


PURE = CpuCosts(
    receive_span=12e-6,
    receive_trace=90e-6,
    assemble_span=10e-6,
    assemble_turn=330e-6,
    evaluate_turn=16e-6,
    evaluation=470e-6,
    judge_request=930e-6,
    export_evaluation=200e-6,
    unwanted_trace=130e-6,
    unwanted_assemble_turn=34e-6,
    unwanted_evaluate_turn=2e-6,
)
COMPILED = CpuCosts(
    receive_span=10e-6,
    receive_trace=85e-6,
    assemble_span=8e-6,
    assemble_turn=260e-6,
    evaluate_turn=16e-6,
    evaluation=430e-6,
    judge_request=850e-6,
    export_evaluation=200e-6,
    unwanted_trace=110e-6,
    unwanted_assemble_turn=30e-6,
    unwanted_evaluate_turn=2e-6,
)


def costs_here() -> CpuCosts:
    """Those of the evalstream that runs."""
    return COMPILED if is_compiled() else PURE
