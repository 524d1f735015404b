"""Citations: what is one, what exists, what supports; values by hand."""

import pytest

from evaluators.cases import Message, ToolCall
from evaluators.catalogue import load_evaluators
from evaluators.evaluation import evaluate
from evaluators.mechanisms.citations import cited_statements, find_citations
from evaluators.results import Skipped
from evaluators.testing import ScriptedJudge, a_moment, a_turn

TWO = ("Kayaks cost 42 euros a day.", "Deposits are 120 euros; see https://larkspur.example/deposit.")


async def outcome_of(kind, case, judge=None, **fields):
    evaluator = load_evaluators()[kind](name=kind, **fields)
    return (await evaluate(evaluator, case, judge, now=a_moment)).outcome


def verdicts(*words):
    return {"verdicts": [{"number": n, "reason": f"r{n}", "verdict": word} for n, word in enumerate(words, start=1)]}


@pytest.mark.parametrize(
    ("answer", "targets"),
    [
        ("It is so [1].", [1]),
        ("It is so[2][3].", [2, 3]),
        ("It is so [1, 3] and [2-4].", [1, 3, 2, 3, 4]),
        ("It is so 【4†source】 and 【5:1†a.txt】.", [4, 5]),
        ("It is so [doc2] [Source 3] [^4] [source: 5].", [2, 3, 4, 5]),
        ("See [handbook.pdf] and [source: a b/rules.md, p. 4].", ["handbook.pdf", "a b/rules.md"]),
        ("See https://a.example/x/?q=1#top, or (http://WWW.b.example/).", ["http://a.example/x/?q=1", "http://b.example"]),
        ("See [1](https://a.example/x) for it.", ["http://a.example/x"]),
        ("In 2024 [2024] there were [many] of them [ ] (1).", []),
        ("```\nx[1] = 2\n``` and `y[2]` are code [3].", [3]),
        ("It is so [1].\n\n[1]: the handbook\n[2] never cited", [1, 2]),
        ("", []),
    ],
)  # fmt: skip
def test_what_is_a_citation(answer, targets):
    assert [each.target for each in find_citations(answer)] == targets


@pytest.mark.parametrize(
    ("answer", "statements"),
    [
        (
            "It costs 42 euros [1]. That is cheap. It has a deposit. [2]",
            ["It costs 42 euros [1].", "It has a deposit."],
        ),
        ("- One [1]\n- Two [2][3]\n", ["- One [1]", "- Two [2][3]"]),
        ("Nothing.", []),
        ("It is so. [1] [2]\n[3]", ["It is so."]),
    ],
)
def test_statements_that_cite(answer, statements):
    assert [each.text for each in cited_statements(answer)] == statements


def test_marks_behind_a_sentence_are_its_citations():
    [statement] = cited_statements("First. It is so [1]. [2]\n[3]")
    assert [each.target for each in statement.citations] == [1, 2, 3]


@pytest.mark.parametrize(
    ("answer", "fields", "value", "missing"),
    [
        ("It costs 42 euros [1], and the deposit is 120 [2].", {}, 1.0, []),
        ("It costs 42 euros [1], and the deposit is 120 [3].", {}, 0.5, ["3"]),
        ("It costs 42 euros [0].", {}, 0.0, ["0"]),
        ("It costs 42 euros [0], [1].", {"first_number": 0}, 1.0, []),
        ("It costs 42 euros [1, 2, 3, 9].", {}, 0.5, ["3", "9"]),
        ("See https://larkspur.example/deposit/ [2].", {}, 1.0, []),
        ("See https://larkspur.example/prices [2].", {}, 0.5, ["http://larkspur.example/prices"]),
        ("See https://larkspur.example/prices [2].", {"links": False}, 1.0, []),
        ("It costs 42 euros.", {}, 1.0, []),
        ("It costs 42 euros.", {"required": True}, 0.0, []),
        ("It costs 42 euros [handbook.pdf].", {"required": True}, 1.0, []),  # nothing tells the names of files
    ],
)
async def test_whether_citations_exist(answer, fields, value, missing):
    outcome = await outcome_of("citations", a_turn("How much?", answer, retrieval_context=TWO), **fields)
    assert (outcome.value, outcome.details["missing"]) == (value, missing)


