from evaluators.answers.schemas import schema_of
from evaluators.mechanisms.rating import Steps
from evaluators.scale import Scale


def test_a_rating_has_its_limits_and_its_order():
    schema = schema_of(Scale(1, 5).reply)
    assert list(schema["properties"]) == schema["required"] == ["reason", "score"]
    assert schema["properties"]["score"] == {"type": "integer", "minimum": 1, "maximum": 5}
    assert schema["additionalProperties"] is False


def test_keywords_that_some_endpoints_refuse_are_left_out():
    assert schema_of(Steps)["properties"]["steps"] == {"type": "array", "items": {"type": "string"}}
