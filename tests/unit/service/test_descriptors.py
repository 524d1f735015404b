from __future__ import annotations

import resource

import pytest

from collector.receive.access import OtlpGrpcSettings, OtlpHttpSettings
from collector.service.process_resources import raise_descriptor_limit, with_descriptors


@pytest.mark.parametrize(
    ("limit", "connections", "relayed"), [(20_000, 1000, 1000), (4096, 1000, 597), (1024, 256, 85), (100, 1, 1)]
)
def test_senders_have_descriptors_though_every_other_listener_is_full(
    limit: int, connections: int, relayed: int, caplog
):
    settings = with_descriptors(OtlpHttpSettings(), 2, limit)
    assert settings.max_connections == connections
    assert ("raise it with ulimit -n" in caplog.text) == (connections < 1000)
    assert with_descriptors(OtlpGrpcSettings(), 2, limit, each=3).max_connections == relayed


def test_the_soft_limit_is_raised_to_the_hard_one():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
    try:
        assert raise_descriptor_limit() == hard
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
