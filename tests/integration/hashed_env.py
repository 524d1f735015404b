"""Environments of their own for what tests run beside us: other platforms, other libraries. Nothing of ours needs them.

Each is what a `.txt` beside a `.in` names, everything in it pinned by hash; the command that made it is at its top.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def hashed_python(requirements: Path) -> Path | None:
    """An environment's interpreter, installed at the first use; None, with a sentence on stderr, where that fails."""
    folder = ROOT / ".cache" / "environments" / requirements.stem
    python, ready = folder / "bin" / "python", folder / ".ready"
    wanted = hashlib.sha256(requirements.read_bytes()).hexdigest()
    if ready.exists() and ready.read_text() == wanted:
        return python
    uv = shutil.which("uv") or str(ROOT / ".tools" / "bin" / "uv")
    try:
        subprocess.run(
            [uv, "venv", "-q", "--clear", "--python", sys.executable, folder], check=True, capture_output=True
        )
        install = [
            uv,
            "pip",
            "install",
            "-q",
            "--require-hashes",
            "--compile-bytecode",
            "--python",
            python,
            "-r",
            requirements,
        ]
        subprocess.run(install, check=True, capture_output=True, timeout=600)
    except (OSError, subprocess.SubprocessError) as error:
        name = requirements.name
        print(f"{name} cannot be installed ({type(error).__name__}); its tests are skipped", file=sys.stderr)
        return None
    ready.write_text(wanted)
    return python