async def test_passages_that_carry_numbers_are_cited_by_these():
    passages = ("[4] Kayaks cost 42 euros.", "[7] Deposits are 120 euros.")
    outcome = await outcome_of("citations", a_turn("?", "42 [4], 120 [7], or [1].", retrieval_context=passages))
    assert (outcome.value, outcome.details["missing"]) == (pytest.approx(2 / 3), ["1"])


@pytest.mark.parametrize(
    "result",
    [["first", "second"], '["first", "second"]', {"results": ["first", "second"], "took": 3}],
    ids=["list", "text", "in an object"],
)
async def test_results_of_tools_are_cited_where_there_are_no_passages(result):
    case = a_turn("?", "It is so [2], or so [3].", tools_called=(ToolCall(name="search", result=result),))
    assert (await outcome_of("citations", case)).value == 0.5


async def test_names_of_files_exist_where_the_sources_have_them():
    passages = ("handbook.pdf, page 3: kayaks cost 42 euros.", "Deposits.")
    case = a_turn("?", "It is 42 [Handbook.pdf], see [rules.pdf].", retrieval_context=passages)
    outcome = await outcome_of("citations", case)
    assert (outcome.value, outcome.details["missing"]) == (0.5, ["rules.pdf"])


async def test_links_of_the_user_and_the_instructions_are_not_made_up():
    case = a_turn(
        "Is https://a.example/1 right?",
        "https://a.example/1, https://b.example/2, https://c.example/3 and https://d.example/4",
        retrieval_context=("nothing",),
        system_prompt="Point to https://b.example/2.",
        history=(Message(role="user", content="https://c.example/3"),),
    )
    assert (await outcome_of("citations", case)).details["missing"] == ["http://d.example/4"]


@pytest.mark.parametrize("kind", ["citations", "citation_support"])
async def test_without_sources_nothing_is_judged(kind):
    outcome = await outcome_of(kind, a_turn("?", "It is so [1]."), ScriptedJudge(AssertionError("asked")))
    assert outcome == Skipped(reason="missing_field: retrieval_context")


async def test_each_statement_is_judged_with_what_it_cites():
    judge = ScriptedJudge(verdicts("yes", "no"))
    case = a_turn(
        "How much?", "It costs 42 euros [1]. The deposit is 99 euros [2].", retrieval_context=(*TWO, "Other.")
    )
    outcome = await outcome_of("citation_support", case, judge)
    assert outcome.value == 0.5
    assert outcome.explanation == "1 of 2 cited statements are supported. Item 2: r2"
    [asked] = judge.questions
    assert asked.prompt.material == {
        "input": "How much?",
        "sources": {"1": TWO[0], "2": TWO[1]},
        "items": [
            {"number": 1, "item": {"statement": "It costs 42 euros [1].", "cites": [1]}},
            {"number": 2, "item": {"statement": "The deposit is 99 euros [2].", "cites": [2]}},
        ],
    }


async def test_a_statement_that_cites_only_what_does_not_exist_is_not_supported():
    judge = ScriptedJudge(verdicts("yes", "unclear"))
    answer = "One [1]. Two [2]. Three [8]. Four [9]."
    outcome = await outcome_of("citation_support", a_turn("?", answer, retrieval_context=TWO), judge)
    assert (outcome.value, outcome.details["missing"]) == (0.25, 2)
    assert "2 cite what does not exist" in outcome.explanation


@pytest.mark.parametrize(("answer", "value"), [("Nothing is cited.", 1.0), ("One [9].", 0.0)])
async def test_nobody_is_asked_without_need(answer, value):
    judge = ScriptedJudge(AssertionError("asked"))
    assert (await outcome_of("citation_support", a_turn("?", answer, retrieval_context=TWO), judge)).value == value
