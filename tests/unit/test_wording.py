from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel, Field, ValidationError

from collector.wording import listed, percent, plural, requirement, suggestion, unknown, usd


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 calls"), (1, "1 call"), (2, "2 calls"), (1200, "1,200 calls")]
)  # fmt: skip
def test_a_count_agrees_with_its_noun(count: int, text: str) -> None:
    assert plural(count, "call") == text


def test_amounts_below_a_dollar_have_three_digits() -> None:
    """A run stopped by --max-usd 0.0999 said that 0.10 USD were spent."""
    amounts = {
        0: "0.00 USD", 0.00224: "0.00224 USD", 0.0022: "0.0022 USD", 0.0981: "0.0981 USD", 0.45: "0.45 USD",
        0.235: "0.235 USD", 0.1: "0.10 USD", 0.9996: "1.00 USD", 1.985: "1.99 USD", 1234.5: "1,234.50 USD",
    }  # fmt: skip
    assert {amount: usd(amount) for amount in amounts} == amounts


def test_a_share_is_none_or_all_only_if_it_is() -> None:
    """216 equal verdicts of 217 were 100 %."""
    shares = {
        0.0: "0%", 1.0: "100%", 216 / 217: "99.5%", 0.9996: "99.96%", 0.004: "0.4%", 0.0004: "0.04%", 0.42: "42%",
        1 - 1e-9: "100%", 1e-9: "0%",
    }  # fmt: skip
    assert {share: percent(share) for share in shares} == shares
    assert [percent(share, 1) for share in (0.5, 1.0, 0.9996, 0.0)] == ["50.0%", "100.0%", "99.96%", "0.0%"]


def test_a_signed_number_that_rounds_to_0_has_no_minus() -> None:
    """ "-0.000" is a rise or a fall that no digit shows."""
    texts = {path: path.read_text() for folder in ("collector", "evaluators") for path in Path(folder).rglob("*.py")}
    assert [str(path) for path, text in texts.items() if ":+." in text] == [], "write :+z. instead"
    assert (f"{-0.0004:+z.3f}", f"{-0.0004:z.2f}") == ("+0.000", "0.00")


def test_irregular_plurals() -> None:
    assert [plural(n, "process", "processes") for n in (1, 2)] == ["1 process", "2 processes"]
    assert [plural(n, "series", "series") for n in (1, 2)] == ["1 series", "2 series"]


def test_lists_of_names() -> None:
    assert [listed(names) for names in (["a"], ["a", "b"], ["a", "b", "c"])] == ["a", "a and b", "a, b and c"]


@pytest.mark.parametrize(
    ("name", "known", "says"),
    [
        ("lenght", ["latency", "length"], "did you mean 'length'?"),
        ("Main", ["main"], "did you mean 'main'?"),
        ("foo", ["receive", "assemble"], "choose from receive, assemble"),
        ("", ["receive"], "choose from receive"),
        ("foo", [], "none is defined"),
    ],
)
def test_suggestions(name: str, known: list[str], says: str) -> None:
    assert suggestion(name, known) == says


def test_an_unknown_name() -> None:
    assert unknown("stage", "foo", ["receive"]) == "unknown stage 'foo'; choose from receive"


class Sample(BaseModel):
    text: str = ""
    port: int = Field(default=1, ge=1, le=9)
    names: tuple[str, ...] = Field(default=("a",), min_length=1)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"text": 1}, "must be a string"),
        ({"port": 0}, "must be at least 1"),
        ({"port": 10}, "must be at most 9"),
        ({"port": "x"}, "must be a whole number"),
        ({"names": "a"}, "must be an array"),
        ({"names": []}, "must have at least 1 item"),
    ],
)
def test_what_a_value_must_be(values: dict[str, object], says: str) -> None:
    with pytest.raises(ValidationError) as raised:
        Sample.model_validate(values)
    assert requirement(raised.value.errors()[0]) == says


def test_of_many_names_the_nearest_are_listed() -> None:
    """An unknown kind of evaluator listed 69 kinds on one line of 1,100 characters."""
    names = [f"{letter}{letter}{letter}" for letter in "abcdefghijklmnopq"]
    assert suggestion("qqzzzz", names).startswith("choose from qqq, ")
    assert suggestion("qqzzzz", names).endswith(" or 7 more")
    assert suggestion("zz", names[:10]) == f"choose from {', '.join(names[:10])}"
