"""The sentences about a process's configuration, in its log and on /readyz."""

import pytest

from collector.service.live.status import ConfigurationStatus
from collector.telemetry.registry import Telemetry


@pytest.mark.parametrize(
    ("number", "running"), [(0, "the configuration of the start"), (3, "configuration 3")]
)  # fmt: skip
def test_a_configuration_without_a_number_is_not_called_by_one(
    number: int, running: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A process that evaluates nothing said that "configuration 0 runs on"."""
    status = ConfigurationStatus(Telemetry())
    status.begin(number, 0.0)
    with caplog.at_level("INFO"):
        status.refuse("judges: none")
        assert status.problem is not None
        assert status.problem.endswith(f"and {running} stays in force: judges: none")
        status.keep()
    assert caplog.messages == [
        f"configuration refused, and {running} stays in force: judges: none",
        f"the file has {running}, which runs already",
    ]
