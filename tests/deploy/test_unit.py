"""The systemd unit, checked by systemd itself."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tools import DEPLOY

from collector.config.settings import EvaluateSettings

UNIT = DEPLOY / "systemd" / "evalstream.service"


def _analyzed(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze (Debian's package systemd)")
    return subprocess.run(["systemd-analyze", *map(str, arguments)], capture_output=True, text=True, check=False)


def test_systemd_reads_all_of_it(tmp_path: Path):
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/evalstream/bin/evalstream", "/bin/true"))
    done = _analyzed("verify", "--recursive-errors=no", unit)
    assert (done.returncode, done.stderr) == (0, "")
    unit.write_text(unit.read_text().replace("RestartSec", "RestartSecs"))
    assert "Unknown key 'RestartSecs'" in _analyzed("verify", "--recursive-errors=no", unit).stderr


def test_it_gives_away_little():
    done = _analyzed("security", "--offline=true", "--threshold=20", "--no-pager", UNIT)
    assert done.returncode == 0, done.stdout
    assert re.search(r"exposure level for evalstream.service: [01]\.\d OK", done.stdout)


def test_it_ends_in_time_and_is_reloaded_by_the_signal_that_the_service_knows():
    text = UNIT.read_text()
    (seconds,) = re.findall(r"(?m)^TimeoutStopSec=(\d+)$", text)
    assert int(seconds) > EvaluateSettings().shutdown_grace + 30
    assert re.search(r"(?m)^ExecReload=/bin/sh -c 'kill -HUP \$MAINPID'$", text)
