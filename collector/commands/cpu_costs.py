"""What spans, turns and evaluations take of a core, as measured: in pure Python, and compiled as in the image.

deploy/docs/sizing.md says how the figures come out of those of `make bench`. Another machine has others, and so has
other traffic.
"""

from __future__ import annotations

from dataclasses import dataclass

from collector.telemetry.compilation import is_compiled

AT_REST = {"receive": 0.012, "assemble": 0.012, "evaluate": 0.012, "export": 0.025}
"""Share of a core that a process uses over Kafka before anything comes: its consumers ask, commit and beat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuCosts:
    """Seconds of CPU over Kafka.

    Receiving a span, and redacting and appending a trace, more of it if each has a record of its own (without
    `receive.shared_records`); assembling a span, and a turn; evaluating a turn's monitors; making and appending an
    evaluation without its judge request; that request; one that goes into a batch of 100, for which the evaluation runs
    twice; exporting an evaluation. And of a turn that no monitor can want, with `assemble.keep: wanted`, where it is a
    plain model call: receiving its trace beside its spans, all of its assembly, and a look at it.
    """

    receive_span: float
    receive_trace: float
    receive_own_record: float
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
    receive_trace=115e-6,
    receive_own_record=25e-6,
    assemble_span=10e-6,
    assemble_turn=450e-6,
    evaluate_turn=80e-6,
    evaluation=900e-6,
    judge_request=1750e-6,
    export_evaluation=480e-6,
    unwanted_trace=95e-6,
    unwanted_assemble_turn=70e-6,
    unwanted_evaluate_turn=35e-6,
)
COMPILED = CpuCosts(
    receive_span=10e-6,
    receive_trace=105e-6,
    receive_own_record=25e-6,
    assemble_span=8e-6,
    assemble_turn=350e-6,
    evaluate_turn=80e-6,
    evaluation=780e-6,
    judge_request=1520e-6,
    export_evaluation=480e-6,
    unwanted_trace=66e-6,
    unwanted_assemble_turn=68e-6,
    unwanted_evaluate_turn=35e-6,
)


def costs_here() -> CpuCosts:
    """Those of the evalstream that runs."""
    return COMPILED if is_compiled() else PURE
