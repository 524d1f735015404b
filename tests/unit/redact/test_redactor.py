"""What is taken out of texts, what stays, and what a failing detector leads to."""

from __future__ import annotations

import json
import re
import time

import pytest

from collector.errors import ConfigError
from collector.redact.finding import Finding, merged
from collector.redact.patterns import configured, find
from collector.redact.redactor import Numbering, RedactionFailed, Redactor

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
PRIVATE_KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7\nabc\n-----END RSA PRIVATE KEY-----"

SECRETS = [
    ("EMAIL", "ada.lovelace+notes@mail.example.co.uk"),
    ("EMAIL", "jörg@example.de"),
    ("PHONE", "+49 30 901820"),
    ("PHONE", "+49 (0)30 9018-200"),
    ("PHONE", "(415) 555-2671"),
    ("PHONE", "415-555-2671"),
    ("PHONE", "+14155552671"),
    ("PHONE", "0049 30 901820"),
    ("PHONE", "030 9018200"),
    ("CARD", "4111 1111 1111 1111"),
    ("CARD", "5555555555554444"),
    ("CARD", "4222222222222"),
    ("CARD", "6034480000000000002"),
    ("CARD", "3782-822463-10005".replace("-", "")),
    ("IBAN", "DE89 3704 0044 0532 0130 00"),
    ("IBAN", "GB82WEST12345698765432"),
    ("IBAN", "no9386011117947"),
    ("IP", "203.0.113.7"),
    ("IP", "2001:db8::8a2e:370:7334"),
    ("JWT", JWT),
    ("PRIVATE_KEY", PRIVATE_KEY),
    ("KEY", "sk-proj-abcdefghijklmnop1234"),
    ("KEY", "AKIAIOSFODNN7EXAMPLE"),
    ("KEY", "ghp_" + "a1B2" * 9),
    ("KEY", "xoxb-123456789012-abcdefghij"),
    ("KEY", "AIza" + "x" * 35),
]

HARMLESS = [
    "Version 3.11.2 of 2024-09-19 12:30:45 has 1,234,567 users and 99.9 % of 10.000.000.",
    "order 1726752000123456789, id 550e8400-e29b-41d4-a716-446655440000, 4111 1111 1111 1112",
    "The password is checked by the server; a token is a word. The key idea: keep it simple.",
    "at 12:30:45 we saw std::vector and a::b, ratio 3:2:1, IPv4 127.0.0.1",
    "DE00370400440532013000 is no account. 2019-2021, 1990-01-01 to 2020-12-31.",
    "3.14159265358979 1e-10 0x1234567890abcdef 1234567890",
    "user@localhost @mention a@b",
]


def redactor(*detectors, count=lambda _kind, _count: None) -> Redactor:
    return Redactor(detectors or (find,), b"a key", count)


@pytest.mark.parametrize(
    ("kind", "secret"), SECRETS, ids=[f"{kind}-{number}" for number, (kind, _) in enumerate(SECRETS)]
)
@pytest.mark.parametrize("around", ["{}", "write to {}.", "({})", "it is {}, and more words", '"{}"'])
def test_what_is_taken_out(kind, secret, around):
    text = redactor().text(around.format(secret))

    before, after = map(re.escape, around.split("{}"))
    assert re.fullmatch(rf"{before}<{kind}_[a-z2-7]{{8}}>{after}", text), "all of it, and nothing else"


@pytest.mark.parametrize("text", HARMLESS)
def test_what_stays(text):
    assert redactor().text(text) == text


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("Authorization: Bearer abcdefghijklmnopqrstuvwxyz012345", "abcdefghijklmnop"),
        ("postgres://ada:hunter2hunter@db.example.com/x", "hunter2hunter"),
        ("password: correct-horse", "correct-horse"),
        ("my password is hunter2222", "hunter2222"),
        ('{"api_key": "0123456789abcdef"}', "0123456789abcdef"),
        ("export CLIENT_SECRET=abc123def456", "abc123def456"),
    ],
)
def test_secrets_by_what_stands_before_them(text, secret):
    assert secret not in redactor().text(text)


