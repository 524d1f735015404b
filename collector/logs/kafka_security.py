"""How a connection to Kafka is secured: the configuration's keys. Nothing here needs the Kafka client."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator

from collector.section import Section


class KafkaOAuthSettings(Section):
    """Client credentials of OAuth 2.0: the token endpoint gives the tokens that brokers are shown."""

    token_url: str = Field(pattern=r"^https?://")
    """The token endpoint, like https://login.host/oauth2/token."""
    client_id: str = Field(min_length=1)
    """The client's id."""
    client_secret: SecretStr | None = None
    """Its secret."""
    client_secret_file: Path | None = None
    """A file with the secret, read again for each token."""
    scope: str | None = Field(default=None, min_length=1)
    """The scope to ask for, if the endpoint needs one."""
    ca: Path | None = None
    """PEM file of the endpoint's authority; the system's, if left out."""
    parameters: dict[str, str] = Field(default_factory=dict)
    """Further fields of the request for a token, like audience."""
    extensions: dict[str, str] = Field(default_factory=dict)
    """SASL extensions for the broker, like logicalCluster and identityPoolId of Confluent Cloud."""

    @field_validator("token_url")
    @classmethod
    def _encrypted(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.username is not None or parts.password is not None:
            raise ValueError("contains a name or password, which would be printed; write client_id and client_secret")
        if parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
            raise ValueError("would send the secret unencrypted; write https://")
        return url

    def _mistakes(self) -> Iterator[str]:
        if (self.client_secret is None) == (self.client_secret_file is None):
            yield "needs either client_secret or client_secret_file"
        yield from _without_content(self.client_secret, "client_secret")


class KafkaSecuritySettings(Section):
    """How a connection to Kafka is encrypted and authenticated. Files are read again for each new connection."""

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
    """SSL is TLS; SASL_SSL is TLS and a mechanism; the others do not encrypt."""
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] | None = None
    """How SASL proves who this is."""
    username: str | None = Field(default=None, min_length=1)
    """PLAIN, SCRAM: the user, or the API key."""
    password: SecretStr | None = None
    """PLAIN, SCRAM: usually ${env:NAME}."""
    password_file: Path | None = None
    """PLAIN, SCRAM: a file with the password; a change needs no restart."""
    ca: Path | None = None
    """PEM file of the authorities that signed the brokers' certificates; the system's, if left out."""
    certificate: Path | None = None
    """Mutual TLS: PEM file with this client's certificate."""
    key: Path | None = None
    """Mutual TLS: PEM file with its private key, without a password."""
    oauth: KafkaOAuthSettings | None = None
    """OAUTHBEARER: where tokens come from."""

    @field_validator("protocol", "mechanism", mode="before")
    @classmethod
    def _upper(cls, value: object) -> object:
        return value.upper() if isinstance(value, str) else value

    def _mistakes(self) -> Iterator[str]:
        yield from _without_content(self.password, "password")
        if not self.protocol.startswith("SASL"):
            reason = f"{self.protocol} has no users; write protocol: SASL_SSL, or leave the key out"
            yield from self._useless(reason, "mechanism", "username", "password", "password_file", "oauth")
        elif self.mechanism is None:
            yield f"with {self.protocol}, write mechanism: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER"
        if self.mechanism == "OAUTHBEARER":
            yield from self._useless("OAUTHBEARER asks the token endpoint", "username", "password", "password_file")
            if self.oauth is None:
                yield "with OAUTHBEARER, write oauth: {token_url: …, client_id: …, client_secret: …}"
        elif self.mechanism is not None:
            yield from self._useless(f"{self.mechanism} has a password", "oauth")
            if self.username is None or (self.password is None) == (self.password_file is None):
                yield f"with {self.mechanism}, write username, and either password or password_file"
        if not self.protocol.endswith("SSL"):
            yield from self._useless(f"{self.protocol} does not use TLS", "ca", "certificate", "key")
        if (self.certificate is None) != (self.key is None):
            yield "certificate and key belong together; write both for mutual TLS, or neither"

    def _useless(self, reason: str, *keys: str) -> Iterator[str]:
        return (f"{key} has no use here: {reason}" for key in keys if getattr(self, key) is not None)


def _without_content(secret: SecretStr | None, name: str) -> Iterator[str]:
    """An environment variable that is set and empty is a mistake, and a broker's answer would not say so."""
    if secret is not None and not secret.get_secret_value():
        yield f"{name} is empty; see that its environment variable is set"
