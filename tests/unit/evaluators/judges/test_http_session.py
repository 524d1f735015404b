"""Which proxy and which certificates a session to a judge has."""

from __future__ import annotations

from pathlib import Path

import certifi
import pytest

from evaluators.judges.connection import proxy_for
from evaluators.wire.http_client import with_environment_authorities

OPENAI = "https://api.openai.com/v1"


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "ssl_cert_file", "ssl_cert_dir"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.mark.parametrize(
    ("environment", "url", "proxy"),
    [
        ({}, OPENAI, None),
        ({"HTTPS_PROXY": "http://proxy:3128"}, OPENAI, "http://proxy:3128"),
        ({"https_proxy": "proxy:3128"}, OPENAI, "http://proxy:3128"),
        ({"HTTPS_PROXY": "http://proxy:3128"}, "http://judge:8000/v1", None),
        ({"HTTP_PROXY": "http://proxy:3128"}, "http://judge:8000/v1", "http://proxy:3128"),
        ({"ALL_PROXY": "http://proxy:3128"}, OPENAI, "http://proxy:3128"),
        ({"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "openai.com"}, OPENAI, None),
        ({"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "api.openai.com:443,judge"}, OPENAI, "http://proxy:3128"),
        ({"HTTP_PROXY": "http://proxy:3128", "NO_PROXY": "judge"}, "http://judge:8000/v1", None),
        ({"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "*"}, OPENAI, None),
    ],
)
def test_the_proxy_of_the_environment(
    environment: dict[str, str], url: str, proxy: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert proxy_for(url, None) == proxy
    assert proxy_for(url, "http://mine:1") == "http://mine:1"


def test_the_certificates_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert with_environment_authorities(None) is None
    monkeypatch.setenv("SSL_CERT_FILE", certifi.where())
    context = with_environment_authorities(None)
    assert context is not None
    assert len(context.get_ca_certs()) > 50
    assert with_environment_authorities(context) is context
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    with pytest.raises(FileNotFoundError):
        with_environment_authorities(None)
