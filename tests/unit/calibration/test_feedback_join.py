"""The join of feedback: what an entry is about, when it is decided, and what a partition remembers."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from evaluation_samples import of_conversation, scored

from collector.calibration.feedback_join import SETTLE, SETTLE_NEARER, FeedbackJoin, JoinSettings
from collector.calibration.judged_subjects import JudgedSubjects, LogPlace
from collector.errors import BadInput
from collector.export.stage import by_monitor
from collector.records.feedback import (
    FeedbackEntry,
    JoinedFeedback,
    feedback_of,
    feedback_record,
    joined_record,
    parse_feedback_entry,
    parse_joined_feedback,
)
from collector.records.references import reference_of
from evaluators.results import Evaluation, Sampling, Subject

DAY = 86_400.0
NOW = datetime(2026, 5, 4, tzinfo=UTC)


def entry(**changes: Any) -> FeedbackEntry:
    return feedback_of({"value": 1, **changes}, tenant=None)


def judged(*evaluations: Evaluation, most: int = 100) -> JudgedSubjects:
    subjects = JudgedSubjects(most=most)
    for number, each in enumerate(evaluations):
        subjects.add(replace(each, evaluation_id=f"{number:032x}"), LogPlace(0, number), float(number))
    return subjects


def of_turn(number: int, **changes: Any) -> Evaluation:
    subject = Subject(
        conversation_id="c", turn_id=f"t{number}", trace_id="a" * 32, span_id=f"{number:016x}", response_id=f"r{number}"
    )
    return scored(subject=replace(subject, **changes))


def about(subjects: JudgedSubjects, **ids: Any) -> list[str | None]:
    return [each.turn_id for each in subjects.matches(entry(**ids)).subjects]


def test_every_id_names_and_several_have_to_fit() -> None:
    subjects = judged(of_turn(1), of_turn(2), of_turn(3, trace_id="b" * 32))
    assert about(subjects, turn_id="t1") == ["t1"]
    assert about(subjects, response_id="r2") == ["t2"]
    assert about(subjects, span_id=f"{3:016X}") == ["t3"]
    assert about(subjects, trace_id="A" * 32) == ["t1", "t2"]
    assert about(subjects, trace_id="A" * 32, response_id="r2") == ["t2"]
    assert about(subjects, trace_id="b" * 32, response_id="r2") == []
    assert about(subjects, evaluation_id=f"{2:032x}") == ["t3"]
    assert about(subjects, conversation_id="c") == ["t1", "t2", "t3"], "only turns are judged"
    assert about(subjects, conversation_id="d", turn_id="t1") == []


def test_ids_of_ready_made_turns_have_no_case_either() -> None:
    """A turn may come with any trace id; feedback with the very same one waited for 7 days."""
    subjects = judged(of_turn(1, trace_id="Chat-7", span_id="AB" * 8))
    for ids in ({"trace_id": "Chat-7"}, {"span_id": "AB" * 8}, {"trace_id": "chat-7", "span_id": "ab" * 8}):
        assert about(subjects, **ids) == ["t1"], ids
    talk = replace(
        of_conversation(4), subject=Subject(conversation_id="c", trace_id="Chat-8", links=(("Chat-7", "1"),))
    )
    assert len(judged(talk).matches(entry(trace_id="Chat-7")).subjects) == 1


@pytest.mark.parametrize(("name", "digits"), [("trace_id", 32), ("span_id", 16)])
def test_an_id_of_zeros_is_refused(name: str, digits: int) -> None:
    """Programs send it that read the id outside of a span; the feedback waited until it expired."""
    for read in (entry, lambda **ids: reference_of({"expected_output": "x", **ids}, tenant="")):
        with pytest.raises(BadInput, match=f"{name}: all zeros, .* name nothing; send another id"):
            read(**{"response_id": "r1", name: "0" * digits})
        assert read(**{name: "0"}), "a ready-made turn may have it"


def test_the_nearest_of_each_monitor_counts() -> None:
    talk = Subject(conversation_id="c", trace_id="a" * 32)
    conversation = replace(of_conversation(4), monitor="talks", subject=talk)
    subjects = judged(of_turn(1), conversation)
    assert [each.monitor for each in subjects.matches(entry(trace_id="a" * 32)).subjects] == ["helpdesk", "talks"]
    assert [each.turn_id for each in subjects.matches(entry(conversation_id="c")).subjects] == ["t1", None]
    assert not subjects.matches(entry(conversation_id="c")).exact


def test_where_turns_and_conversations_are_judged_feedback_joins_only_what_it_names() -> None:
    """A turn that was not sampled had its feedback counted with its conversation's weight, so the mean was biased."""
    talk = replace(of_conversation(4), subject=Subject(conversation_id="c", trace_id="a" * 32))
    both = judged(of_turn(1, trace_id="b" * 32), talk)
    assert about(both, trace_id="a" * 32) == [None]
    both.of_both = frozenset({"helpdesk"})
    assert about(both, trace_id="a" * 32) == []
    assert about(both, conversation_id="c") == [None]
    assert about(both, turn_id="t1") == ["t1"]
    turn = judged(of_turn(1))
    turn.of_both = frozenset({"helpdesk"})
    assert about(turn, conversation_id="c") == []


