"""The formats of a test set: what each tool's own reader takes."""

from collections.abc import Callable, Sequence
from typing import Any

import orjson

from collector.commands.cases.selection import SelectedCase
from collector.records.json import fields_of, not_none
from evaluators.cases import Conversation, Turn
from evaluators.records import to_dict

Write = Callable[[Sequence[SelectedCase], str], bytes]
"""Makes a file's bytes from cases and the set's name."""


def to_jsonl(cases: Sequence[SelectedCase], _name: str) -> bytes:
    """One case a line: input, output, what is known of it, and metadata."""
    return b"".join(orjson.dumps(_plain(case)) + b"\n" for case in cases)


def to_golden(cases: Sequence[SelectedCase], _name: str) -> bytes:
    """Records as `golden.path` reads them: turns and conversations, with the scores beside their fields."""
    return b"".join(orjson.dumps({**to_dict(case.case), "scores": _scores(case)}) + b"\n" for case in cases)


def to_turns(cases: Sequence[SelectedCase], _name: str) -> bytes:
    """Records as `score` and `receive.files` read them: turns and conversations."""
    return b"".join(orjson.dumps(to_dict(case.case)) + b"\n" for case in cases)


def to_deepeval(cases: Sequence[SelectedCase], _name: str) -> bytes:
    """A list for `EvaluationDataset.add_goldens_from_json_file`."""
    goldens = [
        not_none(
            input=_input(case.case),
            actual_output=_output(case.case),
            expected_output=_expected(case.case),
            context=_texts(case.case, "context"),
            retrieval_context=_texts(case.case, "retrieval_context"),
            additional_metadata=metadata_of(case),
        )
        for case in cases
    ]
    return _document(goldens)


def to_pydantic_evals(cases: Sequence[SelectedCase], name: str) -> bytes:
    """A file for `Dataset.from_file`."""
    rows = [
        not_none(
            name=_id(case.case),
            inputs=_inputs(case.case),
            expected_output=_expected(case.case),
            metadata={**metadata_of(case), "actual_output": _output(case.case)},
        )
        for case in cases
    ]
    return _document({"name": name, "cases": rows})


def to_phoenix(cases: Sequence[SelectedCase], name: str) -> bytes:
    """The body of `POST /v1/datasets/upload`, and the arguments of the client's `create_dataset`."""
    return _document(
        {
            "action": "create",
            "name": name,
            "inputs": [_inputs(case.case) for case in cases],
            "outputs": [{"output": _expected(case.case) or _output(case.case)} for case in cases],
            "metadata": [metadata_of(case) for case in cases],
        }
    )


def to_langsmith(cases: Sequence[SelectedCase], _name: str) -> bytes:
    """A list for `Client.create_examples(examples=…)`; without an expected answer there are no outputs."""
    examples = [
        not_none(
            inputs=_inputs(case.case),
            outputs={"output": expected} if (expected := _expected(case.case)) is not None else None,
            metadata={**metadata_of(case), "actual_output": _output(case.case)},
        )
        for case in cases
    ]
    return _document(examples)


def to_promptfoo(cases: Sequence[SelectedCase], _name: str) -> bytes:
    """A list for `tests: file://…`; an expected answer is an assertion."""
    tests: list[dict[str, Any]] = []
    for case in cases:
        expected = _expected(case.case)
        checks = None if expected is None else [{"type": "similar", "value": expected, "threshold": 0.8}]
        variables = {key: value for key, value in _inputs(case.case).items() if key != "history"}
        origin = metadata_of(case)
        tests.append(not_none(description=_id(case.case), vars=variables, **{"assert": checks}, metadata=origin))
    return _document(tests)


FORMATS: dict[str, Write] = {
    "jsonl": to_jsonl, "golden": to_golden, "turns": to_turns,
    "deepeval": to_deepeval, "pydantic-evals": to_pydantic_evals, "phoenix": to_phoenix,
    "langsmith": to_langsmith, "promptfoo": to_promptfoo,
}  # fmt: skip


def metadata_of(selected: SelectedCase) -> dict[str, Any]:
    """The origin of a case: its ids, scores, labels, and how it was drawn."""
    case = selected.case
    return not_none(
        id=_id(case),
        **fields_of(case if isinstance(case, Turn) else case.turns[-1], "trace_id", "span_id", "service", "model"),
        conversation_id=case.conversation_id or None,
        chosen_as=selected.which,
        probability=selected.probability,
        weight=1.0 / selected.probability,
        scores=_scores(selected),
        evaluations=[evaluation.evaluation_id for evaluation in selected.evaluations],
        labels=[not_none(**fields_of(label, *_OF_LABEL)) for label in selected.labels] or None,
    )


_OF_LABEL = ("evaluator", "opinion", "score", "note", "label_probability")


def _plain(selected: SelectedCase) -> dict[str, Any]:
    case = selected.case
    return not_none(
        input=_input(case),
        actual_output=_output(case),
        expected_output=_expected(case),
        context=_texts(case, "context"),
        retrieval_context=_texts(case, "retrieval_context"),
        tools_called=to_dict(case).get("tools_called") if isinstance(case, Turn) else None,
        turns=None if isinstance(case, Turn) else to_dict(case).get("turns"),
        metadata=metadata_of(selected),
    )


def _document(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2) + b"\n"


def _id(case: Turn | Conversation) -> str:
    return case.turn_id if isinstance(case, Turn) else case.conversation_id


def _scores(selected: SelectedCase) -> dict[str, float]:
    return {
        evaluation.evaluator: evaluation.score for evaluation in selected.evaluations if evaluation.score is not None
    }


def _input(case: Turn | Conversation) -> str:
    if isinstance(case, Turn):
        return case.input or ""
    *before, last = case.turns
    if not before:
        return last.input or ""
    talk = [f"user: {turn.input or ''}\nassistant: {turn.actual_output or ''}" for turn in before]
    return "\n".join([*talk, f"user: {last.input or ''}"])


def _inputs(case: Turn | Conversation) -> dict[str, Any]:
    history = to_dict(case).get("history") if isinstance(case, Turn) else None
    return not_none(input=_input(case), history=history or None, context=_texts(case, "retrieval_context"))


def _output(case: Turn | Conversation) -> str | None:
    return case.actual_output if isinstance(case, Turn) else case.turns[-1].actual_output


def _expected(case: Turn | Conversation) -> str | None:
    return case.expected_output if isinstance(case, Turn) else case.expected_outcome


def _texts(case: Turn | Conversation, name: str) -> list[str] | None:
    return list(getattr(case if isinstance(case, Turn) else case.turns[-1], name) or ()) or None
