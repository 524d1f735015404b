"""The environment of platforms that run here for tests: real Phoenix and MLflow. Nothing of ours depends on it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / ".cache" / "platforms"
PACKAGES = ("arize-phoenix==20.26.1", "mlflow==3.17.2")


def platforms_python() -> Path | None:
    """Its interpreter, installed at the first use; None, with a sentence on stderr, where that fails."""
    python, ready = FOLDER / "bin" / "python", FOLDER / ".ready"
    wanted = "\n".join(PACKAGES)
    if ready.exists() and ready.read_text() == wanted:
        return python
    uv = shutil.which("uv") or str(Path(__file__).parents[2] / ".tools" / "bin" / "uv")
    try:
        subprocess.run(
            [uv, "venv", "-q", "--clear", "--python", sys.executable, FOLDER], check=True, capture_output=True
        )
        install = [uv, "pip", "install", "-q", "--python", python, *PACKAGES]
        subprocess.run(install, check=True, capture_output=True, timeout=600)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"the platforms cannot be installed ({type(error).__name__}); their tests are skipped", file=sys.stderr)
        return None
    ready.write_text(wanted)
    return python
