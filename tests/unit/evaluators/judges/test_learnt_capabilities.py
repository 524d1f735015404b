"""Abilities are taken away by a comparison alone, and tried again later."""

from evaluators.judges.capabilities import Capabilities, LearntCapabilities

ALL = frozenset({"format", "top_logprobs", "limit", "temperature", "system"})


class Endpoint:
    """Questions to an endpoint that refuses what `lacks` says."""

    def __init__(self):
        self.now = 0.0
        self.learnt = LearntCapabilities(Capabilities(), clock=lambda: self.now)

    def ask(self, *complaints, used=ALL, named=True, answered=True):
        """One question, refused so often; its attempt."""
        attempt = self.learnt.begin(lambda _features: used)
        for complaint in complaints:
            assert self.learnt.refused(attempt, complaint, named=named)
        if answered:
            self.learnt.answered(attempt)
        return attempt


def test_a_refusal_alone_teaches_nothing():
    endpoint = Endpoint()
    endpoint.ask("logprobs are not supported", named=False, answered=False)
    assert endpoint.learnt.current == Capabilities()


def test_one_comparison_is_enough_for_what_was_never_taken():
    endpoint = Endpoint()
    endpoint.ask("logprobs are not supported", named=False)
    assert endpoint.learnt.current == Capabilities(top_logprobs=0)
    assert endpoint.ask().features.top_logprobs == 0


def test_several_are_needed_for_what_was_taken_before():
    endpoint = Endpoint()
    endpoint.ask()
    for _ in range(2):
        endpoint.ask("json_schema: no", named=False)
    endpoint.ask()  # in between it is taken again
    for _ in range(2):
        endpoint.ask("json_schema: no", named=False)
    assert endpoint.learnt.current.format == "json_schema"
    endpoint.ask("json_schema: no", named=False)
    assert endpoint.learnt.current.format == "json_object"


def test_what_concerns_one_question_is_not_learnt():
    endpoint = Endpoint()
    attempt = endpoint.ask("max_tokens is too large: context length")
    assert attempt.features.limit == "max_completion_tokens"
    assert endpoint.learnt.current == Capabilities()


def test_what_was_taken_away_is_tried_again_ever_more_rarely():
    endpoint = Endpoint()
    endpoint.ask("logprobs are not supported", named=False)
    endpoint.now = 599.0
    assert endpoint.ask().features.top_logprobs == 0
    endpoint.now = 601.0
    assert endpoint.ask("logprobs are not supported", named=False).first.top_logprobs == 20
    assert endpoint.ask().features.top_logprobs == 0  # one question at a time
    endpoint.now = 1300.0
    assert endpoint.ask().features.top_logprobs == 0
    endpoint.now = 1900.0
    assert endpoint.ask().features.top_logprobs == 20  # taken now
    assert endpoint.learnt.current == Capabilities()


def test_faults_in_a_row_without_an_answer_are_asked_with_less():
    endpoint = Endpoint()
    asked_again = []
    for _ in range(3):
        attempt = endpoint.learnt.begin(lambda _features: ALL)
        asked_again.append(endpoint.learnt.failed(attempt))
    assert asked_again == [False, False, True]
    assert attempt.features.top_logprobs == 0
    endpoint.learnt.answered(attempt)
    assert endpoint.learnt.current.top_logprobs == 0


def test_an_outage_takes_nothing_away():
    endpoint = Endpoint()
    endpoint.ask()
    for _ in range(9):
        assert not endpoint.learnt.failed(endpoint.learnt.begin(lambda _features: ALL))
    assert endpoint.learnt.current == Capabilities()


def test_a_number_in_the_complaint_is_used():
    assert Capabilities().without("Cannot request more than 5 logprobs.").top_logprobs == 5
    assert Capabilities().without("top_logprobs must be at most 3").top_logprobs == 3


def test_no_system_role():
    for complaint in (
        "System role not supported",
        "Conversation roles must alternate user/assistant/user/assistant/...",
        "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
        "developer instruction is not enabled for this model",
    ):
        assert not Capabilities().without(complaint).system


def test_an_unnamed_refusal_takes_the_feature_alone_that_it_was_about():
    endpoint = Endpoint()
    attempt = endpoint.learnt.begin(lambda _features: ALL)
    while attempt.features.top_logprobs:  # refused for its token probabilities
        assert endpoint.learnt.refused(attempt, "parameters are not supported", named=False)
    endpoint.learnt.answered(attempt)
    assert endpoint.learnt.current == Capabilities(top_logprobs=0)
