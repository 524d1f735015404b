"""The keys under `security`: what belongs together, and one sentence for what does not."""

from __future__ import annotations

from typing import Any

import pytest

from collector.config.loading import check
from collector.errors import ConfigError

LOGIN: dict[str, Any] = {"protocol": "SASL_SSL", "mechanism": "SCRAM-SHA-512", "username": "u", "password": "p"}
OAUTH: dict[str, Any] = {"token_url": "https://login.example/token", "client_id": "c", "client_secret": "s"}


def configuration(security: dict[str, Any]) -> dict[str, Any]:
    return {
        "log": {"kind": "kafka", "kafka": {"bootstrap_servers": ["b:9093"], "security": security}},
        "evaluators": {"short": {"kind": "regex", "pattern": "^.{1,400}$"}},
        "monitors": {"all": {"evaluators": ["short"]}},
    }


@pytest.mark.parametrize(
    "security",
    [
        LOGIN,
        {"protocol": "ssl"},
        {"protocol": "SSL", "ca": "ca.pem", "certificate": "c.pem", "key": "k.pem"},
        {"protocol": "sasl_ssl", "mechanism": "scram-sha-256", "username": "u", "password_file": "/run/secrets/p"},
        {"protocol": "SASL_SSL", "mechanism": "OAUTHBEARER", "oauth": OAUTH},
        {"protocol": "PLAINTEXT"},
    ],
)
def test_what_is_whole_is_taken(security: dict[str, Any]) -> None:
    assert check(configuration(security), "my.yaml")


@pytest.mark.parametrize(
    ("security", "sentence"),
    [
        ({"protocol": "SASL_SSL"}, "with SASL_SSL, write mechanism: PLAIN, SCRAM-SHA-256"),
        ({**LOGIN, "protocol": "SSL"}, "mechanism has no use here: SSL has no users; write protocol: SASL_SSL"),
        ({**LOGIN, "password": None}, "with SCRAM-SHA-512, write username, and either password or password_file"),
        ({**LOGIN, "password_file": "p"}, "with SCRAM-SHA-512, write username, and either password or password_file"),
        ({**LOGIN, "username": None}, "with SCRAM-SHA-512, write username"),
        ({**LOGIN, "password": ""}, "password is empty; see that its environment variable is set"),
        ({**LOGIN, "oauth": OAUTH}, "oauth has no use here: SCRAM-SHA-512 has a password"),
        ({**LOGIN, "protocol": "SASL_PLAINTEXT", "ca": "x"}, "ca has no use here: SASL_PLAINTEXT does not use TLS"),
        ({"protocol": "SSL", "certificate": "c.pem"}, "certificate and key belong together"),
        ({"protocol": "SASL_SSL", "mechanism": "OAUTHBEARER"}, "with OAUTHBEARER, write oauth: {token_url"),
        (
            {"protocol": "SASL_SSL", "mechanism": "OAUTHBEARER", "oauth": {**OAUTH, "token_url": "http://login/t"}},
            "log.kafka.security.oauth.token_url: would send the secret unencrypted; write https://",
        ),
        (
            {"protocol": "SASL_SSL", "mechanism": "OAUTHBEARER", "oauth": {**OAUTH, "client_secret": None}},
            "log.kafka.security.oauth: needs either client_secret or client_secret_file",
        ),
        ({**LOGIN, "mechanism": "GSSAPI"}, "log.kafka.security.mechanism: must be 'PLAIN', 'SCRAM-SHA-256'"),
        ({**LOGIN, "pasword": "x"}, "log.kafka.security.pasword: unknown key; did you mean 'password'?"),
    ],
)
def test_what_is_not_is_said(security: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError) as error:
        check(configuration(security), "my.yaml")
    assert "my.yaml: log.kafka.security" in str(error.value)
    assert sentence in str(error.value)
    assert "'p'" not in str(error.value), "a secret in a message"
