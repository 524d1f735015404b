"""Candidates: definitions of an evaluator with one proposed change each. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import yaml
from pydantic import ValidationError

from collector.commands.align.proposal import LONGEST_TEXT, Change, LabelToLearn, ProposedChange, ProposedLevel
from collector.config.yaml_file import parse, substitute
from collector.wording import plural
from evaluators.asking.judge_input import cut, shorten_all
from evaluators.asking.prompt_isolation import sanitize, sanitize_json
from evaluators.attacks.injection_detection import detect
from evaluators.cases import Json
from evaluators.evaluator import Evaluator
from evaluators.mechanisms.classification import Classification
from evaluators.mechanisms.rating import Rating

_TEXTS = ("criteria", "prompt", "question")
_LISTS = ("evaluation_steps", "guidelines")
_LONGEST_CLAUSE = 2_000
_MOST_EXAMPLES = 6
_SIGNS = frozenset({"asks_to_ignore_instructions", "holds_a_marker", "plays_a_role", "encodes_instructions"})
"""Signs of an attack that no clause has a reason to show."""


@dataclass(frozen=True, slots=True)
class Definition:
    """An evaluator with its definition as the configuration has it: `kind`, `judge` and its fields."""

    values: Mapping[str, Any]
    evaluator: Evaluator[Any]

    @property
    def fields(self) -> dict[str, Json]:
        """The part of it that a proposer has to know."""
        return {key: value for key, value in self.values.items() if key not in ("judge", "scope", "audit")}


@dataclass(frozen=True, slots=True)
class AlignCandidate:
    """A changed definition: `changed` names the field and the change, `why` is the proposer's reason."""

    definition: Definition
    changed: str
    why: str


def changes_of(evaluator: Evaluator[Any], *, examples: bool) -> frozenset[Change]:
    """The changes that a definition can have; `examples` says whether texts may be written into it."""
    changes: set[Change] = set()
    if _clause_field(evaluator) is not None:
        changes.add("clause")
    if isinstance(evaluator, Rating) and not evaluator.strict_mode and not getattr(evaluator, "guidelines", ()):
        changes.add("rubric")
    if examples and evaluator.scope == "turn" and _answers(evaluator) is not None:
        changes.add("examples")
    return frozenset(changes)


def scale_of(evaluator: Evaluator[Any]) -> tuple[int, int]:
    """The ends of the scale that a rubric of it has."""
    lowest, highest = evaluator.score_range
    return round(lowest), round(highest)


def candidates_of(
    old: Definition,
    name: str,
    proposals: Sequence[ProposedChange],
    cases: Mapping[int, LabelToLearn],
    allowed: frozenset[Change],
) -> tuple[AlignCandidate, ...]:
    """The proposals as definitions called `name`: those that are valid, and change something, each once."""
    seen = {old.evaluator.version}
    made: list[AlignCandidate] = []
    for proposal in proposals:
        candidate = _candidate(old, name, proposal, cases) if proposal.change in allowed else None
        if candidate is not None and candidate.definition.evaluator.version not in seen:
            seen.add(candidate.definition.evaluator.version)
            made.append(candidate)
    return tuple(made)


def _candidate(
    old: Definition, name: str, proposal: ProposedChange, cases: Mapping[int, LabelToLearn]
) -> AlignCandidate | None:
    change = _change(old.evaluator, proposal, cases)
    if change is None:
        return None
    values = {key: value for key, value in {**old.values, **change.fields}.items() if value is not None}
    evaluator = _validated(old.evaluator, name, values)
    if evaluator is None or _validated(old.evaluator, name, _read_back(name, values)) != evaluator:
        return None
    return AlignCandidate(Definition(values, evaluator), change.what, clean(cut(proposal.why, _LONGEST_CLAUSE)))


@dataclass(frozen=True, slots=True)
class _Change:
    """Fields with their new values, None for one that is left out, and what was done."""

    what: str
    fields: Mapping[str, Any]


def _change(evaluator: Evaluator[Any], proposal: ProposedChange, cases: Mapping[int, LabelToLearn]) -> _Change | None:
    if proposal.change == "clause":
        return _with_clause(evaluator, proposal.clause)
    if proposal.change == "rubric":
        return _with_rubric(evaluator, proposal.rubric)
    named = [cases[example] for example in dict.fromkeys(proposal.examples) if example in cases]
    return _with_examples(evaluator, named)


def _clause_field(evaluator: Evaluator[Any]) -> str | None:
    return next((name for name in (*_TEXTS, *_LISTS) if getattr(evaluator, name, None)), None)


