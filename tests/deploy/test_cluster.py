"""The chart in a real Kubernetes API server: every object is taken, as it is installed and as it is changed."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from api_server import ApiServer, Refused, running_api_server
from schemas import KUBERNETES
from tools import DEPLOY, run

CHART = DEPLOY / "helm" / "evalstream"
RULES = """
groups:
  - name: evalstream
    rules:
      - {alert: EvalstreamDown, expr: absent(up), labels: {severity: page}, annotations: {summary: "{{ $labels.job }} is down"}}
"""
PARTS: dict[str, dict[str, Any]] = {
    "monitors": {"serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}}},
    "rules": {"prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}, "rules": RULES}},
    "autoscaling": {"autoscaling": {"enabled": True}},
    "dashboards": {"dashboards": {"enabled": True}},
    "watch-and-page": {"stages": {"watch": {"enabled": True}, "page": {"enabled": True}}},
    "other-kinds": {
        "stages": {
            "receive": {"kind": "StatefulSet"}, "assemble": {"kind": "Deployment"}, "evaluate": {"kind": "Deployment"},
            "export": {"kind": "StatefulSet", "replicas": 2},
        }
    },
    "judging-only": {"stages": {"receive": {"enabled": False}, "assemble": {"enabled": False}}},
    "files": {
        "extraVolumes": [
            {"name": "kafka", "secret": {"secretName": "kafka"}},
            {"name": "golden", "configMap": {"name": "golden", "items": [{"key": "a", "path": "a.jsonl"}]}},
        ],
        "extraVolumeMounts": [
            {"name": "kafka", "mountPath": "/run/secrets/kafka", "readOnly": True},
            {"name": "golden", "mountPath": "/etc/golden"},
        ],
    },
    "secured-kafka": {
        "config": {
            "log": {
                "kafka": {
                    "security": {
                        "protocol": "SASL_SSL", "mechanism": "SCRAM-SHA-512", "username": "evalstream",
                        "password_file": "/run/secrets/kafka/password", "ca": "/run/secrets/kafka/ca.pem",
                    }
                }
            }
        },
        "networkPolicy": {"kafka": {"ports": [9093]}},
    },
    "bare": {
        "networkPolicy": {"enabled": False}, "podDisruptionBudget": {"enabled": False}, "serviceAccount": {"create": False},
        "secretEnv": [],
    },
    "placed": {
        "nodeSelector": {"kubernetes.io/arch": "arm64"},
        "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
                }
            }
        },
        "podAnnotations": {"team": "chat"}, "podLabels": {"team": "chat"}, "env": {"HTTPS_PROXY": "http://proxy:3128"},
    },
    "own-names": {
        "image": {"repository": "registry.example/evalstream", "digest": f"sha256:{'0' * 64}"},
        "imagePullSecrets": [{"name": "registry"}],
        "serviceAccount": {"name": "judge", "annotations": {"example.com/role": "judge"}},
        "service": {"otlpPort": 14318, "otlpGrpcPort": 14317, "metricsPort": 19464},
        "podDisruptionBudget": {"maxUnavailable": "25%"},
    },
}  # fmt: skip
"""What somebody may want of the chart, as values."""


def _merged(*values: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in values:
        for key, value in copy.deepcopy(each).items():
            before = found.get(key)
            found[key] = _merged(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return found


SETS = {
    "as-shipped": {},
    **PARTS,
    "everything": _merged(*(values for name, values in PARTS.items() if name not in ("bare", "judging-only"))),
}
"""Nothing, each part, and all that go together."""

PAIRS = {f"{one}-and-{other}": _merged(PARTS[one], PARTS[other]) for one, other in itertools.combinations(PARTS, 2)}


@pytest.fixture(scope="module")
def api() -> Iterator[ApiServer]:
    with running_api_server() as server:
        yield server


@pytest.fixture(scope="module")
def namespace(api: ApiServer) -> str:
    return api.namespace("prod")


def _written(folder: Path, name: str, values: dict[str, Any]) -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


def _rendered(folder: Path, name: str, values: dict[str, Any]) -> list[dict[str, Any]]:
    options = ("--namespace", "prod", "--kube-version", KUBERNETES, "--values", _written(folder, name, values))
    return [each for each in yaml.safe_load_all(run("helm", "template", "live", CHART, *options)) if each]


@pytest.mark.parametrize("name", [*SETS, *(pytest.param(pair, marks=pytest.mark.long) for pair in PAIRS)])
def test_the_server_takes_every_object(api: ApiServer, namespace: str, tmp_path: Path, name: str):
    """One after the other over the same objects: so each is a change of the one before, too."""
    for resource in _rendered(tmp_path, name, (SETS | PAIRS)[name]):
        _, warnings = api.apply(resource, namespace)
        assert not warnings, (resource["kind"], resource["metadata"]["name"])


def test_pods_of_every_workload_are_admitted_where_rights_are_restricted(
    api: ApiServer, namespace: str, tmp_path: Path
):
    resources = _rendered(tmp_path, "everything", SETS["everything"])
    for resource in resources:
        if resource["kind"] == "ServiceAccount":
            api.apply(resource, namespace)
    for resource in resources:
        if resource["kind"] in ("Deployment", "StatefulSet"):
            pod = {"apiVersion": "v1", "kind": "Pod", **resource["spec"]["template"]}
            pod["metadata"] = {**pod["metadata"], "name": resource["metadata"]["name"]}
            admitted, warnings = api.create(pod, namespace)
            assert not warnings
            assert not [each for each in admitted["spec"]["volumes"] if each["name"].startswith("kube-api-access")]


def test_what_is_wrong_is_refused(api: ApiServer, namespace: str, tmp_path: Path):
    """Else the tests above would show nothing."""
    resources = {each["kind"]: each for each in _rendered(tmp_path, "everything", SETS["everything"])}
    for kind, path, message in (
        ("Deployment", "spec.template.spec.containers.0.readinesProbe", "field not declared in schema"),
        ("ScaledObject", "spec.minReplicas", "field not declared in schema"),
        ("PodDisruptionBudget", "spec.maxUnavailible", "field not declared in schema"),
        ("ServiceMonitor", "spec.job", "field not declared in schema"),
        ("StatefulSet", "spec.serviceName", "spec: Forbidden: updates to statefulset spec"),
        ("NetworkPolicy", "spec.ingress.0.ports.0.protocol", "Unsupported value"),
    ):
        api.apply(resources[kind], namespace)
        wrong = copy.deepcopy(resources[kind])
        *way, last = path.split(".")
        at: Any = wrong
        for step in way:
            at = at[int(step) if step.isdigit() else step]
        at[last] = "other"
        with pytest.raises(Refused, match=message):
            api.apply(wrong, namespace)


def test_more_rights_are_refused(api: ApiServer, namespace: str, tmp_path: Path):
    (resource, *_) = [each for each in _rendered(tmp_path, "as-shipped", {}) if each["kind"] == "Deployment"]
    pod = {"apiVersion": "v1", "kind": "Pod", **resource["spec"]["template"]}
    pod["metadata"] = {**pod["metadata"], "name": "wrong"}
    pod["spec"]["serviceAccountName"] = "default"
    del pod["spec"]["containers"][0]["securityContext"]["capabilities"]
    with pytest.raises(Refused, match="unrestricted capabilities"):
        api.create(pod, namespace)


def test_helm_installs_changes_takes_back_and_removes_it(api: ApiServer, tmp_path: Path):
    """The way of a release, by helm itself; helm merges changes in its own way, and no field that cannot change does."""
    where = ("--namespace", api.namespace("release"), "--kubeconfig", api.kubeconfig)

    def objects() -> set[tuple[str, str]]:
        manifest = run("helm", "get", "manifest", "live", *where)
        return {(each["kind"], each["metadata"]["name"]) for each in yaml.safe_load_all(manifest) if each}

    run("helm", "install", "live", CHART, *where)
    first = objects()
    for name in ("everything", "placed", "own-names", "judging-only", "bare", "other-kinds", "autoscaling"):
        run("helm", "upgrade", "live", CHART, *where, "--values", _written(tmp_path, name, SETS[name]))
    run("helm", "rollback", "live", "1", *where)
    assert objects() == first
    for kind, names in (("deployments", {"receive", "export"}), ("statefulsets", {"assemble", "evaluate"})):
        found, _ = api.ask("GET", f"/apis/apps/v1/namespaces/release/{kind}")
        assert {each["metadata"]["name"] for each in found["items"]} == {f"live-evalstream-{name}" for name in names}
    scaled, _ = api.ask("GET", "/apis/keda.sh/v1alpha1/namespaces/release/scaledobjects")
    assert scaled["items"] == []
    run("helm", "uninstall", "live", *where)


def test_a_running_release_gets_a_new_version_of_the_chart(api: ApiServer, tmp_path: Path):
    """A version is in labels and never in selectors, which cannot change."""
    where = ("--namespace", api.namespace("upgraded"), "--kubeconfig", api.kubeconfig)
    run("helm", "install", "live", CHART, *where)
    packed = ("--version", "9.9.9", "--app-version", "9.9.9", "--destination", tmp_path)
    run("helm", "package", CHART, *packed)
    values = _written(tmp_path, "everything", SETS["everything"])
    run("helm", "upgrade", "live", tmp_path / "evalstream-9.9.9.tgz", *where, "--values", values)
    found, _ = api.ask("GET", "/apis/apps/v1/namespaces/upgraded/statefulsets")
    assert {each["metadata"]["labels"]["helm.sh/chart"] for each in found["items"]} == {"evalstream-9.9.9"}


def test_autoscaling_begins_with_the_pods_that_run_and_an_upgrade_leaves_them(api: ApiServer):
    where = ("--namespace", api.namespace("scaled"), "--kubeconfig", api.kubeconfig)
    path = "/apis/apps/v1/namespaces/scaled/statefulsets/live-evalstream-evaluate"

    def upgraded(switches: str) -> int:
        run("helm", "upgrade", "--install", "live", CHART, *where, "--set", switches)
        return api.ask("GET", path)[0]["spec"]["replicas"]

    assert upgraded("stages.evaluate.replicas=4") == 4
    assert upgraded("stages.evaluate.replicas=4,autoscaling.enabled=true") == 4
    api.ask("PATCH", path, {"spec": {"replicas": 7}}, "application/merge-patch+json")  # as KEDA does
    assert upgraded("stages.evaluate.replicas=4,autoscaling.enabled=true,image.tag=v2") == 7
    assert upgraded("stages.evaluate.replicas=4") == 4
