"""What a judge is shown of pictures, and what it is told of those that it cannot see."""

from __future__ import annotations

import base64
from dataclasses import replace

import orjson
import pytest

from evaluators import Conversation, Turn, evaluate
from evaluators.asking.prompt_isolation import wrap_untrusted
from evaluators.asking.sight import Sight, view_of
from evaluators.cases import Attachment
from evaluators.catalogue import load_evaluators
from evaluators.judges.answer_cache import AnswerCache
from evaluators.judges.chats import text_of
from evaluators.judges.jury import Jury
from evaluators.judges.openai import OpenAIJudge
from evaluators.judges.rate_limited import estimate_tokens
from evaluators.judges.requests import question_of
from evaluators.results import Score, Skipped
from evaluators.testing import ScriptedJudge, a_turn, answer_any_form

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(60)).decode()
PICTURE = Attachment(kind="image", media_type="image/png", size=68, sha256="ab" * 32, data=PNG)
LINKED = Attachment(kind="image", url="https://cdn.example.com/a.png")
SPEECH = Attachment(kind="audio", media_type="audio/wav", size=9, transcript="Where is my order?")
SEES = Sight(frozenset({"image"}), hosts=("cdn.example.com", "*.pictures.example"))
HELPFUL = load_evaluators()["g_eval"](
    name="helpful", evaluation_steps=["Is it right?"], evaluation_params=["input", "actual_output"], mode="single"
)


def judge(sight: Sight = Sight()) -> ScriptedJudge:  # noqa: B008 - a frozen value
    return ScriptedJudge(answer_any_form(), sight=sight)


async def test_a_judge_that_sees_is_shown_the_picture() -> None:
    seeing = judge(SEES)
    result = await evaluate(HELPFUL, a_turn(attachments=(PICTURE, LINKED)), seeing)
    [question] = seeing.questions
    assert question.prompt.media == (PICTURE, LINKED)
    content = question_of(question.prompt).chat[-1]["content"]
    assert [each["type"] for each in content] == ["text", "image_url", "image_url"]
    assert [each["image_url"]["url"] for each in content[1:]] == [
        f"data:image/png;base64,{PNG}", "https://cdn.example.com/a.png",
    ]  # fmt: skip
    assert (
        '"attachments":[{"number":1,"kind":"image","place":"input","media_type":"image/png","shown":true}'
        in question.message
    )
    assert PNG not in question.message
    assert "unseen_media" not in details(result.outcome)


def details(outcome: object) -> dict[str, object]:
    assert isinstance(outcome, Score)
    return dict(outcome.details)


async def test_a_blind_judge_has_interval() -> None:
    blind = judge()
    result = await evaluate(HELPFUL, a_turn(attachments=(PICTURE, SPEECH)), blind)
    [question] = blind.questions
    assert question.prompt.media == ()
    assert '"kind":"image","place":"input","media_type":"image/png","shown":false' in question.message
    assert '"transcript":"Where is my order?"' in question.message
    assert "you cannot see or hear them" in question.message
    assert details(result.outcome)["unseen_media"] == 1  # the recording is known by its transcript


async def test_a_case_without_attachments_is_asked_about_as_before() -> None:
    one = judge(SEES)
    await evaluate(HELPFUL, a_turn(), one)
    assert "attachments" not in one.questions[0].message
    assert isinstance(question_of(one.questions[0].prompt).chat[-1]["content"], str)
    assert HELPFUL.version == replace_free_version()


def replace_free_version() -> str:
    return type(HELPFUL).model_validate(HELPFUL.model_dump()).version


async def test_a_turn_that_is_not_seen_is_skipped_where_that_is_wanted() -> None:
    turn = a_turn(attachments=(PICTURE, Attachment(kind="file"), SPEECH))
    blind = judge()
    result = await evaluate(HELPFUL, turn, blind, skip_unseen=True)
    assert result.outcome == Skipped(reason="unseen_media: file, image")
    assert blind.questions == []
    only = replace(turn, attachments=(PICTURE,))
    assert isinstance((await evaluate(HELPFUL, only, judge(SEES), skip_unseen=True)).outcome, Score)
    code = load_evaluators()["contains"](name="said", search_text="Paris")
    assert isinstance((await evaluate(code, turn, skip_unseen=True)).outcome, Score)


async def test_of_a_jury_each_sees_what_it_can() -> None:
    members = [judge(), judge(SEES)]
    await evaluate(HELPFUL, a_turn(attachments=(PICTURE,)), Jury(members))
    assert [len(each.questions[0].prompt.media) for each in members] == [0, 1]


