"""A real Kubernetes API server over a real etcd, as `make tools` builds them: what it takes, a cluster takes.

No node runs and no controller: objects are validated, admitted and stored, and nothing comes of them.
"""

from __future__ import annotations

import json
import signal
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from broker import free_ports
from tools import BUILT, tool

TOKEN = "not-a-secret"
RESTRICTED = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
"""Labels of a namespace in which pods with more rights than the strictest of Kubernetes' standards are refused."""


class Refused(AssertionError):
    """The server does not take an object; its own words."""


@dataclass(frozen=True, slots=True)
class ApiServer:
    """Asks the server as an administrator."""

    url: str
    kubeconfig: Path
    _plurals: dict[tuple[str, str], str] = field(default_factory=dict)

    def ask(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> tuple[Any, list[str]]:
        """The answer's document, and the warnings beside it. Raises Refused with the server's message."""
        request = urllib.request.Request(
            self.url + path, method=method, data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {TOKEN}", "Content-Type": kind},
        )  # fmt: skip
        try:
            with urllib.request.urlopen(request, timeout=30, context=_anybody()) as answer:
                return json.load(answer), answer.headers.get_all("Warning") or []
        except urllib.error.HTTPError as error:
            text = error.read().decode()
            raise Refused(json.loads(text)["message"] if text.startswith("{") else text) from None

    def apply(self, resource: Mapping[str, Any], namespace: str) -> tuple[Any, list[str]]:
        """As `kubectl apply --server-side --validate=strict`: unknown and doubled fields are refused."""
        query = "fieldManager=tests&fieldValidation=Strict&force=true"
        path = f"{self._collection(resource, namespace)}/{resource['metadata']['name']}?{query}"
        return self.ask("PATCH", path, resource, "application/apply-patch+yaml")

    def create(self, resource: Mapping[str, Any], namespace: str = "") -> tuple[Any, list[str]]:
        """As `kubectl create --validate=strict`."""
        return self.ask("POST", f"{self._collection(resource, namespace)}?fieldValidation=Strict", resource)

    def namespace(self, name: str) -> str:
        """Make a namespace as strict as there are, with the account that a controller would make in it."""
        self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": RESTRICTED}})
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        self.create(account, name)
        return name

    def _collection(self, resource: Mapping[str, Any], namespace: str) -> str:
        version, kind = resource["apiVersion"], resource["kind"]
        group = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if (version, kind) not in self._plurals:
            served, _ = self.ask("GET", group)
            self._plurals.update(
                {(version, each["kind"]): each["name"] for each in served["resources"] if "/" not in each["name"]}
            )
        return f"{group}{f'/namespaces/{namespace}' if namespace else ''}/{self._plurals[version, kind]}"


@contextmanager
def running_api_server() -> Iterator[ApiServer]:
    """Start both, with the definitions of others that the chart has objects of."""
    etcd, kube = tool("etcd"), tool("kube-apiserver")
    with tempfile.TemporaryDirectory(prefix="evalstream-api-") as name:
        folder = Path(name)
        clients, peers, port = free_ports(3)
        key = folder / "accounts.key"
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
        (folder / "tokens.csv").write_text(f"{TOKEN},tests,1,system:masters\n")
        store = (
            etcd, f"--data-dir={folder / 'etcd'}", "--unsafe-no-fsync", "--log-level=error",
            f"--listen-client-urls=http://127.0.0.1:{clients}", f"--advertise-client-urls=http://127.0.0.1:{clients}",
            f"--listen-peer-urls=http://127.0.0.1:{peers}", f"--initial-advertise-peer-urls=http://127.0.0.1:{peers}",
            f"--initial-cluster=default=http://127.0.0.1:{peers}",
        )  # fmt: skip
        server = (
            kube, f"--etcd-servers=http://127.0.0.1:{clients}", "--bind-address=127.0.0.1", f"--secure-port={port}",
            f"--cert-dir={folder}", f"--token-auth-file={folder / 'tokens.csv'}", "--service-cluster-ip-range=10.0.0.0/16",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}",
        )  # fmt: skip
        url = f"https://127.0.0.1:{port}"
        with _process(store, folder / "etcd.log"), _process(server, folder / "kube-apiserver.log") as process:
            api = ApiServer(url, _kubeconfig(folder, url))
            _wait_until_ready(api, process, folder / "kube-apiserver.log")
            _define(api)
            yield api


@contextmanager
def _process(command: tuple[str, ...], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def _anybody() -> ssl.SSLContext:
    """The server signs its certificate itself, and listens on this machine alone."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _kubeconfig(folder: Path, url: str) -> Path:
    """What helm finds the server by."""
    values = {
        "apiVersion": "v1", "kind": "Config", "current-context": "tests",
        "clusters": [{"name": "tests", "cluster": {"server": url, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "tests", "user": {"token": TOKEN}}],
        "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "tests"}}],
    }  # fmt: skip
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(values))
    path.chmod(0o600)
    return path


def _wait_until_ready(api: ApiServer, process: subprocess.Popen[bytes], log: Path) -> None:
    give_up_at = time.monotonic() + 90
    while time.monotonic() < give_up_at and process.poll() is None:
        try:
            request = urllib.request.Request(f"{api.url}/readyz", headers={"Authorization": f"Bearer {TOKEN}"})
            with urllib.request.urlopen(request, timeout=5, context=_anybody()):
                return
        except OSError:
            time.sleep(0.2)
    raise AssertionError(log.read_text()[-3000:])


def _define(api: ApiServer) -> None:
    """The definitions of the Prometheus operator and of KEDA; returns once all are served."""
    for path in sorted((BUILT / "crds").glob("*.yaml")):
        for definition in yaml.safe_load_all(path.read_text()):
            api.create(definition)
            spec = definition["spec"]
            give_up_at = time.monotonic() + 60
            while not _served(api, f"/apis/{spec['group']}/{spec['versions'][0]['name']}", spec["names"]["kind"]):
                assert time.monotonic() < give_up_at, path.name
                time.sleep(0.1)


def _served(api: ApiServer, group: str, kind: str) -> bool:
    try:
        found, _ = api.ask("GET", group)
    except Refused:
        return False  # nothing of the group is, yet
    return kind in {each["kind"] for each in found["resources"]}
