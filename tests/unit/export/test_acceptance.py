"""Answers with a status of success that are no acceptance."""

from __future__ import annotations

import orjson
import pytest

from collector.export.acceptance import no_acceptance, no_otlp
from evaluators.wire.http_client import HttpResponse


def answer(body: bytes, kind: str = "application/json", status: int = 200) -> HttpResponse:
    return HttpResponse(status, {"Content-Type": kind}, body)


@pytest.mark.parametrize(
    "body",
    [
        b"<!DOCTYPE html><title>Log in</title>",
        b"\xef\xbb\xbf\n <html lang=en>",
        b"Webhook message delivery failed with error: Microsoft Teams endpoint returned HTTP error 429",
        *(
            orjson.dumps(body)
            for body in (
                {"error": "no such project"},
                {"errors": [{"detail": "API key missing"}]},
                {"error_code": "INVALID_PARAMETER_VALUE", "message": "x"},
                {"errcode": 310000, "errmsg": "keywords not in content"},
                {"code": 19001, "msg": "param invalid"},
                {"ok": False, "error_code": 400},
                {"success": False},
                {"status": "error", "errorType": "bad_data"},
                {"statusCode": 502, "body": ""},
            )
        ),
    ],
)
def test_what_says_no(body):
    assert no_acceptance(answer(body)) is not None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"ok",
        b"1",
        b"[]",
        b"{cut",
        *(
            orjson.dumps(body)
            for body in (
                {},
                {"errors": [], "error": None, "code": 0, "status": "success", "ok": True},
                {"code": 200, "status": 200},
                {"data": [{"id": "x"}]},
                {"assessment": {"feedback": {"error": {"error_code": "E"}}}},
            )
        ),
    ],
)
def test_what_says_yes(body):
    assert no_acceptance(answer(body)) is None


def test_an_answer_for_each_part_says_which_are_taken():
    body = b'{"successes": [{"id": "a"}], "errors": [{"id": "b", "status": 400}]}'
    assert no_acceptance(answer(body, status=207)) is None


@pytest.mark.parametrize(
    ("body", "kind", "taken"),
    [
        (b"", "text/html", True),
        (b"", "", True),
        (b"\x0a\x00", "application/x-protobuf", True),
        (b"{}", "application/json; charset=utf-8", True),
        (b"Please log in", "text/plain", False),
        (b"<html>", "text/html; charset=utf-8", False),
        (b'{"error": "unauthorized"}', "application/json", False),
    ],
)
def test_an_otlp_endpoint(body, kind, taken):
    assert (no_otlp(answer(body, kind)) is None) is taken
