"""The image as deploy/Dockerfile makes it, and containers of it, by podman and runc: no Docker, and nothing pulled.

Images and containers are in a store of their own, which is removed at the end; EVALSTREAM_TEST_IMAGES names a folder to
keep them in, so that the next build is quick. The base stands in for the official one of
Python: Debian's, with Debian's Python, and with systemd, which starts in it as on a machine.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tools import DEPLOY, ROOT

BASE = ROOT / ".cache" / "image" / "base.tar"
"""Stored between runs; remove it to have it made from Debian's present packages."""
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
NEEDED = ("podman", "runc", "mmdebstrap")
HERE = ("--network=host", "--health-interval=disable", "--ulimit=nofile=4096:4096", "--ulimit=nproc=4096:4096")
"""Health is asked by the tests. The limits are some that nobody has to raise."""
RIGHTS = (*HERE, "--read-only", "--cap-drop=all", "--security-opt=no-new-privileges")
"""As the chart's pods have them."""


@dataclass(frozen=True, slots=True)
class Container:
    """One that runs by itself."""

    store: Store
    name: str

    def healthy(self) -> bool:
        """Whether the image's own health check passes."""
        return self.store.podman("healthcheck", "run", self.name).returncode == 0

    def stop(self, within: int) -> int:
        """SIGTERM, after `within` seconds SIGKILL; the exit status (137 for one that was killed)."""
        self.store.did("stop", f"--time={within}", self.name)
        return int(self.store.did("inspect", "--format={{.State.ExitCode}}", self.name))

    def asked(self, *command: str) -> str:
        """What a command in it prints, whether it fails or not."""
        done = self.store.podman("exec", self.name, *command)
        return (done.stdout + done.stderr).strip()

    def did(self, *command: str) -> str:
        """What a command in it prints; that it fails is a failure."""
        return self.store.did("exec", self.name, *command)

    def log(self) -> str:
        """What it wrote."""
        done = self.store.podman("logs", self.name)
        return done.stdout + done.stderr


@dataclass(frozen=True, slots=True)
class Store:
    """Images and containers under one folder."""

    folder: Path
    image: str = "localhost/evalstream:test"
    _environment: Mapping[str, str] = field(default_factory=lambda: {"PATH": os.environ["PATH"], "HOME": "/root"})

    def podman(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """One command of podman."""
        overlay = "overlay" in Path("/proc/filesystems").read_text()
        options = (
            f"--root={self.folder}/root", f"--runroot={self.folder}/run", f"--tmpdir={self.folder}/tmp",
            f"--storage-driver={'overlay' if overlay else 'vfs'}",
            "--cgroup-manager=cgroupfs", "--events-backend=none", "--runtime=runc", "--log-level=fatal",
        )  # fmt: skip
        return subprocess.run(
            ["podman", *options, *map(str, arguments)],
            env=dict(self._environment), capture_output=True, text=True, check=False,
        )  # fmt: skip

    def did(self, *arguments: str | Path) -> str:
        """What a command prints; that it fails is a failure."""
        done = self.podman(*arguments)
        assert done.returncode == 0, f"podman {arguments}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout.strip()

    def build(self) -> None:
        """The base, and the image over it. Who reaches registries by authorities of this machine does so there, too."""
        trusts = [f"--change=ENV {name}={CERTIFICATES}" for name in ("PIP_CERT", "SSL_CERT_FILE")]
        self.did("import", *trusts, BASE, "localhost/python:test")
        self.did(
            "build", "--format=docker", "--isolation=chroot", "--network=host", "--build-arg=PYTHON=localhost/python:test",
            f"--ignorefile={DEPLOY / 'Dockerfile.dockerignore'}", f"--file={DEPLOY / 'Dockerfile'}",
            f"--tag={self.image}", ROOT,
        )  # fmt: skip

    def described(self) -> Any:
        """What the image says of itself."""
        (found,) = json.loads(self.did("image", "inspect", self.image))
        return found

    def run(
        self, *arguments: str | Path, options: Sequence[str] = (), entrypoint: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of the image to its end."""
        entry = [f"--entrypoint={entrypoint}"] if entrypoint else []
        return self.podman("run", "--rm", *RIGHTS, *options, *entry, self.image, *arguments)

    @contextmanager
    def running(self, *arguments: str, options: Sequence[str] = ()) -> Iterator[Container]:
        """Start the image as it starts by itself."""
        yield from self._detached(*RIGHTS, *options, self.image, *arguments)

    @contextmanager
    def machine(self, *options: str) -> Iterator[Container]:
        """A machine that systemd has started, with evalstream where the documents install it."""
        image = f"--mount=type=image,source={self.image},destination=/image"
        rights = ("--privileged", "--systemd=always", "--stop-signal=RTMIN+3")
        for container in self._detached(
            *HERE, *rights, image, *options, "localhost/python:test", "/lib/systemd/systemd"
        ):
            _wait_until_started(container)
            container.did("ln", "-s", "/image/opt/evalstream", "/opt/evalstream")
            yield container

    def _detached(self, *arguments: str) -> Iterator[Container]:
        container = Container(self, self.did("run", "--detach", *arguments))
        try:
            yield container
        finally:
            self.podman("rm", "--force", "--time=0", "--volumes", container.name)


def _wait_until_started(machine: Container) -> None:
    give_up_at = time.monotonic() + 90
    while (said := machine.asked("systemctl", "is-system-running")) not in ("running", "degraded"):
        assert time.monotonic() < give_up_at, said
        time.sleep(0.5)


@contextmanager
def built() -> Iterator[Store]:
    """The image, built; a test that needs it is skipped where that cannot be."""
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"needs root, and Debian's packages {', '.join(NEEDED)}")
    if not BASE.exists():
        _make_base()
    kept = os.environ.get("EVALSTREAM_TEST_IMAGES")
    store = Store(Path(kept or tempfile.mkdtemp(prefix="evalstream-image-")))
    try:
        store.build()
        yield store
    finally:
        if not kept:
            subprocess.run(["umount", store.folder / "root" / "overlay"], capture_output=True, check=False)
            shutil.rmtree(store.folder, ignore_errors=True)


def _make_base() -> None:
    BASE.parent.mkdir(parents=True, exist_ok=True)
    half = BASE.with_suffix(f".{os.getpid()}.tar")
    done = subprocess.run(
        [
            "mmdebstrap", "--quiet", "--mode=root", "--variant=apt", "--include=python3,python3-venv,ca-certificates,systemd",
            f"--customize-hook=copy-in {CERTIFICATES} {Path(CERTIFICATES).parent}",
            "bookworm", str(half),
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    half.rename(BASE)
