"""The security of connections, as options of kafka-python; files and tokens are read again for each connection."""

import ssl
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib import error, parse

from kafka.net.sasl.oauth import AbstractTokenProvider

from collector.logs.kafka_security import KafkaOAuthSettings, KafkaSecuritySettings
from collector.logs.log import LogError, LogRefused, LogUnavailable
from evaluators.wire.http_client import ask_blocking
from evaluators.wire.outside_json import read_outside
from evaluators.wire.pem_files import no_password, try_pem_files

TOKEN_WITHIN = 5.0
"""Seconds that the token endpoint may take. A running client waits meanwhile, and sends no heartbeats."""

USED_FOR = 0.6
"""The share of its life for which a token is shown; then the next connection gets another."""

_TokenProvider: Any = AbstractTokenProvider  # untyped


class Credentials:
    """The credentials of all clients of one process for one cluster; without `security` there are none."""

    def __init__(self, security: KafkaSecuritySettings | None = None) -> None:
        self.security = security
        self._tokens = _Tokens(security.oauth) if security is not None and security.oauth is not None else None

    def options(self) -> dict[str, Any]:
        """The present options of a client.

        Raises:
            LogRefused: a file cannot be read, or is not what it should be; or the token endpoint refuses us.
            LogUnavailable: the token endpoint does not answer.
        """
        security = self.security
        if security is None:
            return {}
        authorities = {"ca": security.ca, "oauth.ca": security.oauth.ca if security.oauth else None}
        try:
            try_pem_files(security.certificate, security.key, **authorities)
        except ValueError as problem:
            raise LogRefused(f"security.{problem}") from None
        if self._tokens is not None:
            self._tokens.token()
        return {**_fixed(security), "sasl_oauth_token_provider": self._tokens, **_login(security)}

    def login(self) -> dict[str, Any]:
        """The options that a running client takes over for its next connection; none if they cannot be read now."""
        try:
            return _login(self.security) if self.security is not None else {}
        except LogError:  # in the middle of being replaced
            return {}


def _fixed(security: KafkaSecuritySettings) -> dict[str, Any]:
    files = {"ssl_cafile": security.ca, "ssl_certfile": security.certificate, "ssl_keyfile": security.key}
    return {
        "security_protocol": security.protocol,
        "sasl_mechanism": security.mechanism,
        "ssl_password": no_password,
        **{name: None if path is None else str(path) for name, path in files.items()},
    }


def _login(security: KafkaSecuritySettings) -> dict[str, Any]:
    if security.username is None:
        return {}
    if security.password is not None:
        password = security.password.get_secret_value()
    else:
        assert security.password_file is not None  # the configuration is checked
        password = _secret_in(security.password_file, "password_file")
    return {"sasl_plain_username": security.username, "sasl_plain_password": password}


def _secret_in(path: Path, key: str) -> str:
    path = path.absolute()
    try:
        secret = path.read_text("utf-8").rstrip("\r\n")
    except OSError as problem:
        raise LogRefused(f"security.{key}: {path} cannot be read ({problem.strerror})") from None
    except UnicodeDecodeError:
        raise LogRefused(f"security.{key}: {path} is not text") from None
    if not secret:
        raise LogRefused(f"security.{key}: {path} is empty; write the password into it")
    return secret


class _Tokens(_TokenProvider):
    """Tokens by client credentials, each shown for a good half of its life."""

    def __init__(self, settings: KafkaOAuthSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._token = ""
        self._renew_at = self._good_until = 0.0

    def token(self) -> str:
        """The token to show now. Blocks while it is fetched.

        Raises:
            LogRefused: the endpoint refuses us.
            LogUnavailable: it does not answer.
        """
        now = self._clock()
        if now >= self._renew_at:
            try:
                self._token, life = _fetch(self._settings)
            except LogUnavailable:
                if now >= self._good_until:
                    raise
            else:
                self._renew_at, self._good_until = now + USED_FOR * life, now + life
        return self._token

    def extensions(self) -> Mapping[str, str]:
        """SASL extensions that go with each token."""
        return self._settings.extensions


def _fetch(settings: KafkaOAuthSettings) -> tuple[str, float]:
    """A token and its life in seconds."""
    where = f"security.oauth: {settings.token_url}"
    fields = {"grant_type": "client_credentials", "client_id": settings.client_id, "client_secret": _secret(settings)}
    fields |= {"scope": settings.scope} if settings.scope else {}
    body = parse.urlencode({**fields, **settings.parameters}).encode()
    try:
        context = ssl.create_default_context(cafile=settings.ca) if settings.token_url.startswith("https") else None
        headers = {"Accept": "application/json"}
        answer = ask_blocking(settings.token_url, body, headers, timeout=TOKEN_WITHIN, ssl_context=context)
        fields: Any = read_outside(answer)
        token, life = str(fields["access_token"]), float(fields.get("expires_in", 300))
    except error.HTTPError as problem:
        problem.close()
        if problem.code >= 500 or problem.code == 429:
            raise LogUnavailable(f"{where} answers {problem.code}") from None
        raise LogRefused(
            f"{where} refuses the client {settings.client_id} ({problem.code}); "
            "correct client_id, client_secret and scope"
        ) from None
    except ssl.SSLError as problem:
        raise LogRefused(f"{where}: its certificate is not trusted ({problem.reason}); set security.oauth.ca") from None
    except OSError as problem:
        why = getattr(problem, "reason", None) or problem
        if isinstance(why, ssl.SSLError):
            raise LogRefused(f"{where}: its certificate is not trusted ({why.reason}); set security.oauth.ca") from None
        raise LogUnavailable(f"{where} does not answer ({why})") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise LogRefused(f"{where} did not answer with a token; name the token endpoint") from None
    return token, life


def _secret(settings: KafkaOAuthSettings) -> str:
    if settings.client_secret is not None:
        return settings.client_secret.get_secret_value()
    assert settings.client_secret_file is not None  # the configuration is checked
    return _secret_in(settings.client_secret_file, "oauth.client_secret_file")
