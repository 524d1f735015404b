import pytest

from evaluators.judges.error_mapping import HttpStatusError, retry_after

NOON = 1_790_596_800.0  # 2026-09-28 12:00:00 UTC


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after": "Mon, 28 Sep 2026 12:01:30 GMT"}, 90.0),
        ({"retry-after": "Mon, 28 Sep 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "5s"}, 5.0),
        ({"x-ms-retry-after-ms": "1500"}, 1.5),
        ({"retry-after-ms": "junk", "retry-after": "2"}, 2.0),
    ],
)
def test_how_long_a_response_asks_to_wait(headers, seconds):
    assert retry_after(HttpStatusError(429, headers, b""), now=NOON) == seconds