def _with_clause(evaluator: Evaluator[Any], text: str) -> _Change | None:
    field, clause = _clause_field(evaluator), clean(text)
    if field is None or not clause or len(clause) > _LONGEST_CLAUSE or _SIGNS & detect({"clause": clause}):
        return None
    before = getattr(evaluator, field)
    if field in _LISTS:
        return _Change(f"{field}: one more at the end", {field: [*before, clause]})
    return _Change(f"{field}: a clause at the end", {field: f"{before.rstrip()}\n\n{clause}\n"})


def _with_rubric(evaluator: Evaluator[Any], levels: Sequence[ProposedLevel]) -> _Change | None:
    """A rubric in place of what there was, on the same scale: the threshold is to mean the same."""
    outcomes = [clean(level.outcome) for level in levels]
    if not levels or not isinstance(evaluator, Rating) or _SIGNS & detect({"outcomes": [*outcomes]}):
        return None
    rubric = [
        {"score_range": [level.lowest, level.highest], "expected_outcome": outcome}
        for level, outcome in zip(levels, outcomes, strict=True)
    ]
    fields = {"rubric": rubric, "scale": list(scale_of(evaluator)), "grades": None}
    return _Change(f"rubric: {plural(len(levels), 'level')}", fields)


def _answers(evaluator: Evaluator[Any]) -> tuple[dict[str, Json], dict[str, Json]] | None:
    """The answers a judge should give about a case that fails and one that passes; None if the kind has no examples."""
    if isinstance(evaluator, Rating) and not getattr(evaluator, "guidelines", ()):
        ends = (0, 1) if evaluator.strict_mode else scale_of(evaluator)
        worst, best = ends if evaluator.direction == "higher_is_better" else ends[::-1]
        return {"score": worst}, {"score": best}
    if isinstance(evaluator, Classification) and "examples" in type(evaluator).model_fields:
        verdicts = evaluator.label_verdicts
        failing, passing = ([name for name in verdicts if verdicts[name] is passes] for passes in (False, True))
        if len(failing) == len(passing) == 1:
            return {"label": failing[0]}, {"label": passing[0]}
    return None


def _with_examples(evaluator: Evaluator[Any], cases: Sequence[LabelToLearn]) -> _Change | None:
    """Worked examples behind those that there are; a case with a sign of an attack is none."""
    answers = _answers(evaluator)
    harmless = [case for case in cases if case.material and not detect(case.material)][:_MOST_EXAMPLES]
    if answers is None or not harmless:
        return None
    own = getattr(evaluator, "examples", ())
    before: list[Any] = [each.model_dump(mode="json", exclude_defaults=True) for each in own]
    added = [
        {"case": _clean_json(shorten_all(case.material, LONGEST_TEXT).content), **answers[case.passes]}
        for case in harmless
    ]
    return _Change(f"examples: {plural(len(added), 'more example', 'more examples')}", {"examples": [*before, *added]})


def _validated(old: Evaluator[Any], name: str, values: Mapping[str, Any]) -> Evaluator[Any] | None:
    fields = {key: value for key, value in values.items() if key not in ("kind", "judge", "scope", "audit")}
    try:
        return type(old).model_validate({**fields, "name": name})
    except ValidationError:
        return None


def _read_back(name: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The definition as a configuration reads what is written of it."""
    read = parse(definition_yaml(name, values).encode(), name)
    return cast("Mapping[str, Any]", substitute(read, name, {}))["evaluators"][name]


def clean(text: str) -> str:
    """A text of a model as it may stand in a configuration: on one line, and neither a variable nor a placeholder."""
    return _without_references(" ".join(sanitize(text).split()))


def _without_references(text: str) -> str:
    # `${env:NAME}` would be replaced by a secret of whoever pastes it, and `{{name}}` by a field
    return text.replace("${", "$ {").replace("{{", "{ {")


def _clean_json(value: Json) -> Json:
    cleaned = sanitize_json(value)
    if isinstance(cleaned, str):
        return _without_references(cleaned)
    if isinstance(cleaned, Mapping):
        items = cast("Mapping[str, Json]", cleaned).items()
        return {_without_references(key): _clean_json(item) for key, item in items}
    if isinstance(cleaned, Sequence):
        return [_clean_json(item) for item in cast("Sequence[Json]", cleaned)]
    return cleaned


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, and no aliases, which a configuration must not have."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the library's signature
        """For everything."""
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    block = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=block)  # pyright: ignore[reportUnknownMemberType]


_Dumper.add_representer(str, _represent_text)


def definition_yaml(name: str, values: Mapping[str, Any]) -> str:
    """The definition as a piece of a configuration."""
    return yaml.dump(
        {"evaluators": {name: dict(values)}}, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=100
    )