def test_a_subject_of_evaluators_with_several_rates_joins_by_the_highest() -> None:
    """Each unit below the lower rate is below the higher one, too: a piece joins with the higher one's probability."""
    rare, often = of_turn(1), replace(of_turn(1), sampling=Sampling(probability=0.8))
    for order in ((rare, often), (often, rare)):
        assert judged(*order).matches(entry(turn_id="t1")).subjects[0].sampling.probability == 0.8
    other = replace(of_turn(2), sampling=Sampling(probability=0.5))
    turns = judged(rare, other).matches(entry(conversation_id="c")).subjects
    assert [each.sampling.probability for each in turns] == [0.25, 0.5]
    joined = JoinedFeedback(entry=entry(conversation_id="c"), outcome="joined", received_at=NOW, subjects=turns)
    assert [each.sampling.probability for each in by_monitor(joined).values()] == [0.5]


def test_feedback_weighs_by_the_draw_of_its_subject_alone() -> None:
    """A gate judges a share: feedback on a judged turn counted for the skipped turns, whose feedback counts, too."""
    sampling = Sampling(probability=0.4)
    judged_turn, skipped_turn = replace(of_turn(1), sampling=sampling.with_own_draw(0.25)), of_turn(2)
    subjects = (
        judged(judged_turn, replace(skipped_turn, sampling=sampling)).matches(entry(conversation_id="c")).subjects
    )
    assert [each.sampling for each in subjects] == [sampling, sampling]


def test_a_tenant_speaks_of_its_own_alone() -> None:
    subjects = judged(of_turn(1), of_turn(2, conversation_id="evalstream.tenant/a/c"))
    for tenant, turns in (("", ["t1"]), ("a", ["t2"]), ("b", []), (None, ["t1", "t2"])):
        matches = subjects.matches(feedback_of({"value": 1, "trace_id": "a" * 32}, tenant=tenant))
        assert [each.turn_id for each in matches.subjects] == turns, tenant


def test_what_is_forgotten_leaves_nothing() -> None:
    subjects = judged(of_turn(1), of_turn(1), of_turn(2), most=2)
    assert about(subjects, turn_id="t1") == ["t1"], "one of its evaluations is left"
    subjects.expire(10.0)
    assert (len(subjects), subjects._subjects, subjects._by_key) == (0, {}, {})


def join_of(wait: float = DAY, **limits: int) -> FeedbackJoin:
    return FeedbackJoin(JoinSettings(wait, {"stars": (1.0, 5.0)}), **limits)


def test_it_joins_after_a_while_and_is_known_then() -> None:
    join, subjects = join_of(), judged()
    assert join.add(entry(turn_id="t1", name="stars", value=4), 7, 100.0)
    assert not join.add(entry(turn_id="t1", name="stars", value=4), 8, 101.0)
    join.match(subjects, (), 102.0)
    keys = subjects.add(of_turn(1), LogPlace(0, 0), 200.0)
    join.match(subjects, keys, 200.0)
    assert list(join.due(subjects, 200.0 + SETTLE - 0.1)) == []
    [joined] = join.due(subjects, 200.0 + SETTLE)
    assert (joined.outcome, joined.score, joined.series) == ("joined", 0.75, "stars")
    assert joined.subjects[0].sampling.probability == 0.25
    join.close(joined.entry.feedback_id, 9, 200.0 + SETTLE)
    assert (join.waiting, list(join.due(subjects, 1e4)), join.low_watermark) == (0, [], 9)
    assert not join.add(entry(turn_id="t1", name="stars", value=4), 10, 300.0), "known, though it is over"
    assert join.to_repeat(205.0 + DAY - 1) == []
    [name] = join.to_repeat(205.0 + DAY)
    join.forget(205.0 + DAY)
    assert join.low_watermark == 9, "it came again: a replay from behind 9 would take it for new"
    join.close(name, 11, 205.0 + DAY)
    join.forget(205.0 + DAY)
    assert join.low_watermark == 11
    join.forget(205.0 + 2 * DAY)
    assert (join.low_watermark, join.waiting, join._by_key) == (None, 0, {})