def test_the_same_thing_has_the_same_pseudonym_however_it_is_spelt():
    one = redactor().text("card 4111 1111 1111 1111")
    two = redactor().text("card 4111-1111-1111-1111")

    assert one == two
    assert Redactor((find,), b"another key").text("card 4111 1111 1111 1111") != one


def test_redacting_again_changes_nothing():
    once = redactor().text("ada@example.com and +49 30 901820, password: hunter2222")

    assert redactor().text(once) == once


def test_json_stays_json_and_escapes_hide_nothing():
    text = json.dumps([{"role": "user", "content": "ada@example.com", "card": 4111111111111111, "n": [1, 2.5, True]}])
    hidden = text.replace("@", "\\u0040")

    for each in (text, hidden):
        value = json.loads(redactor().text(each))
        assert value[0]["content"].startswith("<EMAIL_")
        assert value[0]["card"].startswith("<CARD_")
        assert value[0]["n"] == [1, 2.5, True]


def test_json_inside_json():
    arguments = json.dumps({"to": "ada@example.com"})
    text = json.dumps({"tool_calls": [{"arguments": arguments}]})

    inner = json.loads(json.loads(redactor().text(text))["tool_calls"][0]["arguments"])
    assert inner["to"].startswith("<EMAIL_")


def test_json_without_anything_to_take_out_is_the_same_text():
    text = '{ "a" : [1.0, 12345678901234567890123, "text"] }'

    assert redactor().text(text) == text


def test_a_private_key_without_its_end_goes_to_the_end():
    text = redactor().text("here: -----BEGIN PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7")

    assert "MIIE" not in text


def test_numbers_in_the_order_of_appearance_within_a_case():
    text = redactor().value({"a": "x@example.com and y@example.com", "b": ["y@example.com", "+49 30 901820"]})

    assert Numbering().value(text) == {"a": "<EMAIL_1> and <EMAIL_2>", "b": ["<EMAIL_2>", "<PHONE_1>"]}


def test_counts_by_kind():
    counted = {}
    redactor(count=lambda kind, count: counted.update({kind: counted.get(kind, 0) + count})).text(
        "a@example.com b@example.com +49 30 901820"
    )

    assert counted == {"EMAIL": 2, "PHONE": 1}


def test_a_failing_detector_fails_closed_and_says_nothing_of_the_text():
    def broken(_text):
        raise ValueError("the text was: ada@example.com")

    with pytest.raises(RedactionFailed) as raised:
        redactor(find, broken).text("ada@example.com")

    assert "ada" not in str(raised.value)
    assert raised.value.__cause__ is None


def test_what_is_nested_too_deeply_is_not_let_through():
    value = "ada@example.com"
    for _ in range(200):
        value = [value]

    with pytest.raises(RedactionFailed):
        redactor().value(value)


def test_overlapping_findings_become_one():
    assert merged([Finding(5, 9, "B"), Finding(0, 6, "A"), Finding(20, 22, "C"), Finding(3, 3, "D")]) == [
        Finding(0, 9, "A"),
        Finding(20, 22, "C"),
    ]


def test_patterns_of_ones_own():
    detector = configured({"EMPLOYEE": r"\bE\d{6}\b", "CUSTOMER": r"customer (?P<value>\w{1,20})"})

    text = redactor(detector).text("E123456 asks for customer ada")
    assert Numbering().value(text) == "<EMPLOYEE_1> asks for customer <CUSTOMER_1>"


@pytest.mark.parametrize("pattern", ["(", "a*"])
def test_patterns_that_make_no_sense(pattern):
    with pytest.raises(ConfigError, match=r"redact\.patterns\.X"):
        configured({"X": pattern})


@pytest.mark.parametrize(
    "piece",
    [
        "a",
        "1",
        "a@",
        "a.",
        "1 ",
        "1-",
        "0 1",
        "1.",
        ":",
        "eyJ",
        "eyJa.",
        "sk-",
        "DE89 ",
        "password=",
        "+1 (",
        "a:a:",
        "-----BEGIN PRIVATE KEY-----",
        "://a:",
        "[",
        '{"a":',
        "bearer ",
        "A1",
        "x@y.",
    ],
)
def test_no_text_is_slow(piece):
    text = (piece * 40_000)[:40_000]
    started = time.perf_counter()

    redactor().text(text)

    assert time.perf_counter() - started < 0.5
