"""Services of a compose file as containers of podman: what Docker does with them, as far as these files use it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from tools import DEPLOY, run

RESTRICTED = {"read_only": True, "cap_drop": ["ALL"], "security_opt": ["no-new-privileges:true"]}
"""The rights that `containers.RIGHTS` gives."""


def service_of(file: str, name: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """A service as compose reads it."""
    said = yaml.safe_load(run("docker-compose", "--file", DEPLOY / file, "config", env=environment))
    return {**said["services"][name], "secrets_by_name": said.get("secrets", {})}


def options_of(service: Mapping[str, Any], mounts: Mapping[str, Path]) -> tuple[str, ...]:
    """How podman is to run it; `mounts` has what stands on this machine in place of its volumes, by their targets."""
    assert {key: service[key] for key in RESTRICTED} == RESTRICTED
    variables = [f"--env={name}={value}" for name, value in service["environment"].items()]
    volumes = [f"--volume={mounts.get(each['target'], each.get('source'))}:{each['target']}{_ro(each)}"
               for each in service["volumes"]]  # fmt: skip
    secrets = [
        f"--volume={service['secrets_by_name'][each['source']]['file']}:/run/secrets/{each['source']}:ro"
        for each in service.get("secrets", [])
    ]
    return (*(f"--tmpfs={place}" for place in service["tmpfs"]), *variables, *volumes, *secrets)


def _ro(volume: Mapping[str, Any]) -> str:
    return ":ro" if volume.get("read_only") else ""


def with_addresses(file: Path, written: Path, addresses: Mapping[str, str]) -> Path:
    """A copy of a configuration with this machine's addresses, and every conversation judged."""
    text = file.read_text()
    for ours, here in {**addresses, "sample: 0.1": "sample: 1"}.items():
        assert ours in text
        text = text.replace(ours, here)
    written.write_text(text)
    return written
