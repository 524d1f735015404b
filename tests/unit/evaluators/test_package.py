import subprocess
import sys

import pytest

import evaluators


def test_every_public_name_can_be_had():
    for name in evaluators.__all__:
        assert getattr(evaluators, name) is not None
    assert dir(evaluators) == evaluators.__all__ == sorted(evaluators.__all__)


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="no attribute"):
        _ = evaluators.Nothing


@pytest.mark.parametrize(
    ("name", "absent"),
    [("", ("pydantic", "openai", "evaluators.judge")), (".GEval", ("openai", "aiohttp", "json_repair"))],
)
def test_nothing_heavy_is_imported_unasked(name, absent):
    code = f"import sys, evaluators; evaluators{name}; print(*(set({absent!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
