"""The image: built as deploy/Dockerfile says, run with the rights of a pod, and attacked."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from broker import Broker, free_ports
from broker_security import grant, set_password
from composed import options_of, service_of, with_addresses
from containers import Container, Store, built
from faulty_judge import Faults, FaultyJudge
from kafka import KafkaAdminClient, KafkaProducer
from kafka_logs import fresh
from made_up import Trace, chat
from pods import Pod, first_pod
from schemas import KUBERNETES
from stand_in_judge import serve_judge
from tools import DEPLOY, run

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

STAGES = ("receive", "assemble", "evaluate", "export")
INSTALLED = """
import importlib.metadata, json
print(json.dumps({each.metadata["Name"].lower().replace("_", "-"): each.version for each in importlib.metadata.distributions()}))
"""
EXTENSIONS = """
import importlib, os, pathlib, site
for root in (*site.getsitepackages(), os.path.dirname(os.__file__) + "/lib-dynload"):
    for path in pathlib.Path(root).rglob("*.so"):
        name = ".".join(path.relative_to(root).with_name(path.name.partition(".")[0]).parts)
        if ".libs." not in name and "_test" not in name:
            importlib.import_module(name)
            print(name)
"""
WRITABLE = """
import os
for root, folders, _ in os.walk("/"):
    folders[:] = [each for each in folders if (root, each) not in {("/", "proc"), ("/", "sys"), ("/", "dev"), ("/", "run"), ("/var", "tmp")}]
    if os.access(root, os.W_OK):
        print(root)
"""
COMPILED = "import collector.assemble.turns as a, collector.otlp.decode as b; print(a.__file__, b.__file__)"
OF_COMPILERS = """
import os, re
for root, folders, files in os.walk("/"):
    folders[:] = [each for each in folders if (root, each) not in {("/", "proc"), ("/", "sys")}]
    print(*(f"{root}/{each}" for each in files if re.search(r"^(cc1.*|.*-gcc(-\\d+)?|collect2|mypyc?|Python\\.h|crt1\\.o)$", each)))
