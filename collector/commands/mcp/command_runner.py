"""Read-only commands of evalstream, each in its own process with a deadline."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_DEADLINE = 120.0
"""Seconds."""
_LONGEST = 100_000
"""Characters of an answer; an agent reads no more of it at once."""


class CommandRunner:
    """Runs commands with one configuration file."""

    def __init__(self, config: Path) -> None:
        self._config = config

    async def run(self, command: str, options: Mapping[str, str | None], flags: Sequence[str] = ()) -> str:
        """A command's output, with its error message if it fails. Values are no options, whatever they begin with."""
        words = [f"{name}={value}" for name, value in options.items() if value is not None]
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "collector.cli", command, f"--config={self._config}", *words, *flags,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        try:
            async with asyncio.timeout(_DEADLINE):
                written, _ = await process.communicate()
        except TimeoutError:
            return f"`evalstream {command}` took longer than {_DEADLINE:g} s and was ended; narrow what you ask"
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        text = written.decode(errors="replace").strip()
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}\n[cut after {_LONGEST:,} characters]"
