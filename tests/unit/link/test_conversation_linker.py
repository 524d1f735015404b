"""Conversations that nobody named, put together by the words that their turns repeat."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings, strategies as st

from collector.link.conversation_linker import ConversationLinker, history_of
from evaluators.cases import Message, ToolCall, Turn


@dataclass
class Person:
    """Somebody who talks to an application, which sends all that was said with every question."""

    service: str = "shop"
    user: str | None = None
    said: list[Message] = field(default_factory=list[Message])

    def asks(self, trace: str, question: str, answer: str | None) -> Turn:
        turn = Turn(
            turn_id=f"turn of {trace} {question}",
            trace_id=trace,
            service=self.service,
            user_id=self.user,
            history=tuple(self.said),
            input=question,
            actual_output=answer,
            error=None if answer else "timeout",
        )
        self.said.append(Message(role="user", content=question))
        if answer:
            self.said.append(Message(role="assistant", content=answer))
        return turn


def linked(*turns: Turn, links: ConversationLinker | None = None, every: float = 1.0) -> list[str]:
    """The conversation of each turn, `every` so many seconds."""
    links = ConversationLinker() if links is None else links
    return [links.conversation_of(turn, number, number * every) for number, turn in enumerate(turns)]


def test_a_conversation_is_known_by_what_its_turns_repeat() -> None:
    ann = Person()
    turns = [ann.asks("a1", "Hi", "Hello"), ann.asks("a2", "Lamps?", "Many."), ann.asks("a3", "Red?", "Two.")]
    assert linked(*turns) == ["a1", "a1", "a1"]


def test_two_who_open_alike_have_two_conversations() -> None:
    ann, bob = Person(), Person()
    turns = [
        ann.asks("a1", "Hi", "Hello"),
        bob.asks("b1", "Hi", "Hello"),
        ann.asks("a2", "Lamps?", "Many."),
        bob.asks("b2", "Chairs?", "None."),
        ann.asks("a3", "Red?", "Two."),
        bob.asks("b3", "Why?", "Sold."),
    ]
    found = linked(*turns)
    assert found[0::2] == [found[0], found[2], found[2]]
    assert found[1::2] == [found[1], found[3], found[3]]
    assert set(found) == {"a1", "b1"}


def test_who_goes_on_takes_up_the_younger() -> None:
    """Whoever is older may be unknown to a replay."""
    people = [Person(), Person()]
    turns = [each.asks(f"a{number}", "Hi", "Hello") for number, each in enumerate(people)]
    assert linked(*turns, people[0].asks("b0", "Lamps?", "Many.")) == ["a0", "a1", "a1"]


@pytest.mark.parametrize("other", [Person(service="bank"), Person(user="bob")], ids=["service", "user"])
def test_another_service_or_user_is_another_conversation(other: Person) -> None:
    ann = Person()
    first = ann.asks("a1", "Hi", "Hello")
    other.said = list(ann.said)
    assert linked(first, other.asks("b2", "Lamps?", "Many.")) == ["a1", "b2"]


def test_spaces_system_prompts_and_tools_make_no_difference() -> None:
    told = (
        Message(role="system", content="Today is Friday."),
        Message(role="user", content=" Where is\nmy parcel? "),
        Message(role="assistant", content="Let me see.", tool_calls=(ToolCall(name="track"),)),
        Message(role="tool", content="Oslo"),
        Message(role="assistant", content="In Oslo."),
    )
    first = Turn(turn_id="1", trace_id="a1", input="Where is my parcel?", actual_output="In Oslo. ")
    second = Turn(turn_id="2", trace_id="a2", history=told, input="Still?", actual_output="Yes.")
    assert linked(first, second) == ["a1", "a1"]


def test_an_attempt_that_failed_may_be_repeated_or_not() -> None:
    ann = Person()
    turns = [ann.asks("a1", "Hi", "Hello"), ann.asks("a2", "Lamps?", None)]
    repeating, forgetting = replace_said(ann, ann.said), replace_said(ann, ann.said[:2])
    assert linked(*turns, repeating.asks("a3", "Lamps?", "Many.")) == ["a1"] * 3
    assert linked(*turns, forgetting.asks("a3", "Lamps?", "Many.")) == ["a1"] * 3


def replace_said(person: Person, said: list[Message]) -> Person:
    return replace(person, said=list(said))


def test_what_began_where_nobody_saw_it_stays_apart() -> None:
    """Examples in a prompt look like a history that many turns share."""
    ann = Person(said=[Message(role="user", content="2+2?"), Message(role="assistant", content="4")])
    bob = replace_said(ann, ann.said)
    assert linked(ann.asks("a1", "1+1?", "2"), bob.asks("b1", "1+1?", "2"), ann.asks("a2", "3+3?", "6")) == [
        "a1",
        "b1",
        "a2",
    ]


def test_a_turn_that_comes_again_changes_nothing() -> None:
    ann = Person()
    one, two, three = (ann.asks(f"a{n}", f"Question {n}", f"Answer {n}") for n in (1, 2, 3))
    assert linked(one, two, one, two, three, one, two) == ["a1"] * 7


def test_turns_of_one_trace_stay_together_whether_they_repeat_themselves_or_not() -> None:
    one, other = Person(), Person()
    turns = [one.asks("t", "Hi", "Hello"), other.asks("t", "Lamps?", "Many.")]
    after = Person(said=[*one.said, *other.said]).asks("u", "Red?", "Two.")
    assert linked(*turns, after) == ["t", "t", "t"]


def test_one_goes_on_within_the_window_only() -> None:
    ann = Person()
    turns = [ann.asks(f"a{n}", f"Question {n}", f"Answer {n}") for n in range(3)]
    assert linked(*turns, links=ConversationLinker(window=60.0), every=60.0) == ["a0", "a0", "a0"]
    assert linked(*turns, links=ConversationLinker(window=60.0), every=61.0) == ["a0", "a1", "a2"]
    assert linked(*turns, links=ConversationLinker(window=60.0, max_age=100.0), every=60.0) == ["a0", "a0", "a2"]


def test_one_who_goes_on_holds_nobody_else() -> None:
    links = ConversationLinker(window=60.0)
    ann, bob = Person(user="ann"), Person(user="bob")
    links.conversation_of(ann.asks("a1", "Hi", "Hello"), 0, 0.0)
    links.conversation_of(bob.asks("b1", "Hi", "Hello"), 1, 1.0)
    links.conversation_of(ann.asks("a2", "Lamps?", "Many."), 2, 50.0)
    assert links.conversation_of(bob.asks("b2", "Chairs?", "None."), 3, 100.0) == "b2"
    assert links.conversation_of(ann.asks("a3", "Red?", "Two."), 4, 101.0) == "a1"


def test_no_more_are_known_than_may_be() -> None:
    links = ConversationLinker(most=100)
    for number in range(1000):
        Person(user=str(number)).asks("t", "Hi", "Hello")
        links.conversation_of(Person(user=str(number)).asks(f"t{number}", "Hi", "Hello"), number, 0.0)
        assert len(links) <= 100
    assert links.low_watermark == 900


def test_nothing_is_kept_of_those_who_left() -> None:
    links = ConversationLinker(window=60.0)
    ann = Person()
    for number in range(10):
        links.conversation_of(ann.asks(f"a{number}", f"Question {number}", "Yes."), number, float(number))
    links.conversation_of(Person().asks("late", "Hi", "Hello"), 10, 1000.0)
    assert len(links) == 1
    assert [len(held) for held in vars_of(links)] == [1, 1, 1, 1, 1, 0]
    assert links.low_watermark == 10


def vars_of(links: ConversationLinker) -> list[dict[object, object]]:
    return [value for value in vars(links).values() if isinstance(value, dict)]


@dataclass(frozen=True)
class Came:
    turn: Turn
    who: int
    position: int
    time: float


@st.composite
def traffic(draw: st.DrawFn) -> list[Came]:
    """Several people, of few words, each taking their turns in order; some turns come twice."""
    people = [Person() for _ in range(draw(st.integers(1, 4)))]
    came: list[Came] = []
    time = 0.0
    for position in range(draw(st.integers(1, 25))):
        time += draw(st.sampled_from([0.0, 1.0, 40.0]))
        if came and draw(st.integers(0, 9)) == 0:
            again = draw(st.sampled_from(came))
            came.append(replace(again, position=position, time=time))
            continue
        who = draw(st.integers(0, len(people) - 1))
        turn = people[who].asks(
            f"t{position}", draw(st.sampled_from(["Hi", "More", "Yes"])), draw(st.sampled_from(["Ok", "Sure"]))
        )
        came.append(Came(turn, who, position, time))
    return came


@settings(max_examples=150, derandomize=True)
@given(came=traffic())
def test_whoever_they_are_taken_for_each_conversation_reads_as_one_person_said_it(came: list[Came]) -> None:
    """Nothing of a conversation is lost, repeated, or mixed with words that its turns do not tell of."""
    links = ConversationLinker(window=1e9, max_age=1e9)
    conversations: dict[str, dict[str, Turn]] = defaultdict(dict)
    for each in came:
        conversations[links.conversation_of(each.turn, each.position, each.time)].setdefault(
            each.turn.turn_id, each.turn
        )
    assert len(conversations) == len({each.who for each in came})
    for turns in conversations.values():
        *_, last = turns.values()
        said = [message.content for message in last.history] + [last.input, last.actual_output]
        assert [text for turn in turns.values() for text in (turn.input, turn.actual_output)] == said


@settings(max_examples=150, derandomize=True)
@given(came=traffic(), window=st.sampled_from([30.0, 60.0, 1e9]), cut=st.integers(0, 25))
def test_a_replay_from_the_low_watermark_goes_on_alike(came: list[Came], window: float, cut: int) -> None:
    links = ConversationLinker(window=window, max_age=120.0)
    low: int | None = None
    found: list[str] = []
    for each in came:
        if each.position == cut:
            low = links.low_watermark
        found.append(links.conversation_of(each.turn, each.position, each.time))
    start = cut if low is None else low
    again = ConversationLinker(window=window, max_age=120.0)
    replayed = [again.conversation_of(each.turn, each.position, each.time) for each in came if each.position >= start]
    first = min(cut, len(came))
    assert replayed[first - start if first >= start else 0 :] == found[first:]


def test_the_opening_is_the_same_from_the_first_turn_on() -> None:
    ann = Person()
    turns = [ann.asks(f"a{n}", f"Question {n}", f"Answer {n}") for n in range(4)]
    assert len({history_of(turn).opening for turn in turns}) == 1
    assert history_of(Person().asks("b", "Question 0", None)).opening is None


def test_a_thousand_who_opened_alike_each_go_on_in_a_conversation_of_their_own() -> None:
    links = ConversationLinker()
    people = [Person() for _ in range(1000)]
    for number, each in enumerate(people):
        links.conversation_of(each.asks(f"a{number}", "Hi", "Hello"), number, 0.0)
    order = list(range(1000))
    random.Random(1).shuffle(order)
    found = {links.conversation_of(people[n].asks(f"b{n}", f"I am {n}", "Yes."), 1000 + n, 1.0) for n in order}
    assert len(found) == 1000


def responding(trace: str, response: str | None, before: str | None = None, **fields: str) -> Turn:
    """A turn whose endpoint keeps the history: it names the response before."""
    said = {"input": f"Question {trace}?", "actual_output": f"Answer {trace}.", "service": "desk"}
    return Turn(turn_id=trace, trace_id=trace, response_id=response, conversation_id=before, **said | fields)


def test_responses_are_followed_to_the_first() -> None:
    turns = [
        responding("a1", "resp_1"),
        responding("b1", "resp_9"),
        responding("a2", "resp_2", "resp_1"),
        responding("a3", None, "resp_2", error="timeout"),
        responding("a4", "resp_4", "resp_2"),
        responding("a5", "resp_5", "resp_4"),
    ]
    assert linked(*turns) == ["a1", "b1", "a1", "a1", "a1", "a1"]


def test_what_follows_a_response_that_was_never_seen_stays_apart() -> None:
    assert linked(responding("a2", "resp_2", "resp_1"), responding("a3", "resp_3", "resp_2")) == ["a2", "a3"]


def test_a_replay_follows_the_same_responses() -> None:
    turns = [responding("a1", "resp_1"), responding("b1", "resp_9"), responding("a2", "resp_2", "resp_1")]
    turns += [responding("b2", "resp_10", "resp_9"), responding("a3", "resp_3", "resp_2")]
    links = ConversationLinker(window=2.5)
    assert linked(*turns, links=links) == ["a1", "b1", "a1", "b1", "a1"]
    start = links.low_watermark or 0
    again = ConversationLinker(window=2.5)
    for number, turn in enumerate(turns):
        if number >= start:
            again.conversation_of(turn, number, number)
    assert again.conversation_of(responding("a4", None, "resp_3"), 5, 5.0) == "a1"
    links.conversation_of(Person().asks("late", "Hi", "Hello"), 6, 999.0)
    assert [len(held) for held in vars_of(links)] == [1, 1, 1, 1, 1, 0], "nothing is kept of those who left"
