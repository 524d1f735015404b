import pytest

from evaluators.judges.capabilities import Capabilities

ALL = Capabilities()


@pytest.mark.parametrize(
    ("complaint", "left"),
    [
        (
            "Invalid parameter: 'response_format' of type 'json_schema' is not supported",
            Capabilities(format="json_object"),
        ),
        ("top_logprobs: Input should be less than or equal to 5", Capabilities(top_logprobs=5)),
        ("Invalid value for 'top_logprobs': must be between 0 and 8 (got 20)", Capabilities(top_logprobs=8)),
        ("top_logprobs too large", Capabilities(top_logprobs=5)),
        ("logprobs are not supported with reasoning models", Capabilities(top_logprobs=0)),
        (
            "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
            Capabilities(limit="max_completion_tokens"),
        ),
        ("temperature does not support 0.0 with this model", Capabilities(temperature=False)),
        ("n > 1 is not supported", Capabilities(multiple_choices=False)),
        ("the model is overworked", None),
    ],
)
def test_a_complaint_takes_one_feature_away(complaint, left):
    assert ALL.without(complaint) == left


def test_formats_go_down_to_plain_text():
    less = ALL.without("json_schema")
    least = less.without("response_format json_object")
    assert (less.format, least.format) == ("json_object", "text")
    assert least.without("response_format") is None


def test_the_length_limit_goes_by_both_names_before_it_goes():
    renamed = ALL.without("max_tokens")
    gone = renamed.without("max_completion_tokens")
    assert (renamed.limit, gone.limit) == ("max_completion_tokens", None)
    assert gone.without("max_tokens") is None


def test_alternatives_end_at_none():
    assert Capabilities(top_logprobs=5).without("top_logprobs too large").top_logprobs == 0


def test_without_a_reason_the_rarest_features_go_first():
    features, formats = ALL, []
    while (features := features.weaker(ALL)) is not None:
        formats.append((features.format, features.top_logprobs))
    assert formats == [("json_object", 20), ("text", 20), ("json_schema", 0), ("json_object", 0), ("text", 0)]
