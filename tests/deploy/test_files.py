"""The compose file, the Collector's configurations, and the examples, checked by what reads them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tools import DEPLOY, run

from collector.config.loading import load
from collector.errors import ConfigError

SECURED = DEPLOY / "compose" / "secured-kafka.yaml"
EVALSTREAM = [*sorted((DEPLOY / "examples").glob("*.yaml")), DEPLOY / "compose" / "evalstream.yaml"]
ENVIRONMENT = {
    "OPENAI_API_KEY": "not-a-key",
    "PAGE_TOKEN": "not-a-token-but-long-enough",
    "GRAFANA_ADMIN_PASSWORD": "not-a-password",
}


@pytest.mark.parametrize("path", EVALSTREAM, ids=lambda path: path.stem)
def test_evalstream_takes_its_configurations(path: Path):
    done = subprocess.run(
        [sys.executable, "-m", "collector.cli", "check", "--offline", "-c", path],
        env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f"{path}: valid" in done.stdout
    assert "note " not in done.stdout


def test_the_example_of_a_secured_kafka_is_right_and_has_no_secret(tmp_path: Path):
    (tmp_path / "password").write_text("not-a-password")
    (tmp_path / "ca.pem").write_text("not an authority")
    files = {"KAFKA_PASSWORD_FILE": str(tmp_path / "password"), "KAFKA_CA_FILE": str(tmp_path / "ca.pem")}
    env = {**os.environ, **ENVIRONMENT, **files, "KAFKA_BROKERS": "broker.example.com:9093"}
    said = yaml.safe_load(run("docker-compose", "--file", DEPLOY / "compose.secured-kafka.yaml", "config", env=env))
    service = said["services"]["evalstream"]
    assert {each["source"] for each in service["secrets"]} == {"kafka-password", "kafka-ca"}
    assert "not-a-password" not in str(said)
    assert all(port["host_ip"] == "127.0.0.1" for port in service["ports"])
    settings = load(SECURED, service["environment"]).settings
    assert settings.log.kafka is not None
    security = settings.log.kafka.security
    assert security is not None
    assert (security.protocol, security.mechanism) == ("SASL_SSL", "SCRAM-SHA-512")
    mounted = {f"/run/secrets/{each['source']}" for each in service["secrets"]}
    assert {str(security.password_file), str(security.ca)} == mounted


def test_the_examples_are_of_each_kind():
    assert [path.stem for path in EVALSTREAM[:-1]] == ["agent", "chatbot", "rag"]


@pytest.mark.parametrize(
    "names", [["compose"], ["yours", "add-by-kafka"], ["yours", "add-by-otlp"]], ids=lambda names: names[-1]
)
def test_a_real_collector_takes_its_configurations(names: list[str]):
    options = [part for name in names for part in ("--config", DEPLOY / "collector" / f"{name}.yaml")]
    run("otelcol", "validate", *options)


def _compose() -> dict[str, dict[str, object]]:
    example = {**os.environ, **ENVIRONMENT}
    said = run(
        "docker-compose",
        "--file",
        DEPLOY / "compose.yaml",
        "--env-file",
        DEPLOY / ".env.example",
        "config",
        env=example,
    )
    return yaml.safe_load(said)


def test_compose_reads_its_file():
    services = _compose()["services"]
    assert set(services) == {
        "kafka", "topics", "collector", "evalstream", "rules", "prometheus", "alertmanager", "tempo", "tempo-volume", "grafana"
    }  # fmt: skip


def test_compose_opens_this_machine_only_and_mounts_what_exists():
    for service in _compose()["services"].values():
        assert all(port["host_ip"] == "127.0.0.1" for port in service.get("ports", []))
        assert re.search(r":v?\d+\.\d+", service["image"]), "a version is pinned"
        assert not service.get("user", "").startswith("0"), "no service is root"
        for volume in service.get("volumes", []):
            assert volume["type"] == "volume" or Path(volume["source"]).exists()


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("OPENAI_API_KEY", "put your key into"),
        ("PAGE_TOKEN", "make a token for the page"),
        ("GRAFANA_ADMIN_PASSWORD", "make a password for Grafana"),
    ],
)
def test_compose_asks_for_secrets(name: str, asked: str):
    env = {"PATH": os.environ["PATH"], **ENVIRONMENT, name: ""}
    with pytest.raises(AssertionError, match=asked):
        run("docker-compose", "--file", DEPLOY / "compose.yaml", "config", env=env)


def test_no_password_of_compose_is_known_and_no_image_moves():
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    for service in services.values():
        values = service.get("environment", {})
        secrets = [value for name, value in values.items() if re.search("PASSWORD|TOKEN|API_KEY", name)]
        assert all(":?" in value for value in secrets), "required, and without a default"
        assert re.search(r":v?\d+\.\d+\.\d+(?:@sha256:[0-9a-f]{64})?$", service["image"]), "an exact version is pinned"
    example = dict(re.findall(r"(?m)^(\w+)=(.*)$", (DEPLOY / ".env.example").read_text()))
    assert not any(example[name] for name in ENVIRONMENT)


def test_the_page_is_published_for_this_machine_and_takes_a_token():
    published = {port["target"]: port for port in _compose()["services"]["evalstream"]["ports"]}
    settings = load(DEPLOY / "compose" / "evalstream.yaml", ENVIRONMENT).settings
    assert settings.page is not None
    assert published[settings.page.port]["host_ip"] == "127.0.0.1"
    assert published[settings.page.port]["published"] == str(settings.page.port), "trace links and bookmarks name it"
    assert settings.page_auth is not None
    assert [token.get_secret_value() for token in settings.page_auth.tokens] == [ENVIRONMENT["PAGE_TOKEN"]]
    assert not settings.page.insecure
    grafana = _compose()["services"]["grafana"]["ports"][0]
    assert settings.page.trace_link is not None
    assert settings.page.trace_link.url == f"http://127.0.0.1:{grafana['published']}"
    with pytest.raises(ConfigError, match="PAGE_TOKEN is not set"):
        load(DEPLOY / "compose" / "evalstream.yaml", {"OPENAI_API_KEY": "not-a-key"})


def test_the_collector_writes_what_evalstream_reads():
    collector = yaml.safe_load((DEPLOY / "collector" / "compose.yaml").read_text())
    kafka = collector["exporters"]["kafka"]
    (source,) = load(DEPLOY / "compose" / "evalstream.yaml", ENVIRONMENT).settings.receive.kafka
    assert kafka["partition_traces_by_id"]
    assert (source.traces, source.logs) == ([kafka["traces"]["topic"]], [kafka["logs"]["topic"]])


def test_grafana_finds_what_is_provisioned():
    provisioning = DEPLOY / "grafana" / "provisioning"
    sources = yaml.safe_load((provisioning / "datasources" / "evalstream.yaml").read_text())["datasources"]
    by_uid = {each["uid"]: each for each in sources}
    services = _compose()["services"]
    assert all(each["url"].split("//")[1].split(":")[0] in services for each in sources)
    (link,) = by_uid["prometheus"]["jsonData"]["exemplarTraceIdDestinations"]
    assert link == {"name": "trace_id", "datasourceUid": "tempo"}
    (provider,) = yaml.safe_load((provisioning / "dashboards" / "evalstream.yaml").read_text())["providers"]
    mounted = {volume["target"]: volume["source"] for volume in services["grafana"]["volumes"]}
    assert list(Path(mounted[provider["options"]["path"]]).glob("evalstream-*.json"))


def test_prometheus_has_interval_where_evalstream_and_its_rules_are(tmp_path: Path):
    services = _compose()["services"]
    config = yaml.safe_load((DEPLOY / "compose" / "prometheus.yaml").read_text())
    (target,) = config["scrape_configs"][0]["static_configs"][0]["targets"]
    host, _, port = target.partition(":")
    assert host in services
    settings = yaml.safe_load((DEPLOY / "compose" / "evalstream.yaml").read_text())
    assert settings["export"]["prometheus"] == {"host": "0.0.0.0", "port": int(port)}
    assert "--enable-feature=exemplar-storage" in services["prometheus"]["command"]


def test_the_image_is_small_in_rights():
    dockerfile = (DEPLOY / "Dockerfile").read_text()
    assert re.search(r"^USER 10001:10001$", dockerfile, re.MULTILINE)
    assert "HEALTHCHECK" in dockerfile
    assert re.search(r"^ARG PYTHON=python:\d+\.\d+\.\d+-slim-\w+$", dockerfile, re.MULTILINE)
    service = _compose()["services"]["evalstream"]
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
