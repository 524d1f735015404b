"""JSON Schemas for kubeconform, without a network: Kubernetes' own from a package, those of others from their CRDs."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

KUBERNETES = "1.34.0"
KINDS = {
    "configmap-v1": "v1",
    "deployment-apps-v1": "apps",
    "networkpolicy-networking-v1": "networking.k8s.io",
    "poddisruptionbudget-policy-v1": "policy",
    "service-v1": "v1",
    "serviceaccount-v1": "v1",
    "statefulset-apps-v1": "apps",
}
"""The package's name of a schema, and the API group in full; kubeconform calls the core group v1."""
_DEFINITIONS = "/api/_definitions.json#/$defs/"


def write_schemas(folder: Path, crds: Path) -> str:
    """Write a schema per kind; gives the location in kubeconform's form. Unknown keys are errors in all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    shipped = files("kubernetes_validate") / "kubernetes-json-schema" / f"v{KUBERNETES}-local-strict"
    definitions = json.loads((shipped / "_definitions.json").read_text())["$defs"]
    for kind, group in KINDS.items():
        schema = {**json.loads((shipped / f"{kind}.json").read_text()), "$defs": definitions}
        itself = json.loads(json.dumps(schema).replace(_DEFINITIONS, "#/$defs/"))
        _write(folder, kind.partition("-")[0], group, kind.rpartition("-")[2], itself)
    for path in sorted(crds.glob("*.yaml")):
        for crd in yaml.safe_load_all(path.read_text()):
            _write_crd(folder, crd["spec"])
    return f"{folder}/{{{{.ResourceKind}}}}_{{{{.Group}}}}_{{{{.ResourceAPIVersion}}}}.json"


def _write_crd(folder: Path, spec: dict[str, Any]) -> None:
    for version in spec["versions"]:
        schema = _closed(version["schema"]["openAPIV3Schema"])
        schema["properties"]["metadata"] = {"type": "object"}
        _write(folder, spec["names"]["kind"].lower(), spec["group"], version["name"], schema)


def _closed(schema: Any) -> Any:
    """The schema with unknown keys forbidden, as the API server prunes them without a word."""
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: _closed(value) for key, value in schema.items()}
    is_open = "additionalProperties" in made or made.get("x-kubernetes-preserve-unknown-fields")
    if isinstance(made.get("properties"), dict) and made.get("type") == "object" and not is_open:
        made["additionalProperties"] = False
    if made.get("x-kubernetes-int-or-string"):
        made.pop("type", None)
    return made


def _write(folder: Path, kind: str, group: str, version: str, schema: dict[str, Any]) -> None:
    (folder / f"{kind}_{group}_{version}.json").write_text(json.dumps(schema))