def test_an_end_that_comes_later_in_the_log_counts_and_holds_back_nothing() -> None:
    join = join_of()
    other, one = entry(turn_id="t0"), entry(turn_id="t1")
    join.expect(one.feedback_id)
    assert join.add(other, 3, 1.0)
    assert not join.add(one, 4, 2.0)
    assert (join.waiting, join.low_watermark) == (1, 3)
    join.close(one.feedback_id, 9, 3.0)
    assert join.low_watermark == 3
    join.close(other.feedback_id, 10, 4.0)
    assert join.low_watermark == 9


def test_in_a_trace_a_nearer_turn_may_follow() -> None:
    join, subjects = join_of(), judged(of_turn(1))
    said = replace(entry(trace_id="a" * 32), spans=(f"{2:016x}",))
    join.add(said, 0, 0.0)
    join.match(subjects, (), 10.0)
    assert list(join.due(subjects, 10.0 + SETTLE)) == []
    join.match(subjects, subjects.add(replace(of_turn(2), evaluation_id="e9"), LogPlace(0, 9), 12.0), 12.0)
    [joined] = join.due(subjects, 12.0 + SETTLE)
    assert [each.turn_id for each in joined.subjects] == ["t2"]
    other = join_of()
    other.add(said, 0, 0.0)
    lonely = judged(of_turn(1))
    other.match(lonely, (), 10.0)
    [joined] = other.due(lonely, 10.0 + SETTLE_NEARER)
    assert [each.turn_id for each in joined.subjects] == ["t1"], "the trace's only turn"


def test_what_waits_too_long_or_in_too_large_a_crowd_is_given_up() -> None:
    join, subjects = join_of(wait=100.0, most=2), judged()
    for number in range(4):
        join.add(entry(turn_id=f"t{number}"), number, float(number))
    join.match(subjects, (), 5.0)
    assert [each.outcome for each in join.due(subjects, 5.0)] == ["crowded_out"] * 2
    assert [each.outcome for each in join.due(subjects, 101.5)] == ["unmatched"] * 2
    assert [each.outcome for each in join.due(subjects, 102.5)] == ["unmatched"] * 3


@pytest.mark.parametrize(
    ("said", "score"),
    [
        ({"value": True}, 1.0), ({"value": 0}, 0.0), ({"value": 0.5}, 0.5), ({"value": -1}, 0.0), ({"value": 4}, None),
        ({"value": "thumbs_down"}, 0.0), ({"label": "Positive"}, 1.0), ({"value": "so-so"}, None), ({"comment": "?"}, None),
    ],
)  # fmt: skip
def test_scores(said: dict[str, Any], score: float | None) -> None:
    assert feedback_of({"turn_id": "t", **said}, tenant=None).score() == score


def test_records_are_read_as_written() -> None:
    said = {"turn_id": "t", "value": False, "name": "x", "comment": "no", "at": "2026-05-04T12:00:00"}
    one = feedback_of(said, tenant="a")
    assert parse_feedback_entry(feedback_record(one).value) == one
    assert one.turn_id == "evalstream.tenant/a/t"
    subject = judged(of_turn(1)).matches(entry(turn_id="t1")).subjects
    joined = JoinedFeedback(entry=one, outcome="joined", received_at=one.at, subjects=subject, score=0.0)  # pyright: ignore[reportArgumentType]
    assert parse_joined_feedback(joined_record(joined, 0).value) == joined
    with pytest.raises(BadInput):
        parse_feedback_entry(b'{"feedback_id": "1"}')


def test_the_same_content_is_the_same_and_an_id_of_the_senders_decides() -> None:
    def name(tenant: str | None = None, **said: Any) -> str:
        return feedback_of({"turn_id": "t", **said}, tenant=tenant).feedback_id

    assert name(value=1) == name(value=1) != name(value=0)
    assert name(value=1) != name(value=1, tenant="a")
    assert name(value=1, feedback_id="7") == name(value=0, feedback_id="7") != name(value=0, feedback_id="8")
