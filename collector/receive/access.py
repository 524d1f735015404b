"""Authenticates senders by bearer tokens and client certificates, and refuses requests without either."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import ssl
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Self

from aiohttp import web
from pydantic import SecretStr, field_validator, model_validator

from collector.admission.fair_limit import address_key
from collector.errors import ConfigError
from collector.receive.rejection import Rejected
from collector.receive.tenants import CertificateTenant, Tenant, TokenTenant
from collector.receive.token_guesses import TokenGuesses
from collector.section import Section

LOOK_EVERY = 5.0
"""Seconds between two looks at the token files: so long a token that was taken away may still be good."""

_LEAST = 16  # characters of a token


class AuthSettings(Section):
    """Bearer tokens, any of which lets a sender in. Several, so that they can be changed one after the other."""

    tokens: tuple[SecretStr, ...] = ()
    """Tokens, each usually ${env:NAME}."""
    token_files: tuple[Path, ...] = ()
    """Files with a token per line; read again when they change."""

    @field_validator("tokens")
    @classmethod
    def _long_enough(cls, tokens: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
        if any(len(token.get_secret_value()) < _LEAST for token in tokens):
            raise ValueError(f"a token is shorter than {_LEAST} characters; make one with: openssl rand -hex 32")
        return tokens


class SenderAuthSettings(AuthSettings):
    """Bearer tokens of senders, any of which lets one in. Several, so that they can be changed one after the other."""

    tenants: tuple[TokenTenant, ...] = ()
    """Senders with a name, a token and a share of the limits of their own."""

    @field_validator("tenants")
    @classmethod
    def _also_long_enough(cls, tenants: tuple[TokenTenant, ...]) -> tuple[TokenTenant, ...]:
        cls._long_enough(tuple(tenant.token for tenant in tenants))
        return tenants

    @property
    def unnamed(self) -> AuthSettings | None:
        """The same without tenants; None where nothing is left."""
        if not (self.tokens or self.token_files):
            return None
        return AuthSettings(tokens=self.tokens, token_files=self.token_files)


class TlsSettings(Section):
    """TLS, and with `client_ca` mutual TLS."""

    certificate: Path
    """PEM file with the server's certificate and those that lead to its root."""
    key: Path
    """PEM file with its private key, without a password."""
    client_ca: Path | None = None
    """PEM file of the authorities whose clients are let in; others fail the handshake."""


