import pytest
from pydantic import TypeAdapter, ValidationError

from collector.durations import Seconds

DURATION = TypeAdapter(Seconds)


@pytest.mark.parametrize(
    ("written", "expected"),
    [("250ms", 0.25), ("10s", 10.0), ("15m", 900.0), ("1.5h", 5400.0), ("7d", 604800.0), (3, 3.0), (" 2 s ", 2.0)],
)
def test_reads_durations(written: object, expected: float) -> None:
    assert DURATION.validate_python(written) == expected


@pytest.mark.parametrize("written", ["ten", "10 parsecs", "-1s", -1, "", "1h30m"])
def test_refuses_the_rest(written: object) -> None:
    with pytest.raises(ValidationError):
        DURATION.validate_python(written)