"""
AUTHORITIES = "import ssl; print(ssl.create_default_context().cert_store_stats()['x509_ca'])"


@pytest.fixture(scope="module")
def image() -> Iterator[Store]:
    with built() as store:
        yield store


def _configured(folder: Path, judge: str, **changes: Any) -> tuple[str, str, tuple[str, ...]]:
    """The addresses for OTLP and metrics, and the options that mount a configuration and a folder for /data."""
    otlp, metrics = free_ports(2)
    values = {
        "log": {"kind": "sqlite", "path": "/data/evalstream.db"},
        "receive": {"otlp_http": {"port": otlp}},
        "assemble": {"idle_timeout": "200ms", "allowed_lateness": "5s"},
        "judges": {"stand-in": {"model": "stand-in", "base_url": judge}},
        "evaluators": {
            "helpful": {
                "kind": "g_eval",
                "criteria": "Does the actual output answer the input?",
                "evaluation_params": ["input", "actual_output"],
            }
        },
        "monitors": {"all": {"evaluators": ["helpful"]}},
        "export": {"prometheus": {"port": metrics}},
    }
    path = folder / "evalstream.yaml"
    path.write_text(yaml.safe_dump(values | changes))
    data = folder / "data"
    data.mkdir()
    data.chmod(0o777)
    options = (f"--volume={path}:/etc/evalstream/evalstream.yaml:ro", f"--volume={data}:/data")
    environment = f"--env=EVALSTREAM_METRICS_PORT={metrics}"
    return f"http://127.0.0.1:{otlp}", f"http://127.0.0.1:{metrics}/metrics", (*options, environment)


def _send(address: str) -> None:
    trace = Trace(start=time.time_ns())
    trace.span(1, "chat", chat("What is the capital of France?", "The capital of France is Paris."))
    for piece in trace.pieces():
        request = urllib.request.Request(
            f"{address}/v1/{piece.signal}", data=piece.value, headers={"Content-Type": "application/x-protobuf"}
        )
        with urllib.request.urlopen(request, timeout=5) as answer:
            assert answer.status == 200


async def _until_healthy(container: Container) -> None:
    async with asyncio.timeout(60):
        while not await asyncio.to_thread(container.healthy):
            await asyncio.sleep(0.2)


async def _until_scored(metrics: str) -> str:
    """The line of Prometheus with a score, once there is one."""
    async with asyncio.timeout(60):
        while True:
            text = await asyncio.to_thread(lambda: urllib.request.urlopen(metrics, timeout=5).read().decode())
            found = re.search(r'^gen_ai_evaluation_score_count\{.*evaluator="helpful".*\} 1\.0$', text, re.MULTILINE)
            if found:
                return found[0]
            await asyncio.sleep(0.2)


@pytest.mark.parametrize("user", ["10001:10001", "1000660000:0"], ids=["its-own", "any"])
async def test_a_span_becomes_a_score_on_a_read_only_root_without_rights(image: Store, tmp_path: Path, user: str):
    async with serve_judge() as judge:
        otlp, metrics, options = _configured(tmp_path, judge)
        with image.running(options=(*options, f"--user={user}")) as container:
            await _until_healthy(container)
            await _until_answered(metrics.replace("/metrics", "/readyz"), container)
            await asyncio.to_thread(_send, otlp)
            await _until_scored(metrics)
            begun = time.monotonic()
            assert await asyncio.to_thread(container.stop, 30) == 0, container.log()
            assert time.monotonic() - begun < 20
    assert (tmp_path / "data" / "evalstream.db").stat().st_uid == int(user.partition(":")[0])


async def test_pods_of_the_chart_work_together(image: Store, tmp_path: Path, own_broker: Broker):
    """Every stage in a container of its own, as the chart specifies its pod, over a real Kafka."""
    async with serve_judge() as judge, contextlib.AsyncExitStack() as stack:
        ports = dict(zip((*STAGES, "otlp", "grpc"), free_ports(len(STAGES) + 2), strict=True))
        pods = {stage: _rendered_pod(tmp_path, stage, own_broker.bootstrap, judge, ports) for stage in STAGES}
        containers: dict[str, Container] = {}
        for stage, pod in pods.items():
            options = pod.options(tmp_path, {("evalstream", "openai-api-key"): "not-a-key"})
            containers[stage] = stack.enter_context(image.running(*pod.container["args"], options=options))
        for stage, pod in pods.items():
            await _until_answered(pod.probe("startupProbe"), containers[stage])
            await _until_answered(pod.probe("readinessProbe"), containers[stage])
        await asyncio.to_thread(_send, f"http://127.0.0.1:{ports['otlp']}")
        await _until_scored(f"http://127.0.0.1:{ports['export']}/metrics")
        for stage, pod in pods.items():
            grace = pod.spec["terminationGracePeriodSeconds"]
            assert await asyncio.to_thread(containers[stage].stop, grace) == 0, containers[stage].log()


async def _scores_a_span_of_a_topic(container: Container, bootstrap: str, metrics: str) -> None:
    """Send a span to the topic of the Collector, wait for its score, and stop the container."""
    await _until_answered(metrics.replace("/metrics", "/readyz"), container)
    trace = Trace(start=time.time_ns())
    trace.span(1, "chat", chat("What is the capital of France?", "The capital of France is Paris."))
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for piece in trace.pieces():
        producer.send("otlp_spans", piece.value)
    await asyncio.to_thread(producer.close)
    await _until_scored(metrics)
    assert await asyncio.to_thread(container.stop, 60) == 0, container.log()


def _create_topics(bootstrap: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics({name: {"num_partitions": 2, "replication_factor": 1} for name in ("otlp_spans", "otlp_logs")})
    admin.close()


async def test_compose_starts_evalstream_and_makes_rules(image: Store, tmp_path: Path, own_broker: Broker):
    """The services `rules` and `evalstream` of compose.yaml, with its rights, variables and volumes, over a real Kafka."""
    metrics, page = free_ports(2)
    addresses = {"kafka:9092": own_broker.bootstrap, "9464": str(metrics), "8321": str(page)}
    file = with_addresses(DEPLOY / "compose" / "evalstream.yaml", tmp_path / "evalstream.yaml", addresses)
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules").chmod(0o777)
    mounts = {"/etc/evalstream/evalstream.yaml": file, "/data": tmp_path / "rules"}
    _create_topics(own_broker.bootstrap)
    async with serve_judge() as judge:
        secrets = {"OPENAI_API_KEY": "k", "PAGE_TOKEN": "t" * 32, "GRAFANA_ADMIN_PASSWORD": "p"}
        environment = {"PATH": os.environ["PATH"], "OPENAI_BASE_URL": judge, **secrets}
        rules = service_of("compose.yaml", "rules", environment)
        done = image.run(*rules["command"], options=options_of(rules, mounts))
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "rules" / "evalstream.rules.yml").exists()
        service = service_of("compose.yaml", "evalstream", environment)
        with image.running(options=options_of(service, mounts)) as container:
            await _scores_a_span_of_a_topic(container, own_broker.bootstrap, f"http://127.0.0.1:{metrics}/metrics")


async def test_compose_starts_evalstream_over_a_secured_kafka(image: Store, tmp_path: Path, secured_broker: Broker):
    """compose.secured-kafka.yaml: TLS and SCRAM with its secrets, and no more rights than the documentation names."""
    assert secured_broker.certificates is not None
    metrics, page = free_ports(2)
    prefix, user, plain = fresh("composed"), fresh("user"), secured_broker.bootstrap
    ours = {"prefix: evalstream": f"prefix: {prefix}", "replication_factor: 3": "replication_factor: 1"}
    ports = {"9464": str(metrics), "8321": str(page)}
    file = with_addresses(DEPLOY / "compose" / "secured-kafka.yaml", tmp_path / "evalstream.yaml", {**ours, **ports})
    (tmp_path / "password").write_text("right\n")
    set_password(plain, user, "right")
    grant(plain, user, "TOPIC", f"{prefix}.", "READ", "WRITE", "CREATE", "DESCRIBE_CONFIGS")
    grant(plain, user, "TOPIC", "otlp_spans", "READ")
    grant(plain, user, "GROUP", f"{prefix}.", "READ")
    _create_topics(plain)
    async with serve_judge() as judge:
        environment = {
            "PATH": os.environ["PATH"],
            "KAFKA_BROKERS": secured_broker.secure, "KAFKA_USER": user, "GROUP_INSTANCE": fresh("one"),
            "KAFKA_PASSWORD_FILE": str(tmp_path / "password"), "KAFKA_CA_FILE": str(secured_broker.certificates.ca),
            "OPENAI_API_KEY": "k", "OPENAI_BASE_URL": judge, "PAGE_TOKEN": "t" * 32,
        }  # fmt: skip
        service = service_of("compose.secured-kafka.yaml", "evalstream", environment)
        options = options_of(service, {"/etc/evalstream/evalstream.yaml": file})
        with image.running(options=options) as container:
            await _scores_a_span_of_a_topic(container, plain, f"http://127.0.0.1:{metrics}/metrics")


def _rendered_pod(folder: Path, stage: str, kafka: str, judge: str, ports: Mapping[str, int]) -> Pod:
    """A node gives every pod an address of its own; here they share one, so each has a port of its own for metrics."""
    values = {
        "config": {
            "log": {"kafka": {"bootstrap_servers": [kafka], "partitions": 2, "replication_factor": 1}},
            "assemble": {"idle_timeout": "200ms", "allowed_lateness": "5s"},
            "judges": {"main": {"base_url": judge}},
            "monitors": {"everything": {"sample": 1}},
        },
        "service": {"otlpPort": ports["otlp"], "otlpGrpcPort": ports["grpc"], "metricsPort": ports[stage]},
    }
    path = folder / f"{stage}.yaml"
    path.write_text(yaml.safe_dump(values))
    text = run(
        "helm",
        "template",
        "live",
        DEPLOY / "helm" / "evalstream",
        "--namespace",
        "prod",
        "--kube-version",
        KUBERNETES,
        "--values",
        path,
    )
    found = {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(text) if each}
    return first_pod(found, stage)


async def _until_answered(url: str, container: Container) -> None:
    def answered() -> bool:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    try:
        async with asyncio.timeout(90):
            while not await asyncio.to_thread(answered):
                await asyncio.sleep(0.2)
    except TimeoutError:
        raise AssertionError(f"{url}: {container.log()}") from None


async def test_the_unit_starts_reloads_starts_again_and_stops(image: Store, tmp_path: Path):
    """By a real systemd, with all that the unit forbids."""
    async with serve_judge() as judge:
        otlp, metrics, options = _configured(tmp_path, judge, log={"kind": "sqlite", "path": "evalstream.db"})
        unit = f"--volume={DEPLOY / 'systemd' / 'evalstream.service'}:/etc/systemd/system/evalstream.service:ro"
        with image.machine(unit, options[0]) as machine:
            readyz = metrics.replace("/metrics", "/readyz")
            try:
                await asyncio.to_thread(machine.did, "systemctl", "start", "evalstream")
                await _until_answered(readyz, machine)
                await asyncio.to_thread(_send, otlp)
                await _until_scored(metrics)
                before = _state(machine, "MainPID", "NRestarts")
                machine.did("systemctl", "reload", "evalstream")
                await _until_answered(readyz, machine)
                assert _state(machine, "MainPID", "NRestarts") == before
                machine.did("systemctl", "kill", "--signal=KILL", "evalstream")
                async with asyncio.timeout(60):
                    while _state(machine, "NRestarts") != {"NRestarts": "1"}:
                        await asyncio.sleep(0.5)
                await _until_answered(readyz, machine)
                await asyncio.to_thread(machine.did, "systemctl", "stop", "evalstream")
                assert _state(machine, "Result", "ExecMainStatus") == {"Result": "success", "ExecMainStatus": "0"}
            except (AssertionError, TimeoutError):
                pytest.fail(_journal(machine)[-5000:])
            written = machine.did("find", "/var/lib/private/evalstream", "-name", "*.db")
            assert written == "/var/lib/private/evalstream/evalstream.db"


def _state(machine: Container, *names: str) -> dict[str, str]:
    lines = machine.did("systemctl", "show", f"--property={','.join(names)}", "evalstream").splitlines()
    return dict(line.split("=", 1) for line in lines)


def _journal(machine: Container) -> str:
    return machine.did("journalctl", "--unit=evalstream", "--no-pager", "--output=cat")


async def test_sigterm_ends_it_within_its_grace_while_a_judge_hangs(image: Store, tmp_path: Path):
    judge = FaultyJudge(Faults(hang=True))
    async with serve_judge(judge) as url:
        otlp, metrics, options = _configured(tmp_path, url, evaluate={"shutdown_grace": "2s"})
        with image.running(options=options) as container:
            await _until_healthy(container)
            await _until_answered(metrics.replace("/metrics", "/readyz"), container)
            await asyncio.to_thread(_send, otlp)
            async with asyncio.timeout(60):
                while not judge.calls:
                    await asyncio.sleep(0.05)
            assert await asyncio.to_thread(container.stop, 20) in (0, 1), container.log()


def test_a_folder_that_it_may_not_write_is_one_sentence_and_status_2(image: Store, tmp_path: Path):
    *_, options = _configured(tmp_path, "http://127.0.0.1:9/v1")
    (tmp_path / "data").chmod(0o755)
    done = image.run("run", "--config", "/etc/evalstream/evalstream.yaml", options=options)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(
        r"evalstream: log: /data/evalstream\.db: .*; see that the folder exists and can be written \(log\.path\)\n",
        done.stderr,
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"monitor": {}},
            "evalstream: /etc/evalstream/evalstream.yaml: monitor: unknown key; did you mean 'monitors'?\n",
        ),
        ({"monitors": {"all": {"evaluators": ["helpfull"]}}}, None),
    ],
    ids=["unknown-key", "unknown-evaluator"],
)
def test_a_wrong_file_is_one_sentence_and_status_2(image: Store, tmp_path: Path, changes: Any, message: str | None):
    *_, options = _configured(tmp_path, "http://127.0.0.1:9/v1", **changes)
    done = image.run(options=options)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert message is None or done.stderr == message


def test_without_a_file_it_says_which_one_it_looks_for(image: Store):
    done = image.run()
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert done.stderr.startswith("evalstream: /etc/evalstream/evalstream.yaml: ")


def test_the_bill_of_materials_is_what_is_installed(image: Store):
    bill = json.loads(_python(image, "print(open('/opt/evalstream/sbom.cdx.json').read())"))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    listed = {each["name"]: each for each in bill["components"]}
    installed = json.loads(_python(image, INSTALLED))
    itself = bill["metadata"]["component"]
    assert installed.pop(itself["name"]) == itself["version"]
    assert {name: each["version"] for name, each in listed.items() if name in installed} == installed
    for name in listed.keys() - installed.keys():
        assert any(each["name"] == "uv:package:marker" for each in listed[name]["properties"]), (
            f"{name} is for elsewhere"
        )
    for name, each in listed.items():
        assert each["purl"] == f"pkg:pypi/{name}@{each['version']}"
        assert all(file["hashes"] for file in each["externalReferences"]), name


def test_every_library_loads_and_authorities_are_known(image: Store):
    loaded = _python(image, EXTENSIONS).split()
    assert {"uvloop.loop", "zstandard.backend_c", "grpc._cython.cygrpc", "_ssl", "_sqlite3"} <= set(loaded)
    assert int(_python(image, AUTHORITIES)) > 100


def test_only_data_and_tmp_can_be_written_to(image: Store):
    assert _python(image, WRITABLE).split() == ["/tmp", "/data"]


def test_it_is_small_and_has_nothing_to_break_out_with(image: Store):
    described = image.described()
    assert described["Size"] < 200e6
    assert described["Config"]["User"] == "10001:10001"
    for program in (
        "sh",
        "bash",
        "apt-get",
        "pip",
        "uv",
        "perl",
        "su",
        "gcc",
        "cc",
        "as",
        "ld",
        "strip",
        "hatchling",
        "mypyc",
    ):
        done = image.run(entrypoint=program)
        assert done.returncode == 127, program
    packages = _python(image, "print(open('/var/lib/dpkg/status').read())")
    names = set(re.findall(r"^Package: (.+)$", packages, re.MULTILINE))
    assert {"libc6", "libssl3", "zlib1g", "ca-certificates", "base-files"} <= names
    assert names.isdisjoint({"dpkg", "apt", "bash", "perl-base", "coreutils"})


def test_it_is_compiled_and_says_so_but_has_no_compiler(image: Store):
    assert re.fullmatch(r"evalstream \S+, compiled\n", image.run("--version").stdout)
    loaded = _python(image, COMPILED).split()
    assert len(loaded) == 2
    assert all(
        re.fullmatch(r"/opt/evalstream/lib/.+/collector/\w+/\w+\.cpython-\w+-\w+-linux-gnu\.so", each)
        for each in loaded
    )
    assert _python(image, OF_COMPILERS).split() == []
    packages = re.findall(
        r"^Package: (.+)$", _python(image, "print(open('/var/lib/dpkg/status').read())"), re.MULTILINE
    )
    assert [each for each in packages if re.match(r"gcc-\d+$|cpp|binutils|.*-dev$", each)] == []


def _python(image: Store, program: str) -> str:
    done = image.run("-c", program, entrypoint="python")
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
