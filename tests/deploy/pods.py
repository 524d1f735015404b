"""Pods of the rendered chart as containers: what a node does with a pod's specification, as far as the chart uses it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Resources = Mapping[tuple[str, str], Any]
"""By kind and name."""


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod of a workload."""

    name: str
    spec: Mapping[str, Any]
    resources: Resources

    @property
    def container(self) -> Mapping[str, Any]:
        """Its only container."""
        (only,) = self.spec["containers"]
        return only

    def options(self, folder: Path, secrets: Mapping[tuple[str, str], str]) -> tuple[str, ...]:
        """How podman is to run it: as whom, with which variables and mounts; `folder` holds its volumes."""
        user = self.spec["securityContext"]
        mounts = [self._mount(each, folder) for each in self.container["volumeMounts"]]
        variables = [f"--env={each['name']}={self._value(each, secrets)}" for each in self.container["env"]]
        return (f"--user={user['runAsUser']}:{user['runAsGroup']}", *mounts, *variables)

    def probe(self, kind: str) -> str:
        """The address that a probe asks."""
        asked = self.container[kind]["httpGet"]
        ports = {each["name"]: each["containerPort"] for each in self.container["ports"]}
        return f"http://127.0.0.1:{ports[asked['port']]}{asked['path']}"

    def _mount(self, mount: Mapping[str, Any], folder: Path) -> str:
        (volume,) = [each for each in self.spec["volumes"] if each["name"] == mount["name"]]
        place = folder / self.name / mount["name"]
        place.mkdir(parents=True)
        if "configMap" in volume:
            for name, text in self.resources["ConfigMap", volume["configMap"]["name"]]["data"].items():
                (place / name).write_text(text)
        else:
            assert volume["emptyDir"] == {}
            place.chmod(0o777)
        return f"--volume={place}:{mount['mountPath']}:{'ro' if mount.get('readOnly') else 'rw'}"

    def _value(self, variable: Mapping[str, Any], secrets: Mapping[tuple[str, str], str]) -> str:
        if "value" in variable:
            return variable["value"]
        source = variable["valueFrom"]
        if "secretKeyRef" in source:
            return secrets[source["secretKeyRef"]["name"], source["secretKeyRef"]["key"]]
        return {"metadata.name": self.name, "metadata.namespace": "prod"}[source["fieldRef"]["fieldPath"]]


def first_pod(resources: Resources, stage: str) -> Pod:
    """The first pod of a stage's workload."""
    (workload,) = [
        each
        for (kind, _), each in resources.items()
        if kind in ("Deployment", "StatefulSet") and each["metadata"]["labels"]["app.kubernetes.io/component"] == stage
    ]
    return Pod(f"{workload['metadata']['name']}-0", workload["spec"]["template"]["spec"], resources)
