"""The benchmarks still run. What they measure is looked at by `make bench`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from collector.redact.patterns import find

RUN = Path(__file__).parents[1] / "bench" / "run.py"


@pytest.mark.slow
def test_the_benchmarks_run() -> None:
    done = subprocess.run([sys.executable, RUN, "--smoke"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.partition("\n")[0].endswith(", pure Python")
    for measured in (
        "judge path: g_eval with logprobs",
        "ingest: spans that are no model calls",
        "growth: turns judged, 16x",
    ):
        assert measured in done.stdout


@pytest.mark.parametrize(
    ("script", "status", "said"),
    [
        ("print(FIGURE)", 0, "1 aims, 1 missed:\n  ingest: spans: 9 µs, aim ≤ 4"),
        ("print(FIGURE.replace('}', ', \"at_least\": true}'))", 0, "1 aims, all reached"),
        ("print(FIGURE.replace('4.0', '9.5').replace('}', ', \"at_least\": true}'))", 0, "9 µs, aim ≥ 9.5"),
        ("print(FIGURE.replace('4.0', '9.0'))", 0, "1 aims, all reached"),
        ('print(\'{"left_out": "Kafka: no Java"}\')', 0, "left out: Kafka: no Java"),
        ("print(FIGURE)\nraise ValueError('broken')", 1, "ValueError: broken"),
    ],
    ids=[
        "a missed aim",
        "a reached lower bound",
        "a missed lower bound",
        "a reached aim",
        "a missing tool",
        "a script that fails",
    ],
)
def test_it_ends_with_1_only_when_a_script_failed(tmp_path: Path, script: str, status: int, said: str) -> None:
    figure = {"group": "ingest", "name": "spans", "unit": "µs", "repeats": [9.0], "aim": 4.0, "value": 9.0}
    path = tmp_path / "script.py"
    path.write_text(f"FIGURE = {json.dumps(figure)!r}\n{script}\n")
    replaced = f"import run, sys; run.SCRIPTS = {{'ingest': {str(path)!r}}}; sys.exit(run.main())"
    done = subprocess.run(
        [sys.executable, "-c", replaced, "--only", "ingest"],
        env=os.environ | {"PYTHONPATH": str(RUN.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    assert said in done.stdout


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("EMAIL", "write to ada.lovelace@example.org today"),
        ("CARD", "4111 1111 1111 1111"),
        ("IBAN", "DE89 3704 0044 0532 0130 00"),
        ("PHONE", "+49 30 901820"),
        ("PHONE", "(415) 555-2671"),
        ("PHONE", "0049 30 901820"),
        ("IP", "from 10.0.0.7"),
        ("IP", "2001:db8:0:0:0:0:2:1"),
        ("JWT", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"),
        ("PRIVATE_KEY", "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----"),
        ("KEY", "sk-proj-abcdefghijklmnop0123"),
        ("KEY", "AKIAIOSFODNN7EXAMPLE"),
        ("TOKEN", "Bearer abcdef0123456789abcdef"),
        ("SECRET", "password: hunter2hunter2"),
        ("SECRET", "postgres://ada:hunter2hunter2@db/shop"),
    ],
)
def test_the_collector_beside_us_has_interval_to_look_for_the_same_kinds(kind: str, text: str) -> None:
    code = f"""
import re2
from collector_redaction import PATTERNS
kinds = {{"IP": ("IPV4", "IPV6"), "SECRET": ("SECRET", "CREDENTIALS", "COOKIE")}}.get({kind!r}, ({kind!r},))
assert any(re2.search(pattern, {text!r}) for each in kinds for pattern in PATTERNS[each])  # Go's are of the same syntax
"""
    environment = os.environ | {"PYTHONPATH": str(RUN.parent)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert kind in {found.kind for found in find(text)}


def test_copies_of_captured_traffic_are_other_spans_of_the_same_turns() -> None:
    code = """
from stores import captured, copied, count
requests = captured()
once, twice = ([copied(each, copy, 10**18) for copy in range(copies) for each in requests] for copies in (1, 2))
first, second = count(once), count(twice)
assert first[1] > 100 and second == (2 * first[0], 2 * first[1]), (first, second)
"""
    environment = os.environ | {"PYTHONPATH": str(RUN.parent)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
