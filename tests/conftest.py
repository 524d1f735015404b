"""Fixtures that several kinds of test share."""

from __future__ import annotations

import gc
import os
import secrets
import signal
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
from broker import Broker, BrokerUnavailable, running_broker
from hypothesis import Phase, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

ROOT = Path(__file__).parents[1]

TOGETHER = ("browser", "deploy", "model", "prometheus")
"""Folders whose modules share something that takes seconds to start."""

SHARING_NOTHING = ("tests/prometheus/test_rules.py",)
"""Modules of which each test starts what it needs, and that as a whole would keep one process busy to the end."""

WAITING = ("browser", "deploy", "prometheus", "chaos", "attack", "e2e", "model", "integration")
WORKING = ("property", "hostile", "golden", "contract")
"""Folders whose tests wait for others more than they work, and those whose modules work longest."""

KAFKA_SOCKETS = r"ignore:Exception ignored in. <(socket\.socket|ssl\.SSLSocket):pytest.PytestUnraisableExceptionWarning"


def pytest_configure() -> None:
    """A shell's background job ignores Ctrl-C, and so would every process that a test starts and interrupts.

    Nothing of ten thousand tests is garbage while they are collected, and looking for it takes a quarter of that time.
    """
    gc.disable()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


LONG_WITHIN = 600
"""Seconds that a long test may take if it names no limit."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """kafka-python leaves sockets of connections that did not come about to the garbage collector, which says so.

    What takes minutes takes more of them on a slow machine: the limit of all tests is that of the short ones.
    """
    for item in items:
        if item.get_closest_marker("kafka"):
            item.add_marker(pytest.mark.filterwarnings(KAFKA_SOCKETS))
        if item.get_closest_marker("long") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(LONG_WITHIN))
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: _turn(item.nodeid.partition("::")[0]))


def _turn(module: str) -> int:
    """What waits comes first, above all for a broker; what works comes last, where a process begins (see below)."""
    folder = module.split("/")[1]
    if _on_kafka(module):
        return -1
    return WAITING.index(folder) if folder in WAITING else len(WAITING) + (folder in WORKING)


@cache
def _on_kafka(module: str) -> bool:
    return "mark.kafka" in (ROOT / module).read_text(encoding="utf-8")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling | None:
    """`--dist loadfile` and `--dist loadgroup` in our own way. (xdist 3.8 has no groups any more under pytest 9.2: #1386.)"""
    config.option.loadscopereorder = False
    way = WAYS.get(config.option.dist)
    return way(config, log) if way else None


class OneByOne(LoadScopeScheduling):
    """Each test by itself, for those that take long; but those of a module that share what takes seconds to start."""

    @staticmethod
    def _split_scope(nodeid: str) -> str:
        module = nodeid.partition("::")[0]
        return module if module.split("/")[1] in TOGETHER and module not in SHARING_NOTHING else nodeid


class ByModule(LoadScopeScheduling):
    """The tests of a module in one process, and those of a folder's modules that share a broker.

    The last process begins at the other end: with what works, while the others wait for brokers, browsers and services.
    """

    @staticmethod
    def _split_scope(nodeid: str) -> str:
        module = nodeid.partition("::")[0]
        if module in SHARING_NOTHING:
            return nodeid
        return f"{module.split('/')[1]} on Kafka" if _on_kafka(module) else module

    def _assign_work_unit(self, node: WorkerController) -> None:
        if node is self.nodes[-1]:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)


WAYS = {"loadfile": ByModule, "loadgroup": OneByOne}


def pytest_collection_finish() -> None:
    """What is there now stays until the end: no collection of garbage has to look at it again. The rest as in a service."""
    from collector.service.garbage import COLLECT_AFTER

    gc.set_threshold(*COLLECT_AFTER)
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """A service that a failing test leaves running would take the time of all that follow."""
    before = _services()
    try:
        return (yield)
    except BaseException:
        for pid in _services() - before:
            item.add_report_section("call", "killed", f"a service that the test left running: {pid}")
            os.kill(pid, signal.SIGKILL)
        raise


def _services() -> set[int]:
    """The processes of this one's children that are services; on systems that have /proc."""
    pids = [int(each) for path in Path("/proc/self/task").glob("*/children") for each in _content(path).split()]
    return {pid for pid in pids if b"collector.cli" in _content(Path(f"/proc/{pid}/cmdline"))}


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # the process, or the thread, has ended meanwhile
        return b""


@pytest.fixture(autouse=True)
def _collect_garbage_of_kafka(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if request.node.get_closest_marker("kafka"):
        gc.collect()  # here, where its warnings are expected


# No example has a time limit: on a busy machine any of them may take long. A change is tested with the same examples every
# time; everywhere else new ones are tried.
settings.register_profile("evalstream", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
# For tests/mutants: the first example that fails is enough.
settings.register_profile("first-failure", settings.get_profile("ci"), phases=[Phase.explicit, Phase.generate])
settings.load_profile("ci" if os.environ.get("CI") == "true" else "evalstream")


class ForeignBroker:
    """A broker that somebody else runs: there to be used, not to be killed."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap


@contextmanager
def _a_broker(*, secured: bool = False) -> Iterator[Broker]:
    try:
        with running_broker(secured=secured) as broker:
            yield broker
    except BrokerUnavailable as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def kafka_broker() -> Iterator[Broker | ForeignBroker]:
    """The session's Apache Kafka broker, or the one named by EVALSTREAM_TEST_KAFKA=host:port.

    Where none can run, its tests are skipped with one line that says what to install; with CI=true they fail.
    """
    given = os.environ.get("EVALSTREAM_TEST_KAFKA")
    if given:
        yield ForeignBroker(given)
        return
    with _a_broker(secured=True) as broker:
        yield broker


@pytest.fixture
def secured_broker(kafka_broker: Broker | ForeignBroker) -> Broker:
    """The session's broker, with its listeners for TLS and users."""
    if isinstance(kafka_broker, ForeignBroker):
        pytest.skip("this test adds users and ACLs, and EVALSTREAM_TEST_KAFKA names somebody's broker")
    return kafka_broker


@pytest.fixture
def own_broker() -> Iterator[Broker]:
    """A broker for one test, which may kill it, freeze it or change its files."""
    if os.environ.get("EVALSTREAM_TEST_KAFKA"):
        pytest.skip("this test kills its broker, and EVALSTREAM_TEST_KAFKA names somebody's")
    with _a_broker() as broker:
        yield broker


@pytest.fixture
def own_secured_broker() -> Iterator[Broker]:
    """The same, with its listeners for TLS and users."""
    with _a_broker(secured=True) as broker:
        yield broker


@pytest.fixture(autouse=True)
def known_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key of draws is the same in each run of a test: by a random one, a sample of twelve may be empty now and then.

    A process that a test starts makes a key of its own.
    """
    random_hex = secrets.token_hex
    monkeypatch.setattr("secrets.token_hex", lambda size: "0" * 64 if size == 32 else random_hex(size))
