"""The texts by which an application can be attacked: its user's words, retrieved passages, results of tools."""

from collections.abc import Sequence
from dataclasses import dataclass

from evaluators.cases import Turn
from evaluators.texts.exact_json import as_text

SOURCES = ("user", "passage", "tool result")
"""The possible sources of an attack, as labels."""


@dataclass(frozen=True, slots=True)
class AttackSource:
    """A text: its kind, one of `SOURCES`, and its name in the turn, like `passage 2`."""

    kind: str
    name: str
    text: str


def list_attack_sources(case: Turn) -> Sequence[AttackSource]:
    """The texts of a turn that the application's maker did not write, in the order in which the application's model
    read them.
    """
    passages = [
        AttackSource("passage", f"passage {number}", text)
        for number, text in enumerate(case.retrieval_context, start=1)
        if text
    ]
    results = [
        AttackSource("tool result", f"result of tool call {number}, {call.name}", as_text(call.result or call.error))
        for number, call in enumerate(case.tools_called, start=1)
        if call.result not in (None, "") or call.error
    ]
    return [*([AttackSource("user", "user", case.input)] if case.input else []), *passages, *results]