def test_pictures_of_a_conversation_are_those_of_its_latest_turns() -> None:
    past = replace(PICTURE, place="history")
    turns = (Turn(attachments=(past,)), Turn(attachments=(PICTURE, past)), Turn(attachments=(LINKED, past, past)))
    view = view_of(Conversation(turns=turns), judge(SEES))
    assert [(each["turn"], each["place"]) for each in view.listed] == [(3, "input"), (2, "input"), (1, "history")]
    assert view.visible == (LINKED, PICTURE, past)


@pytest.mark.parametrize(
    "url",
    [
        "https://cdn.example.com/a.png", "https://CDN.example.com/a.png", "https://a.pictures.example/b?c=d&e=%20",
        "https://cdn.example.com",
    ],
)  # fmt: skip
def test_addresses_of_named_hosts(url: str) -> None:
    assert SEES.permits(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://cdn.example.com/a.png",
        "https://169.254.169.254/latest/meta-data",
        "https://localhost/a.png",
        "https://evil.example/cdn.example.com",
        "https://cdn.example.com.evil.example/a.png",
        "https://cdn.example.com@evil.example/a.png",
        "https://user:pass@cdn.example.com/a.png",
        "https://cdn.example.com:8443/a.png",
        "https://evil.example\\@cdn.example.com/a.png",
        "https://cdn.example.com\\.evil.example/a.png",
        "https://evil.example#@cdn.example.com/",
        "https://pictures.example/a.png",
        "https://xpictures.example/a.png",
        "https://cdn.example.com/a png",
        "https://cdn.example.com/\u0430.png",
        "https://cdn.example.com/a\n.png",
        "file:///etc/passwd",
        "gopher://cdn.example.com/",
        "data:image/png;base64,AAAA",
        "//cdn.example.com/a.png",
        "",
    ],
)
def test_no_stranger_chooses_what_is_called(url: str) -> None:
    assert not SEES.permits(url)
    assert not Sight(frozenset({"image"})).permits(url)


@pytest.mark.parametrize(
    "attachment",
    [
        replace(PICTURE, media_type="image/svg+xml"),
        replace(PICTURE, media_type=None),
        replace(PICTURE, kind="file", media_type="application/pdf"),
        replace(PICTURE, data=PNG * 30),
        replace(PICTURE, data=None),
        SPEECH,
    ],
    ids=["svg", "unknown", "pdf", "too large", "not stored", "sound"],
)
def test_what_is_not_shown(attachment: Attachment) -> None:
    assert not Sight(frozenset({"image"}), max_bytes=1000).shows(attachment)


def test_no_more_pictures_than_are_permitted() -> None:
    view = view_of(a_turn(attachments=(PICTURE,) * 6), judge(replace(SEES, max_count=2)))
    assert (len(view.visible), len(view.listed), view.unseen) == (2, 6, ("image",) * 4)


async def test_equal_questions_with_other_pictures_are_other_questions() -> None:
    inner = judge(SEES)
    cached = AnswerCache(inner, capacity=10)
    for attachment in (PICTURE, PICTURE, replace(PICTURE, sha256="cd" * 32)):
        await evaluate(HELPFUL, a_turn(attachments=(attachment,)), cached)
    assert len(inner.questions) == 2


async def test_a_picture_counts_for_the_rate_limit() -> None:
    seeing = judge(SEES)
    await evaluate(HELPFUL, a_turn(attachments=(PICTURE,)), seeing)
    [question] = seeing.questions
    assert estimate_tokens(question.prompt, 1) == estimate_tokens(replace(question.prompt, media=()), 1) + 1000


def test_the_note_is_part_of_the_clause_alone() -> None:
    plain = wrap_untrusted({"input": 'He wrote "attachments":[{"number":1'})
    assert "you cannot see or hear" not in plain  # in JSON a text's quotes are escaped
    assert "you cannot see or hear" in wrap_untrusted({"attachments": [{"number": 1, "shown": False}]})


async def test_a_real_request_has_text_and_picture() -> None:
    seeing = judge(SEES)
    await evaluate(HELPFUL, a_turn(attachments=(PICTURE,)), seeing)
    chat = question_of(seeing.questions[0].prompt, b"secret").chat
    assert "answer_key" in text_of(chat[-1])
    orjson.dumps(chat)
    assert OpenAIJudge("m", api_key="none", sight=SEES).sight == SEES
