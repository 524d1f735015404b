"""Environments of their own for what tests run beside us: other platforms, other libraries. Nothing of ours needs them.

Each is what a `.txt` beside a `.in` names, everything in it pinned by hash; the command that made it is at its top.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def hashed_python(requirements: Path, *, within: Path = ROOT / ".cache" / "environments") -> Path | None:
    """An environment's interpreter, installed at the first use; None, with a sentence on stderr, where that fails.

    Tests run side by side in processes of their own: the first one installs, and the others wait for it.
    """
    folder = within / requirements.stem
    within.mkdir(parents=True, exist_ok=True)
    wanted = hashlib.sha256(requirements.read_bytes()).hexdigest()
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return folder / "bin" / "python" if _is_ready(folder, wanted) or _install(requirements, folder) else None


def _is_ready(folder: Path, wanted: str) -> bool:
    ready = folder / ".ready"
    return ready.exists() and ready.read_text() == wanted


def _install(requirements: Path, folder: Path) -> bool:
    uv = shutil.which("uv") or str(ROOT / ".tools" / "bin" / "uv")
    make = [uv, "venv", "-q", "--clear", "--python", sys.executable, folder]
    python = folder / "bin" / "python"
    install = [uv, "pip", "install", "-q", "--require-hashes", "--compile-bytecode", "--python", python]
    try:
        subprocess.run(make, check=True, capture_output=True)
        subprocess.run([*install, "-r", requirements], check=True, capture_output=True, timeout=600)
    except (OSError, subprocess.SubprocessError) as error:
        name = requirements.name
        print(f"{name} cannot be installed ({type(error).__name__}); its tests are skipped", file=sys.stderr)
        return False
    (folder / ".ready").write_text(hashlib.sha256(requirements.read_bytes()).hexdigest())
    return True