class SenderTlsSettings(TlsSettings):
    """TLS, and with `client_ca` mutual TLS."""

    tenants: tuple[CertificateTenant, ...] = ()
    """Senders with a name, a certificate and a share of the limits of their own."""

    @model_validator(mode="after")
    def _verified(self) -> Self:
        if self.tenants and self.client_ca is None:
            raise ValueError("tenants are known by certificates that client_ca has signed; write client_ca")
        return self


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine reaches an address."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def ssl_context_of(settings: TlsSettings, where: str) -> ssl.SSLContext:
    """TLS 1.2 or newer. `where` is the receiver's place in the configuration.

    Raises:
        ConfigError: a file cannot be read or is not what it should be.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(settings.certificate, settings.key, password=_no_password)
        if settings.client_ca is not None:
            context.load_verify_locations(settings.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ValueError) as error:  # SSLError is an OSError
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or type(error).__name__
        raise ConfigError(f"{where}.tls: a file cannot be used ({reason}); give PEM files") from None
    return context


def _no_password() -> str:
    raise ValueError("the key has a password")


class BearerTokens:
    """The guard of a receiver, or of the page: lets in who shows one of the tokens.

    Tokens are kept as hashes, and every one is compared with what is shown, in a time that does not depend on where
    they differ or on which of them is right.
    """

    def __init__(
        self,
        settings: AuthSettings,
        where: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        on_wrong: Callable[[], object] = lambda: None,
    ) -> None:
        """Read the token files. `where` is the receiver's place in the configuration; `on_wrong` counts wrong tokens.

        Raises:
            ConfigError: one cannot be read, or there is no token in any.
        """
        self._fixed = tuple(_hash(token.get_secret_value()) for token in settings.tokens)
        self._tenants: dict[bytes, Tenant] = {
            _hash(tenant.token.get_secret_value()): tenant
            for tenant in (settings.tenants if isinstance(settings, SenderAuthSettings) else ())
        }
        self._fixed += tuple(self._tenants)
        self._guesses = TokenGuesses(where, clock, on_wrong)
        self._files = settings.token_files
        self._clock = clock
        self._stamps: tuple[tuple[int, int], ...] = ()
        self._known: tuple[bytes, ...] = self._fixed
        self._look_at = clock() + LOOK_EVERY
        try:
            self._read()
        except (OSError, UnicodeDecodeError) as error:
            name = getattr(error, "filename", "") or "one of them"
            raise ConfigError(f"{where}.auth.token_files: {name} cannot be read as text") from None
        if not self._known:
            what = f"holds no token of {_LEAST} characters or more"
            raise ConfigError(f"{where}.auth: {what}; give tokens or token_files, made with: openssl rand -hex 32")

    async def authenticate(self, request: web.BaseRequest) -> Tenant | None:
        """Let an HTTP request in; gives the token's tenant, None for a token without a name.

        Raises:
            Rejected: 401.
        """
        return await self.require(request.headers.get("Authorization", ""), address_key(request.remote))

    async def require(self, authorization: str, address: str) -> Tenant | None:
        """Let in who sends this as `Authorization` from an address; many wrong tokens from one are answered slowly.

        Raises:
            Rejected: 401.
        """
        kind, _, token = authorization.partition(" ")
        token = token.strip() if kind.lower() == "bearer" else ""
        if not self.is_valid(token):
            if token:  # a request without one guesses nothing
                await self._guesses.slow_down(address)
            raise Rejected(401, "a valid bearer token is required", headers={"WWW-Authenticate": "Bearer"})
        return self._tenants.get(_hash(token))

    async def is_right(self, token: str, address: str) -> bool:
        """Whether this is one of the tokens; many wrong ones from an address are answered slowly."""
        valid = self.is_valid(token)
        if not valid:
            await self._guesses.slow_down(address)
        return valid

    def is_valid(self, token: str) -> bool:
        """Whether this is one of the tokens."""
        self._look()
        hashed = _hash(token)
        matches = False
        for known in self._known:
            matches |= hmac.compare_digest(known, hashed)
        return matches

    @staticmethod
    def sign(token: str, text: str) -> str:
        """A keyed hash of a text: it takes a token to make one, and the token cannot be recovered from it."""
        return _signature(_hash(token), text)

    def verify(self, text: str, signature: str) -> bool:
        """Whether one of the tokens made this of the text."""
        self._look()
        matches = False
        for known in self._known:
            matches |= hmac.compare_digest(_signature(known, text).encode(), signature.encode("utf-8", "replace"))
        return matches

    def _look(self) -> None:
        if self._files and self._clock() >= self._look_at:
            self._look_at = self._clock() + LOOK_EVERY
            try:
                self._read()
            except (OSError, UnicodeDecodeError):  # in the middle of being replaced: the old ones hold until then
                return

    def _read(self) -> None:
        stamps = tuple((stat.st_mtime_ns, stat.st_ino) for stat in map(Path.stat, self._files))
        if stamps != self._stamps:
            self._known = (*self._fixed, *map(_hash, _lines(self._files)))
            self._stamps = stamps


def _lines(files: Sequence[Path]) -> Iterable[str]:
    for file in files:
        for line in file.read_text().splitlines():
            if len(line.strip()) >= _LEAST:
                yield line.strip()


def _signature(hashed: bytes, text: str) -> str:
    return hmac.digest(hashed, text.encode(), "sha256").hex()


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
