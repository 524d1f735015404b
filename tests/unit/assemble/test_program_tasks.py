"""Calls that a chat program makes for itself are no turns; a user who talks of titles is answered."""

from __future__ import annotations

import json

import pytest
from made_up import ASSEMBLER, Trace, chat, parts

from collector.assemble.explain import explain

SAID = "USER: Is it windy?\nASSISTANT: Yes, nine metres a second."
HISTORY = f"### Chat History:\n<chat_history>\n{SAID}\n</chat_history>"
TASKS = {
    "Open WebUI's title": (
        f"### Task:\nGenerate a concise, 3-5 word title with an emoji summarizing the chat history.\n{HISTORY}",
        '{"title": "Wind at sea"}',
    ),
    "Open WebUI's follow-ups": (
        f"### Task:\nSuggest 3-5 relevant follow-up questions or prompts that the user might ask.\n{HISTORY}",
        json.dumps({"follow_ups": ["How windy will it be tomorrow?", "Is the ferry running?"]}),
    ),
    "Open WebUI's tags": (
        f"### Task:\nGenerate 1-3 broad tags categorizing the main themes of the chat history.\n{HISTORY}",
        '{"tags": ["Weather"]}',
    ),
    "LibreChat's title": (
        f"Provide a concise, 5-word-or-less title for the conversation, using title case. Only return the title.\n{SAID}",
        "Wind at Sea",
    ),
    "a very short title": (
        f"Create a very short title (max 5 words) for a conversation based on the following prompt:\n{SAID}",
        "Wind at sea",
    ),
}


@pytest.mark.parametrize("name", TASKS)
def test_a_task_of_the_program_is_no_turn(name: str) -> None:
    question, answer = TASKS[name]
    trace = Trace().span(1, "POST /chat", {"session.id": "c1"}, took=9)
    trace.span(2, "chat", chat("Is it windy?", "Yes."), parent=1).span(3, "chat", chat(question, answer), parent=1)
    assert [turn.input for turn in trace.turns()] == ["Is it windy?"]
    explained = {span.name + span.span_id: span.outcome for span in explain("", trace.pieces(), ASSEMBLER).spans}
    assert [outcome for outcome in explained.values() if outcome.startswith("no turn: it makes a t")]


def test_a_title_may_be_asked_for_by_the_system_prompt() -> None:
    system = "Generate a concise, descriptive title for this conversation. Only output the title."
    held = {**chat("", "Wind at sea"), "gen_ai.input.messages": parts(("system", system), ("user", "Is it windy?"))}
    assert Trace().span(1, "chat", held).turns() == []


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Write a title for my book on sailing.", "Before the Wind"),
        ("What is the title of the chat that I began yesterday?", "It is called Wind at sea."),
        ("Create a short title for my conversation analysis course, and explain it.", "Talk.\n\nIt is short."),
        ("### Task: mow the lawn. How long does it take?", "An hour."),
        ("Suggest follow-up questions for my interview.", "1. Why?\n2. How?"),
    ],
)
def test_a_user_who_talks_of_such_things_is_answered(question: str, answer: str) -> None:
    assert Trace().span(1, "chat", chat(question, answer)).turn().input == question
