"""Validity of an answer against a JSON Schema."""

from functools import lru_cache
from itertools import islice
from typing import Any, ClassVar, Self, cast

import orjson
from pydantic import model_validator

from evaluators.cases import Json, Turn
from evaluators.errors import EvaluationError, TooExpensive
from evaluators.evaluator import CodeEvaluator, Example
from evaluators.judge import Judge
from evaluators.results import Score
from evaluators.texts.linear_schema import check_patterns, linear, mentions_unevaluated
from evaluators.texts.paths import ABSENT, parse_json

_NAMED = 5  # violations that are listed
_LONGEST_UNEVALUATED = 10_000
"""Characters of an answer for which the keywords unevaluated… are computed: their time grows with its square."""


class JsonSchema(CodeEvaluator[Turn]):
    """1 if the answer is JSON that fits a JSON Schema, else 0.

    Prose is no JSON, also where the schema would take any text. Draft 2020-12 unless the schema names another. A code
    fence around the JSON is accepted. References to other documents are not fetched. Patterns are Python's, without
    lookaround and backreferences.
    """

    kind: ClassVar[str] = "json_schema"
    needed_fields: ClassVar[frozenset[str]] = frozenset({"actual_output"})
    revision: ClassVar[int] = 2
    example: ClassVar[Example] = {"json_schema": {"type": "object", "required": ["order_id"]}}

    json_schema: dict[str, Any]
    """The JSON Schema that the answer must fit."""

    @model_validator(mode="after")
    def _is_schema(self) -> Self:
        from jsonschema.exceptions import SchemaError
        from jsonschema.validators import validator_for

        try:
            cast("Any", validator_for(self.json_schema)).check_schema(self.json_schema)
        except SchemaError as error:
            raise ValueError(f"json_schema: is no JSON Schema: {error.message}") from None
        check_patterns(self.json_schema)
        return self

    @property
    def calculation(self) -> int:
        """1 if the schema takes no text, and so never took prose for JSON."""
        return 2 if "string" in self.json_schema.get("type", "string") else 1  # one type, or a list

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        if len(case.actual_output or "") > _LONGEST_UNEVALUATED and mentions_unevaluated(self.json_schema):
            raise TooExpensive("json_schema: the answer is too long for unevaluatedItems and unevaluatedProperties")
        value = parse_json(case.actual_output or "")
        if value is ABSENT:
            return Score(value=0.0, explanation="is no JSON")
        violations = _violations(orjson.dumps(self.json_schema), value)
        explanation = "fits the schema" if not violations else "violates " + "; ".join(violations)
        return Score(value=float(not violations), explanation=explanation)


def _violations(schema: bytes, value: Json) -> list[str]:
    """The violated keywords and their positions, in the schema's own names: nothing of the value itself."""
    from referencing.exceptions import Unresolvable

    errors = cast("Any", _validator(schema)).iter_errors(value)
    try:
        return [f"{error.validator} at {error.json_path}" for error in islice(errors, _NAMED)]
    except Unresolvable as error:
        raise EvaluationError("json_schema: refers to another document, which is not fetched") from error
    except RecursionError:
        raise TooExpensive("json_schema: the answer is nested too deeply") from None


@lru_cache(maxsize=256)
def _validator(schema: bytes) -> object:
    """Made once per schema; an empty registry, so that no reference makes it fetch anything."""
    from jsonschema.validators import validator_for
    from referencing import Registry

    loaded = orjson.loads(schema)
    return linear(validator_for(loaded))(loaded, registry=cast("Any", Registry)())
