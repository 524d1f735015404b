"""The client that a judge's configuration gets: chosen where only it can ask, with the credentials that are there."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from pydantic import ValidationError

from collector.config.settings import JudgeSettings
from collector.errors import ConfigError
from collector.judging.open_judges import client_of

AZURE = "https://desk.openai.azure.com"


def settings(**values: Any) -> JudgeSettings:
    return JudgeSettings(model="gpt-5-mini", **values)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_API_VERSION", "AWS_BEARER_TOKEN_BEDROCK"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("values", "through"),
    [
        ({"api_key": "k"}, False),
        ({}, False),
        ({"api_key": "k", "client": "openai"}, True),
        ({"base_url": "http://127.0.0.1:8000/v1"}, False),
        ({"base_url": f"{AZURE}/openai/v1", "headers": {"api-key": "k"}}, False),
        ({"base_url": f"{AZURE}/openai/v1"}, True),
        ({"base_url": AZURE, "api_key": "k"}, True),
        ({"base_url": AZURE, "api_key": "k", "client": "direct"}, False),
        ({"base_url": "https://bedrock-runtime.eu-central-1.amazonaws.com/openai/v1", "api_key": "k"}, False),
        ({"base_url": "https://bedrock-runtime.eu-central-1.amazonaws.com/openai/v1"}, True),
        ({"base_url": "https://europe-west1-aiplatform.googleapis.com/v1/x"}, True),
        ({"base_url": "https://generativelanguage.googleapis.com/v1beta/openai"}, False),
        ({"client_options": {"organization": "o"}, "api_key": "k"}, True),
        ({"api": "anthropic"}, False),
    ],
)
def test_which_judges_ask_through_the_client(values: dict[str, Any], through: bool) -> None:
    assert settings(**values).through_client is through
    assert settings(**values).takes_batches


@pytest.mark.parametrize("name", ["OPENAI_ORG_ID", "OPENAI_PROJECT_ID"])
def test_the_environments_organization(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "it")
    assert settings(api_key="k").through_client
    assert not settings(api_key="k", base_url="http://127.0.0.1:8000/v1").through_client
    client = client_of("main", settings(api_key="k"), None)
    assert client is not None
    assert "it" in (client().organization, client().project)


@pytest.mark.parametrize(
    ("values", "kind", "base_url"),
    [
        ({"base_url": AZURE, "api_key": "k"}, "AsyncAzureOpenAI", f"{AZURE}/openai/"),
        (
            {"base_url": f"{AZURE}/openai/deployments/four?api-version=2025-01-01", "api_key": "k"},
            "AsyncAzureOpenAI",
            f"{AZURE}/openai/deployments/four/",
        ),
        ({"base_url": AZURE}, "AsyncAzureOpenAI", f"{AZURE}/openai/"),
        ({"base_url": f"{AZURE}/openai/v1"}, "AsyncOpenAI", f"{AZURE}/openai/v1/"),
        (
            {"base_url": "https://bedrock-runtime.eu-central-1.amazonaws.com/openai/v1"},
            "AsyncBedrockOpenAI",
            "https://bedrock-runtime.eu-central-1.amazonaws.com/openai/v1/",
        ),
        (
            {"base_url": "https://europe-west1-aiplatform.googleapis.com/v1/projects/p/locations/l/endpoints/openapi"},
            "AsyncOpenAI",
            "https://europe-west1-aiplatform.googleapis.com/v1/projects/p/locations/l/endpoints/openapi/",
        ),
        (
            {"client_options": {"workload_identity": {"identity_provider_id": "i", "service_account_id": "s"}}},
            "AsyncOpenAI",
            "https://api.openai.com/v1/",
        ),
    ],
)
def test_the_client_of_an_address(values: dict[str, Any], kind: str, base_url: str) -> None:
    made = client_of("main", settings(**values), None)
    assert made is not None
    client = made()
    assert (type(client).__name__, str(client.base_url)) == (kind, base_url)


def test_what_cannot_work_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"judges\.main\.client_options: .*nonsense"):
        client_of("main", settings(client_options={"nonsense": 1}), None)
    with pytest.raises(ValidationError, match="client_options: are for client: openai"):
        settings(client="direct", client_options={"organization": "o"})
    with pytest.raises(ValidationError, match="speaks its own wire formats"):
        settings(client="openai", api="anthropic")
    monkeypatch.setitem(sys.modules, "azure.identity.aio", None)
    with pytest.raises(ConfigError, match=r"needs azure.*\.\[clouds\]"):
        client_of("main", settings(base_url=AZURE), None)


def test_a_direct_judge_does_not_import_the_client() -> None:
    code = "import sys, collector.judging.open_judges, collector.cli; print('openai' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout.strip() == b"False"
