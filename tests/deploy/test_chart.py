"""The Helm chart, linted, rendered and checked by the real tools."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
import yaml
from schemas import KUBERNETES, write_schemas
from tools import BUILT, DEPLOY, run, tool

from collector.config.live_part import LIVE
from collector.config.loading import check
from collector.config.yaml_file import substitute
from collector.telemetry.series import CONSUMER_LAG_RECORDS, EVALUATIONS_RUNNING

CHART = DEPLOY / "helm" / "evalstream"
STAGES = ("receive", "assemble", "evaluate", "export")
SOURCE = "config.receive.kafka[0].bootstrap_servers={k:9092},config.receive.kafka[0].traces={spans}"
LOGIN = "config.log.kafka.security.protocol=SASL_SSL,config.log.kafka.security.mechanism=PLAIN"
RULES = """
groups:
  - name: evalstream
    rules:
      - {alert: EvalstreamDown, expr: absent(up), labels: {severity: page}, annotations: {summary: "{{ $labels.job }} is down"}}
"""


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    rules = tmp_path_factory.mktemp("rules") / "evalstream.rules.yml"
    rules.write_text(RULES)
    on = ["serviceMonitor", "prometheusRule", "autoscaling", "dashboards"]
    switches = ",".join(f"{each}.enabled=true" for each in on)
    return ("--set", switches, "--set-file", f"prometheusRule.rules={rules}")


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory) -> str:
    tool("kubeconform")
    return write_schemas(tmp_path_factory.mktemp("schemas"), BUILT / "crds")


@cache
def _rendered(*options: str) -> str:
    return run(
        "helm", "template", "live", CHART, "--namespace", "prod", "--kube-version", KUBERNETES, *options
    )  # fmt: skip


def _resources(options: Sequence[str] = ()) -> dict[tuple[str, str], Any]:
    found = [each for each in yaml.safe_load_all(_rendered(*options)) if each]
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


def _pods(options: Sequence[str] = ()) -> dict[str, Any]:
    workloads = [each for (kind, _), each in _resources(options).items() if kind in ("Deployment", "StatefulSet")]
    return {each["metadata"]["labels"]["app.kubernetes.io/component"]: each for each in workloads}


def test_stages_that_must_be_one_are_never_two_and_reach_what_they_need(location: str):
    options = ("--set", "stages.watch.enabled=true,stages.page.enabled=true")
    pods = _pods(options)
    for stage in ("watch", "page"):
        spec = pods[stage]["spec"]
        assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    resources = _resources(options)
    config = check(
        substitute(
            yaml.safe_load(resources["ConfigMap", "live-evalstream"]["data"]["Deployment.yaml"]),
            "Deployment",
            {"OPENAI_API_KEY": "x", "POD_NAME": "pod-0", "POD_NAMESPACE": "team"},
        ),
        "Deployment",
    )
    assert config.settings.page is not None
    assert config.settings.page.host == "127.0.0.1"
    (rule,) = resources["NetworkPolicy", "live-evalstream-watch"]["spec"]["egress"]
    assert rule["ports"] == [{"protocol": "TCP", "port": 9093}]
    run("kubeconform", "-strict", "-schema-location", location, "-", given=_rendered(*options))


@pytest.mark.parametrize("left", ["otlp", "otlp-grpc", ""])
def test_a_receiver_that_is_removed_has_no_port(left: str):
    """Pods that read Kafka alone listened on no port of OTLP, and a Service and the network policy led there."""
    names = {"otlp": "otlp_http", "otlp-grpc": "otlp_grpc"}
    removed = ",".join(f"config.receive.{key}=null" for name, key in names.items() if name != left)
    options = ("--set", f"{SOURCE},{removed}")
    (container,) = _pods(options)["receive"]["spec"]["template"]["spec"]["containers"]
    assert {each["name"] for each in container["ports"]} == {"metrics", left} - {""}
    resources = _resources(options)
    service = resources.get(("Service", "live-evalstream"))
    assert [each["name"] for each in service["spec"]["ports"]] == [left] if left else service is None
    policy = resources.get(("NetworkPolicy", "live-evalstream-receive"))
    assert [each["port"] for each in policy["spec"]["ingress"][0]["ports"]] == [left] if left else policy is None


def test_pods_reach_the_brokers_that_the_configuration_names():
    """Over TLS they listen on another port than the usual one."""
    sources = [{"bootstrap_servers": ["other:9094"], "traces": ["spans"]}, {"bootstrap_servers": ["${env:BROKER}"]}]
    brokers = {"log": {"kafka": {"bootstrap_servers": ["a:9093", "b:9093"]}}, "receive": {"kafka": sources}}
    egress = _resources(("--set-json", f"config={json.dumps(brokers)}"))["NetworkPolicy", "live-evalstream"]["spec"][
        "egress"
    ]
    assert [each["port"] for each in egress[1]["ports"]] == [9092, 9093, 9094]


def _notes(folder: Path, config: dict[str, Any], *options: str) -> list[str]:
    chart = folder / "evalstream"  # `helm template` renders no notes
    if not chart.exists():
        copytree(CHART, chart)
        notes = (chart / "templates" / "NOTES.txt").read_text()
        template = f'{{{{ define "notes" }}}}{notes}{{{{ end }}}}notes: {{{{ include "notes" . | toJson }}}}'
        (chart / "templates" / "notes.yaml").write_text(template)
    values = ("--kube-version", KUBERNETES, "--set-json", f"config={json.dumps(config)}", *options)
    rendered = yaml.safe_load(run("helm", "template", "live", chart, "-s", "templates/notes.yaml", *values))
    return rendered["notes"].splitlines()


def test_an_address_on_a_port_that_the_network_policy_closes_is_named(tmp_path: Path):
    """A judge on port 24010 was rendered without a word, and no pod reached it."""
    urls = {
        "closed": "http://judge.ml.svc:24010/v1", "plain": "http://judge.example.com/v1", "six": "http://[fd00::7]:81",
        "open": "https://judge.example.com/v1", "own": "http://127.0.0.1:8000", "unknown": "${env:JUDGE_URL}",
        "secret": "https://user:pass@judge.example.com:444/v1",
    }  # fmt: skip
    config = {
        "judges": {name: {"model": "m", "base_url": url} for name, url in urls.items()} | {"main": None},
        "export": {"otlp": {"endpoint": "http://collector:4319"}, "spans": {}},
    }

    def notes_of(*options: str) -> list[str]:
        return _notes(tmp_path, config, *options)

    def blocked_by(*options: str) -> list[str]:
        return [line for line in notes_of(*options) if line.startswith("The network policy blocks ")]

    blocked = {
        "export.otlp.endpoint": "collector:4319", "judges.closed.base_url": "judge.ml.svc:24010",
        "judges.plain.base_url": "judge.example.com:80", "judges.secret.base_url": "judge.example.com:444",
        "judges.six.base_url": "[fd00::7]:81",
    }  # fmt: skip
    assert blocked_by() == [
        f"The network policy blocks config.{key}, {where}: add {where.rpartition(':')[2]} to "
        "networkPolicy.outside.ports, and a peer if the address is private."
        for key, where in blocked.items()
    ]
    assert "Send OTLP/HTTP to http://live-evalstream.default.svc:4318" in notes_of()
    for without in ("stages.receive.enabled=false", "config.receive.otlp_http=null"):
        assert "Send OTLP" not in str(notes_of("--set", without)), "then there is no such port"
    assert not blocked_by("--set", "networkPolicy.enabled=false")
    assert not blocked_by("--set-json", "networkPolicy.outside.ports=[80,81,443,444,4319,24010]")


def test_files_for_every_pod(location: str):
    options = (
        "--set", "extraVolumes[0].name=kafka,extraVolumes[0].secret.secretName=kafka",
        "--set", "extraVolumeMounts[0].name=kafka,extraVolumeMounts[0].mountPath=/run/secrets/kafka",
    )  # fmt: skip
    for pod in _pods(options).values():
        spec = pod["spec"]["template"]["spec"]
        assert {"name": "kafka", "secret": {"secretName": "kafka"}} in spec["volumes"]
        assert {"name": "kafka", "mountPath": "/run/secrets/kafka"} in spec["containers"][0]["volumeMounts"]
    run("kubeconform", "-strict", "-schema-location", location, "-", given=_rendered(*options))


def test_lint():
    run("helm", "lint", "--strict", CHART)


def test_every_resource_is_what_kubernetes_takes(everything: tuple[str, ...], location: str):
    said = run(
        "kubeconform",
        "-strict",
        "-summary",
        "-output",
        "json",
        "-schema-location",
        location,
        "-",
        given=_rendered(*everything),
    )
    summary = json.loads(said)["summary"]
    assert summary == {"valid": len(_resources(everything)), "invalid": 0, "errors": 0, "skipped": 0}


def test_a_misspelt_field_would_be_found(everything: tuple[str, ...], location: str):
    for right, wrong in (("maxUnavailable", "maxUnavailible"), ("minReplicaCount", "minReplicas"), ("jobLabel", "job")):
        with pytest.raises(AssertionError, match=wrong):
            run(
                "kubeconform",
                "-strict",
                "-schema-location",
                location,
                "-",
                given=_rendered(*everything).replace(right, wrong),
            )


def test_one_workload_per_stage_with_all_its_things(everything: tuple[str, ...]):
    resources = _resources(everything)
    assert set(_pods(everything)) == set(STAGES)
    kinds = [kind for kind, _ in resources]
    assert kinds.count("PodDisruptionBudget") == 4
    assert kinds.count("ConfigMap") == 1 + 4
    assert kinds.count("NetworkPolicy") == 2
    for kind in ("ServiceMonitor", "PrometheusRule", "ScaledObject", "ServiceAccount"):
        assert kinds.count(kind) == 1
    assert not [kind for kind in kinds if kind == "Secret"]


@pytest.mark.parametrize("stage", STAGES)
def test_pods_may_do_nothing_that_they_need_not(stage: str):
    pod = _pods()[stage]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["automountServiceAccountToken"] is False
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["limits"]["memory"]
    assert container["args"][-2:] == ["--stages", stage]


def test_secrets_are_references():
    for workload in _pods().values():
        env = {each["name"]: each for each in workload["spec"]["template"]["spec"]["containers"][0]["env"]}
        key = env["OPENAI_API_KEY"]["valueFrom"]["secretKeyRef"]
        assert key == {"name": "evalstream", "key": "openai-api-key"}


def test_what_no_pod_would_have_is_noted(tmp_path: Path):
    """Variables and files that nothing sets, and topics without a stage that reads them, were rendered without a word."""
    files = {"ca": "/run/secrets/kafka/ca.pem", "password_file": "/run/secrets/kafka2/password"}
    security = {"protocol": "SASL_SSL", "mechanism": "PLAIN", "username": "me", **files}
    config = {
        "log": {"kafka": {"security": security, "prefix": "${env:PREFIX:-evalstream}"}},
        "judges": {"main": {"model": "${env:MODEL}-${env:SIZE}", "base_url": "${env:URL}"}},
        "receive": {"kafka": [{"bootstrap_servers": ["k:9092"], "traces": ["spans"]}]},
    }
    mount = "extraVolumeMounts[0].mountPath=/run/secrets/kafka,extraVolumeMounts[0].name=kafka"
    secret = "secretEnv[0].name=SIZE,secretEnv[0].secret=a,secretEnv[0].key=b"
    notes = _notes(tmp_path, config, "--set", f"env.MODEL=m,{mount},{secret},stages.receive.enabled=false")
    assert [line for line in notes if line.startswith(("config has", "No pod"))] == [
        "No pod of this release reads the topics of config.receive.kafka: stages.receive.enabled is false.",
        "config has ${env:OPENAI_API_KEY}, which neither secretEnv nor env sets: without it no pod starts.",
        "config has ${env:URL}, which neither secretEnv nor env sets: without it no pod starts.",
        "config has /run/secrets/kafka2/password, which is on no volume of extraVolumeMounts: unless the image or the cluster provides it, no pod starts.",
    ]
    assert not [line for line in _notes(tmp_path, {}) if line.startswith(("config has", "No pod"))]


def test_a_file_on_no_mount_is_noted_for_every_key_of_files(tmp_path: Path):
    """Only paths below /run/secrets were noted: a certificate at /etc/kafka was not."""
    config = {
        "golden": {"path": "/golden/cases.jsonl"},
        "judges": {"main": {"model": "m", "api_key_file": "/keys/judge", "tls": {"ca": "/etc/judge/ca.pem"}}},
        "log": {
            "kafka": {
                "security": {
                    "protocol": "SSL",
                    "ca": "/etc/kafka/ca.pem",
                    "certificate": "/mounted/me.pem",
                    "key": "/mounted/me.key",
                }
            }
        },
        "plugins": "/plugins",
    }
    mount = "extraVolumeMounts[0].mountPath=/mounted,extraVolumeMounts[0].name=kafka"
    noted = [line.split()[2] for line in _notes(tmp_path, config, "--set", mount) if "extraVolumeMounts" in line]
    assert sorted(noted) == [
        "/etc/judge/ca.pem,", "/etc/kafka/ca.pem,", "/golden/cases.jsonl,", "/keys/judge,", "/plugins,",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_the_configuration_it_makes_is_right(kind: str):
    (config_map,) = [each for (kind_, _), each in _resources().items() if kind_ == "ConfigMap"]
    values = yaml.safe_load(config_map["data"][f"{kind}.yaml"])
    config = check(
        substitute(values, kind, {"OPENAI_API_KEY": "x", "POD_NAME": "pod-0", "POD_NAMESPACE": "team"}), kind
    )
    kafka = config.settings.log.kafka
    assert kafka is not None
    assert kafka.group_instance_id == ("team.pod-0" if kind == "StatefulSet" else None)
    receive = config.settings.receive
    assert receive.otlp_http is not None
    assert receive.otlp_grpc is not None
    assert [(each.host, each.port) for each in (receive.otlp_http, receive.otlp_grpc)] == [
        ("0.0.0.0", 4318),
        ("0.0.0.0", 4317),
    ]


def test_a_change_of_configuration_rolls_the_pods_out():
    def sums(*options: str) -> set[str]:
        return {
            each["spec"]["template"]["metadata"]["annotations"]["checksum/config"] for each in _pods(options).values()
        }

    assert sums().isdisjoint(sums("--set", "config.log.kafka.session_timeout=30s"))
    assert sums().isdisjoint(sums("--set", "config.alerts.watcher.interval=30s"))


def test_a_change_that_a_running_pod_takes_restarts_none():
    def sums(*options: str) -> set[str]:
        return {
            each["spec"]["template"]["metadata"]["annotations"]["checksum/config"] for each in _pods(options).values()
        }

    assert sums() == sums("--set", "config.monitors.everything.sample=0.2")
    restarting = (DEPLOY / "helm" / "evalstream" / "templates" / "_names.tpl").read_text().partition("omit $config")[2]
    assert set(re.findall(r'"(\w+)"', restarting.partition(")")[0])) == set(LIVE)


def test_rules_keep_their_placeholders(everything: tuple[str, ...]):
    (rule,) = [each for (kind, _), each in _resources(everything).items() if kind == "PrometheusRule"]
    assert rule["spec"] == yaml.safe_load(RULES)
    assert "{{ $labels.job }}" in str(rule["spec"])


def test_keda_scales_what_is_there(everything: tuple[str, ...]):
    resources = _resources(everything)
    (scaled,) = [each for (kind, _), each in resources.items() if kind == "ScaledObject"]
    target = scaled["spec"]["scaleTargetRef"]
    assert "replicas" not in resources[target["kind"], target["name"]]["spec"]
    queries = [trigger["metadata"]["query"] for trigger in scaled["spec"]["triggers"]]
    assert [re.findall(r"evalstream_\w+", query) for query in queries] == [
        [CONSUMER_LAG_RECORDS.name],
        [EVALUATIONS_RUNNING.name],
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        "stages.evaluate.kind=DaemonSet",
        "image.digest=latest",
        "config.log.kind=sqlite",
        "service.otlpPort=0",
        "stages.watch.replicas=2",
        "replicaCount=3",
        "config.monitor.everything.sample=0.1",
        "config.monitors.everything.sampel=0.1",
        "config.judges.main.base_ulr=http://x",
        "config.evaluators.helpful.criterai=x",
        "config.evaluators.helpful.kind=g_evla",
        "config.export.promehteus.port=1",
        "config.log.kafka.security.pasword=x",
        "config.page.prot=1",
    ],
)
def test_the_schema_refuses(wrong: str):
    with pytest.raises(AssertionError, match="values don't meet the specifications of the schema"):
        _rendered("--set", wrong)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ("config.export.prometheus.port=9470", "service.metricsPort: 9464; remove it, and set service.metricsPort"),
        (
            "config.export.prometheus.port=0",
            "config.export.prometheus.port: 0 is not the port of the chart's containers",
        ),
        ("config.receive.otlp_http.port=4320", "service.otlpPort: 4318; remove it, and set service.otlpPort"),
        ("config.receive.otlp_grpc.port=4320", "service.otlpGrpcPort: 4317; remove it, and set service.otlpGrpcPort"),
        ("config.page.port=8080", "config.page.port: 8080 is not 8321"),
        ("config.export.prometheus.host=127.0.0.1", "reached by nothing outside the pod"),
        ("config.receive.otlp_http.host=localhost", "reached by nothing outside the pod"),
        (
            "config.log.kafka.group_instance_id=foo",
            "config.log.kafka.group_instance_id: foo would be the id of every pod",
        ),
        (
            f"{SOURCE},config.receive.kafka[0].group_instance_id=foo",
            "config.receive.kafka[0].group_instance_id: foo would",
        ),
        ("stages.page.enabled=true,config.page=null", "config.page: null would leave the pod of stages.page without"),
        ("config.evaluate.shutdown_grace=2m", "config.evaluate.shutdown_grace: 2m is not shorter than"),
        ("config.evaluate.shutdown_grace=60", "is not shorter than terminationGracePeriodSeconds: 60, so Kubernetes"),
        ("terminationGracePeriodSeconds=20", "config.evaluate.shutdown_grace: 20s is not shorter than"),
        ("config.evaluate=null,terminationGracePeriodSeconds=20", "config.evaluate.shutdown_grace: 20s is not shorter"),
        ("stages.export.replicas=17", "stages.export.replicas: 17 is more than config.log.kafka.partitions: 16"),
        (
            "config.log.kafka.partitions=8,stages.evaluate.replicas=20",
            "stages.evaluate.replicas: 20 is more than config.log.kafka.partitions: 8, and a pod without",
        ),
        ("config.log.kafka.partitions=8,autoscaling.enabled=true", "autoscaling.maxReplicas: 16 is more than"),
        (
            "config.monitors.chat.evaluators={helpfull}",
            "config.monitors.chat.evaluators: helpfull is not in config.evaluators, which has helpful",
        ),
        ("config.monitors.chat.evaluators[0].name=helpfull", "config.monitors.chat.evaluators: helpfull is not in"),
        (
            "config.evaluators.helpful=null",
            "config.monitors.everything.evaluators: helpful is not in config.evaluators, which has none",
        ),
        ("config.export.jsonl.path=scores.jsonl", "config.export.jsonl.path: scores.jsonl is on no volume"),
        (
            "config.export.jsonl.path=/kept2/scores.jsonl,extraVolumeMounts[0].mountPath=/kept,extraVolumeMounts[0].name=kept",
            "config.export.jsonl.path: /kept2/scores.jsonl is on no volume",
        ),
        (
            f"{LOGIN},config.log.kafka.security.password=geheim",
            "config.log.kafka.security.password: all who may read the ConfigMap could read this secret; put it into a",
        ),
        (
            f"{SOURCE},config.receive.kafka[0].security.protocol=SASL_SSL,config.receive.kafka[0].security.password=x",
            "config.receive.kafka[0].security.password: all who may read the ConfigMap",
        ),
        ("config.judges.main.api_key=sk-1", "that secretEnv names, and write ${env:NAME}"),
        ("config.receive.otlp_http.auth.tokens={0123456789abcdef}", "config.receive.otlp_http.auth.tokens[0]: all who"),
        ("config.redact.key=0123456789abcdef", "config.redact.key: all who may read"),
    ],
)
def test_a_pasted_file_that_pods_could_not_run_with_is_refused(wrong: str, sentence: str):
    with pytest.raises(AssertionError, match=re.escape(sentence)):
        _rendered("--set", wrong)


@pytest.mark.parametrize(
    "right",
    [
        "service.metricsPort=9470,config.export.prometheus.port=9470",
        "config.export.prometheus.host=::",
        "config.receive.otlp_http=null",
        "config.log.kafka.group_instance_id=null",
        "config.log.kafka.group_instance_id=judges-${env:POD_NAME}",
        "config.evaluate.shutdown_grace=59.5s",
        "config.evaluate.shutdown_grace=900ms,terminationGracePeriodSeconds=1",
        "config.evaluate.shutdown_grace=${env:GRACE}",
        "config.judges.main.api_key=EMPTY",
        f"{LOGIN},config.log.kafka.security.password=${{env:KAFKA_PASSWORD}}",
        f"{LOGIN},config.log.kafka.security.password=null",
        "stages.assemble.replicas=16,autoscaling.maxReplicas=20",
        "stages.evaluate.replicas=20,autoscaling.enabled=true",
        "stages.export.replicas=20,stages.export.enabled=false",
        "config.log.kafka.partitions=${env:PARTITIONS}",
        "config.monitors.chat.evaluators[0].name=helpful",
        "config.monitors.chat.evaluators[0]=${env:CHOSEN}",
        "config.export.jsonl.path=/dev/stdout",
        "config.export.jsonl.path=/kept/a/scores.jsonl,extraVolumeMounts[0].mountPath=/kept,extraVolumeMounts[0].name=kept",
        "config.export.jsonl.path=/a.jsonl,extraVolumeMounts[0].mountPath=/a.jsonl,extraVolumeMounts[0].name=file",
    ],
)
def test_a_pasted_file_that_pods_can_run_with_is_taken(right: str):
    _rendered("--set", right)


@pytest.mark.parametrize(
    "right",
    [
        "config.page.port=${env:PORT}",
        "config.judges.main.base_url=${env:URL}",
        "config.monitors.everything.idle_timeout=15m",
        "config.plugins=/plugins,config.evaluators.helpful.kind=mine",
        "config.evaluators.own.kind=package.module:Class",
    ],
)
def test_the_schema_takes_what_check_takes(right: str):
    if "plugins" in right:
        kind = {"criteria": None, "evaluation_params": None, "kind": "mine"}
        _rendered("--set", "config.plugins=/plugins", "--set-json", f"config.evaluators.helpful={json.dumps(kind)}")
        return
    _rendered("--set", right)


def test_every_value_is_explained_or_plain():
    """Each top-level key of the values is in the schema: a misspelt one is refused."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert set(values) == set(schema["properties"]) - {"global"}


def test_a_pod_restarts_only_when_it_does_not_answer_and_gets_no_work_while_its_log_cannot_be_written():
    for pod in _pods().values():
        (container,) = pod["spec"]["template"]["spec"]["containers"]
        assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "metrics"}
        assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "metrics"}
