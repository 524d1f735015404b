import subprocess
import sys

import pytest

import evaluators
from evaluators.catalogue import load_evaluators


def test_every_public_name_can_be_had():
    for name in evaluators.__all__:
        assert getattr(evaluators, name) is not None
    assert dir(evaluators) == evaluators.__all__ == sorted(evaluators.__all__)


def test_every_evaluator_is_a_public_name():
    names = {cls.__name__ for cls in load_evaluators().values() if cls.__module__.startswith("evaluators.")}
    assert len(names) >= 31
    assert names <= set(evaluators.__all__)


def test_the_package_is_imported_in_no_time():
    """CPU seconds of the import alone, the least of three: another process may have the caches."""
    code = "import time; began = time.process_time(); import evaluators; print(time.process_time() - began)"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout for _ in range(3)]
    assert min(map(float, runs)) < 0.05


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
