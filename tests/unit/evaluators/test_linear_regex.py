"""A pattern means for the linear-time engine what it means for Python."""

import re
import warnings

import pytest

from evaluators.texts.linear_regex import matches

PATTERNS = [
    r"(\w+\s?)*", r"a\Z", r"\bINV-\d{6}\b", r"a{,3}$", r"^[^\W\d_]+$", r"(?i)straße", r"(?s)a.b", r"a.b", r"[[&&]",
    r"x|", r"\bда\b", r"(?m)^b$", r"(a|b)*?c", r"[\s\S]{3}", r"[^\d\n]+é", r"(?i:Ab)c", r"(?a)\w+\Z", r"\.\*\\",
    r"(?P<n>a)b", r"[]^-]", r"\B-\B", r"a$", r"[^a]", r"\D\S", r"(?x) a  b # words", r"[a-f\-]+", r"\u00e9|\x41",
]  # fmt: skip
TEXTS = [
    "", "a", "INV-123456", "xINV-123456", " aaa", "é", "STRASSE", "STRAßE", "a\nb", "axb", "[", "&", "да нет", "неда",
    "a\nb\n", "abc", "ABc", "Abc", "wört", "a.*\\", "ab", "]", "^", " - ", "x²", "हिन्दी", "abc é", "\u2028", "\x1c", "١٢٣",
]  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_what_python_matches(pattern):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of Python: [[ may mean something else one day
        for flags in (0, re.IGNORECASE):
            compiled = re.compile(pattern, flags)
            for text in TEXTS:
                assert matches(pattern, text, ignore_case=bool(flags)) == bool(compiled.search(text)), text
                whole = matches(pattern, text, ignore_case=bool(flags), whole=True)
                assert whole == bool(compiled.fullmatch(text)), text


def test_a_lone_surrogate_does_no_harm():
    assert matches("a", "\ud800a")


def test_at_the_end_means_before_the_last_line_break_too():
    assert matches("a$", "a\n")
    assert not matches(r"a\Z", "a\n")
