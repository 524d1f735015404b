"""A real Apache Kafka broker, one process on loopback: for tests, and by hand with `python tests/kafka/broker.py`.

Needs Java 17 or later. Maven fetches the jars once into `.cache/kafka-<version>/`; after that nothing is fetched.
"""

from __future__ import annotations

import atexit
import hashlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import broker_security
from broker_security import Certificates

HERE = Path(__file__).resolve().parent
JARS = HERE / "jars.sha256"
CACHE = HERE.parents[1] / ".cache"
NODE = "1@127.0.0.1"
CLUSTER = "evalstreamTestBroker00"  # 22 characters of base64, as Kafka wants it
HEAP = "512m"
READY_WITHIN = 60.0

PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters={node}:{controller}
listeners={listeners},CONTROLLER://127.0.0.1:{controller}
advertised.listeners={listeners}
controller.listener.names=CONTROLLER
{security}
inter.broker.listener.name=PLAINTEXT
log.dirs={data}
num.partitions=1
auto.create.topics.enable=false
offsets.topic.num.partitions=2
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
log.cleaner.enable=false
broker.session.timeout.ms=1500
broker.heartbeat.interval.ms=300
"""

PLAINTEXT = "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT"


class BrokerUnavailable(Exception):
    """The broker cannot run here; the message says how to get what is missing."""


def version() -> str:
    """The version that the pom asks for."""
    found = re.search(r"<kafka\.version>(.+?)</kafka\.version>", (HERE / "pom.xml").read_text())
    assert found
    return found[1]


def jars() -> Path:
    """The folder with the broker's jars; fetched if they are not there yet.

    Raises:
        BrokerUnavailable: Java or Maven is missing, or Maven cannot fetch.
    """
    if not shutil.which("java"):
        raise BrokerUnavailable("the Kafka tests need Java 17 (apt install openjdk-17-jre-headless)")
    folder = CACHE / f"kafka-{version()}"
    if not (folder / "libs").exists():
        _fetch(folder)
    return folder / "libs"


def _fetch(folder: Path) -> None:
    if not shutil.which("mvn"):
        raise BrokerUnavailable("the Kafka tests need Maven to fetch the broker (apt install maven)")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as fetched:
        command = ["mvn", "-B", "-q", "-f", str(HERE / "pom.xml"), "dependency:copy-dependencies"]
        done = subprocess.run(
            [*command, "-DincludeScope=runtime", f"-DoutputDirectory={fetched}/libs"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise BrokerUnavailable(f"Maven cannot fetch the Kafka broker: {done.stdout.strip()[-500:]}")
        if other := sorted(_sums(Path(fetched, "libs")) ^ set(JARS.read_text(encoding="utf-8").splitlines())):
            names = ", ".join(dict.fromkeys(line.split()[1] for line in other))
            raise BrokerUnavailable(f"what Maven fetched is not what tests/kafka/jars.sha256 lists: {names}")
        if not (folder / "libs").exists():
            Path(fetched, "libs").rename(folder / "libs")


def _sums(folder: Path) -> set[str]:
    return {f"{hashlib.sha256(jar.read_bytes()).hexdigest()}  {jar.name}" for jar in folder.glob("*.jar")}


class Broker:
    """One broker with its data in a folder. Ports and data outlive `kill`, `stop` and `start`."""

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, str] | None = None,
        *,
        secured: bool = False,
        ports: Sequence[int] = (),
        heap: str = HEAP,
    ) -> None:
        """`settings` are further lines of `server.properties`; a `secured` one has listeners with TLS and users.

        `ports` are those of clients and controllers, where others have to know them.
        """
        self.folder = folder
        self._heap = heap
        self._has_own_identity = "node.id" in (settings or {})
        self.port, controller, secure, mutual = [*ports, *free_ports(4 - len(ports))]
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.secure, self.mutual = f"127.0.0.1:{secure}", f"127.0.0.1:{mutual}"
        self.certificates = Certificates(folder / "certificates") if secured else None
        self.log = folder / "broker.log"
        self._libs = jars()
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        listeners = f"PLAINTEXT://{self.bootstrap}"
        properties = PROPERTIES.format(
            node=NODE,
            listeners=f"{listeners},SECURE://{self.secure},MUTUAL://{self.mutual}" if secured else listeners,
            security=broker_security.properties(folder / "certificates") if secured else PLAINTEXT,
            controller=controller,
            data=folder / "data",
        )
        properties += "".join(f"{name}={value}\n" for name, value in (settings or {}).items())
        (folder / "server.properties").write_text(properties)

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start, on the data that is there, and wait until the broker is ready."""
        self.wait_ready(self.begin())

    def begin(self) -> int:
        """Start, and do not wait; what `wait_ready` needs."""
        assert not self.running
        if not (self.folder / "data").exists():
            self._format()
        seen = self.log.stat().st_size if self.log.exists() else 0
        java = self._java("kafka.Kafka", "server.properties", flags=[f"-Xmx{self._heap}", "-Xms128m"])
        if shutil.which("setpriv"):  # the broker goes when the tests are killed
            java = ["setpriv", "--pdeathsig", "KILL", *java]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(java, cwd=self.folder, stdout=log, stderr=log, start_new_session=True)
        atexit.register(self.kill)
        return seen

    def kill(self) -> None:
        """Kill -9: what was not flushed by the operating system's own means is still in its cache."""
        self._end(signal.SIGKILL, 10.0)

    def stop(self) -> None:
        """Stop in order."""
        self._end(signal.SIGTERM, 15.0)

    def restart(self) -> None:
        """Start again on the same ports and data, after `kill` or `stop`, or stop first."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Freeze the process: connections stay open and nobody answers."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Undo `pause`."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def rss(self) -> int:
        """Resident memory in bytes."""
        assert self._process is not None
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found
        return int(found[1]) * 1024

    def segment(self, topic: str, partition: int = 0) -> Path:
        """The file with the records of a partition from its start on."""
        return self.folder / "data" / f"{topic}-{partition}" / f"{0:020}.log"

    def _java(self, *arguments: str, flags: list[str]) -> list[str]:
        quick = [
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-Xshare:auto",
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
        ]
        return ["java", *quick, *flags, "-cp", f"{self._libs}/*", *arguments]

    def _format(self) -> None:
        """Formatting takes a Java process of its own, and its result is always the same: do it once."""
        template = self._libs.parent / "formatted"
        if self._has_own_identity or not template.exists():
            command = self._java(
                "kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", "server.properties", flags=[]
            )
            done = subprocess.run(
                command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
            )
            if done.returncode:
                raise RuntimeError(f"the broker's data cannot be formatted: {done.stdout[-2000:]}")
            if self._has_own_identity:
                return
            with tempfile.TemporaryDirectory(dir=template.parent) as fresh:
                shutil.copytree(self.folder / "data", Path(fresh, "data"))
                if not template.exists():
                    Path(fresh, "data").rename(template)
        else:
            shutil.copytree(template, self.folder / "data")

    def wait_ready(self, seen: int) -> None:
        """Wait until the broker is ready."""
        give_up_at = time.monotonic() + READY_WITHIN
        while time.monotonic() < give_up_at:
            with self.log.open("rb") as log:
                log.seek(seen)
                if b"Kafka Server started" in log.read():
                    return
            if not self.running:
                break
            time.sleep(0.05)
        tail = self.log.read_text(errors="replace")[-3000:]
        self.kill()
        raise RuntimeError(f"the broker does not start:\n{tail}")

    def _end(self, how: signal.Signals, within: float) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        atexit.unregister(self.kill)
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.send_signal(how)
        try:
            process.wait(within)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()


@contextmanager
def running_broker(settings: Mapping[str, str] | None = None, *, secured: bool = False) -> Iterator[Broker]:
    """A broker that runs while the block does, with data of its own that goes with it.

    Raises:
        BrokerUnavailable: it cannot run here.
    """
    with tempfile.TemporaryDirectory(prefix="evalstream-kafka-") as folder:
        broker = Broker(Path(folder), settings, secured=secured)
        try:
            broker.start()
            yield broker
        finally:
            broker.kill()


@contextmanager
def running_cluster(count: int = 3) -> Iterator[list[Broker]]:
    """Brokers of one cluster, each a voter; every topic of the cluster's own is on all of them.

    Raises:
        BrokerUnavailable: they cannot run here.
    """
    ports = free_ports(2 * count)
    voters = ",".join(f"{node}@127.0.0.1:{ports[2 * node - 1]}" for node in range(1, count + 1))
    shared = {"controller.quorum.voters": voters, "offsets.topic.replication.factor": str(count)}
    with tempfile.TemporaryDirectory(prefix="evalstream-kafka-") as folder:
        brokers = [
            Broker(
                Path(folder, str(node)), {**shared, "node.id": str(node)}, ports=ports[2 * node - 2 : 2 * node],
                heap="256m",
            )
            for node in range(1, count + 1)
        ]  # fmt: skip
        try:
            seen = [broker.begin() for broker in brokers]
            for broker, begun in zip(brokers, seen, strict=True):
                broker.wait_ready(begun)
            yield brokers
        finally:
            for broker in brokers:
                broker.kill()


def main() -> None:
    began = time.monotonic()
    with running_broker() as broker:
        print(broker.bootstrap, flush=True)
        print(
            f"ready after {time.monotonic() - began:.1f} s, {broker.rss() >> 20} MiB; Ctrl-C stops it", file=sys.stderr
        )
        signal.sigwait({signal.SIGINT, signal.SIGTERM})


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    main()
