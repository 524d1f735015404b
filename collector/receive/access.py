"""Access to the OTLP receivers: their settings, and the authentication of senders by tokens and client certificates.

If either is configured, a request without it is refused. An address that sends many wrong tokens is answered slowly,
counted, and reported once.
"""

import asyncio
import hashlib
import hmac
import ipaddress
import logging
import ssl
import time
from base64 import b64decode
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web
from pydantic import Field, SecretStr, field_validator

from collector.admission.fair_limit import address_key
from collector.durations import Seconds
from collector.errors import ConfigError
from collector.logs.addresses import ListeningHost
from collector.receive.rejection import Rejected
from collector.receive.tenants import CertificateTenant, Tenant, TokenTenant, guaranteed_shares
from collector.section import Section
from evaluators.wire.pem_files import try_pem_files

logger = logging.getLogger(__name__)

FREE_GUESSES = 10
"""Wrong tokens from an address that are answered at once."""
GUESS_DELAY = 5.0
"""Seconds until each further one is answered."""
FORGET_AFTER = 60.0
"""Seconds without a wrong token after which an address is forgotten."""
MOST_ADDRESSES = 10_000
_MOST_WAITING = 2000
_MOST_REPORTED = 20


@dataclass(slots=True)
class _Address:
    wrong: int = 0
    last: float = 0.0
    reported: bool = False


class TokenGuesses:
    """The addresses that sent wrong tokens lately. A right token always passes: it never comes here.

    `where` is the receiver in log lines; `count` is called for each wrong token. Memory is bounded: the address that
    was quiet the longest is forgotten first.
    """

    def __init__(self, where: str, clock: Callable[[], float], count: Callable[[], object] = lambda: None) -> None:
        self._receiver = where
        self._clock = clock
        self._count = count
        self._addresses: OrderedDict[str, _Address] = OrderedDict()
        self._waiting = 0
        self._reported = 0

    def add(self, address: str) -> float:
        """Note a wrong token; gives how long (s) its answer has to wait."""
        now = self._clock()
        self._count()
        self._forget(now)
        entry = self._addresses.setdefault(address, _Address())
        self._addresses.move_to_end(address)
        entry.wrong += 1
        entry.last = now
        if entry.wrong <= FREE_GUESSES:
            return 0.0
        if not entry.reported and self._reported < _MOST_REPORTED:
            entry.reported = True
            self._reported += 1
            logger.warning("%s: wrong tokens from %s; its answers now take %g s", self._receiver, address, GUESS_DELAY)
        return GUESS_DELAY

    async def slow_down(self, address: str) -> None:
        """Note a wrong token, and wait before it is answered."""
        wait = self.add(address)
        if wait and self._waiting < _MOST_WAITING:
            self._waiting += 1
            try:
                await asyncio.sleep(wait)
            finally:
                self._waiting -= 1
        if wait:
            asyncio.get_running_loop().call_later(FORGET_AFTER, self._look)

    def _look(self) -> None:
        self._forget(self._clock())

    def _forget(self, now: float) -> None:
        while self._addresses:
            address, entry = next(iter(self._addresses.items()))
            if entry.last > now - FORGET_AFTER and len(self._addresses) < MOST_ADDRESSES:
                return
            del self._addresses[address]
            if entry.reported:
                self._reported -= 1
                logger.info(
                    "%s: %d wrong tokens from %s; none for %g s", self._receiver, entry.wrong, address, FORGET_AFTER
                )


LOOK_EVERY = 5.0
"""Seconds between two looks at the token files: a removed token may still be accepted for so long."""

_LEAST = 16  # characters of a token


class AuthSettings(Section):
    """Bearer tokens, any of which lets a sender in. Name several to rotate them."""

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
    """Bearer tokens of senders, any of which lets one in. Name several to rotate them."""

    tenants: tuple[TokenTenant, ...] = ()
    """Named senders, each with a token and its own share of the limits."""

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
    """PEM file with the server's certificate and the intermediate certificates."""
    key: Path
    """PEM file with its private key, without a password."""
    client_ca: Path | None = None
    """PEM file of the authorities whose clients are let in; others fail the handshake."""


class SenderTlsSettings(TlsSettings):
    """TLS, and with `client_ca` mutual TLS."""

    tenants: tuple[CertificateTenant, ...] = ()
    """Named senders, each with a certificate and its own share of the limits."""

    def _mistakes(self) -> Iterator[str]:
        if self.tenants and self.client_ca is None:
            yield "tenants are known by certificates that client_ca has signed; write client_ca"


def is_loopback(host: str) -> bool:
    """Whether an address can be reached only from this machine."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def ssl_context_of(settings: TlsSettings, where: str) -> ssl.SSLContext:
    """TLS 1.2 or newer. `where` is the receiver's place in the configuration.

    Raises:
        ConfigError: a file cannot be read or is not what it should be.
    """
    try:
        try_pem_files(settings.certificate, settings.key, client_ca=settings.client_ca)
    except ValueError as problem:
        raise ConfigError(f"{where}.tls.{problem}") from None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(settings.certificate, settings.key)
    if settings.client_ca is not None:
        context.load_verify_locations(settings.client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


class BearerTokens:
    """The guard of a receiver, or of the page: lets in who shows one of the tokens.

    Tokens are kept as hashes, and each is compared with the presented token, in a time that depends neither on where
    they differ nor on which one is right.
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
        self._configured_hashes = tuple(_hash(token.get_secret_value()) for token in settings.tokens)
        self._tenants: dict[bytes, Tenant] = {
            _hash(tenant.token.get_secret_value()): tenant
            for tenant in (settings.tenants if isinstance(settings, SenderAuthSettings) else ())
        }
        self._configured_hashes += tuple(self._tenants)
        self._guesses = TokenGuesses(where, clock, on_wrong)
        self._files = tuple(map(Path.absolute, settings.token_files))
        self._clock = clock
        self._stamps: tuple[tuple[int, int], ...] = ()
        self._valid_hashes: tuple[bytes, ...] = self._configured_hashes
        self._look_at = clock() + LOOK_EVERY
        try:
            self._read()
        except (OSError, UnicodeDecodeError) as error:
            name = getattr(error, "filename", "") or "one of them"
            raise ConfigError(f"{where}.auth.token_files: {name} cannot be read as text") from None
        if not self._valid_hashes:
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
        token = _token(authorization)
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
        for known in self._valid_hashes:
            matches |= hmac.compare_digest(known, hashed)
        return matches

    @staticmethod
    def sign(token: str, text: str) -> str:
        """A keyed hash of a text: it takes a token to make one, and the token cannot be recovered from it."""
        return _signature(_hash(token), text)

    def verify(self, text: str, signature: str) -> bool:
        """Whether the signature was made from the text with one of the tokens."""
        self._look()
        matches = False
        for known in self._valid_hashes:
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
            self._valid_hashes = (*self._configured_hashes, *map(_hash, _lines(self._files)))
            self._stamps = stamps


def _token(authorization: str) -> str:
    """A bearer token, or the password where a client can only put credentials into an address: `https://x:token@host`."""
    kind, _, credentials = authorization.partition(" ")
    if kind.lower() == "basic":
        try:
            return b64decode(credentials, validate=True).decode().partition(":")[2]
        except ValueError:
            return ""
    return credentials.strip() if kind.lower() == "bearer" else ""


def _lines(files: Sequence[Path]) -> Iterable[str]:
    for file in files:
        yield from (line.strip() for line in file.read_text().splitlines() if len(line.strip()) >= _LEAST)


def _signature(hashed: bytes, text: str) -> str:
    return hmac.digest(hashed, text.encode(), "sha256").hex()


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


_MOST_GUARANTEED = 0.9


class OtlpSettings(Section):
    """The limits of a receiver of OTLP, for both protocols.

    A request that is beyond a fixed limit is answered with 413 over HTTP and INVALID_ARGUMENT over gRPC; one for which
    there is only no room now, with 503 and with RESOURCE_EXHAUSTED and a RetryInfo.
    """

    host: ListeningHost = "127.0.0.1"
    """Address to listen on."""
    port: int = Field(ge=0, le=65535)
    """Port; 0 takes any free one."""
    max_body_bytes: int = Field(default=4 * 1024**2, ge=1024)
    """Largest request, before and after decompression; beyond: rejected."""
    max_items: int = Field(default=20_000, ge=1)
    """Most spans or log records in one request; beyond: rejected."""
    body_deadline: Seconds = Field(default=10.0, gt=0)
    """Time for a body to arrive; beyond: rejected."""
    log_deadline: Seconds = Field(default=10.0, gt=0)
    """Time for the spans log to store it; beyond: the sender must retry."""
    max_requests: int = Field(default=256, ge=1)
    """Most requests at once; beyond: the sender must retry."""
    max_pending_bytes: int = Field(default=128 * 1024**2, ge=1024)
    """Bytes of requests read but not yet durable; beyond: the sender must retry."""
    max_connections: int = Field(default=1000, ge=1)
    """Open connections; beyond: closed."""
    idle_timeout: Seconds = Field(default=30.0, gt=0)
    """An idle connection, or one slow with its headers, is closed after this long."""
    retry_after: Seconds = Field(default=1.0, ge=0)
    """How long senders that must retry are asked to wait."""
    stop_grace: Seconds = Field(default=10.0, ge=0)
    """Time for running requests to finish at the stop."""
    auth: SenderAuthSettings | None = None
    """Bearer tokens that senders must present."""
    tls: SenderTlsSettings | None = None
    """TLS, and mutual TLS."""
    insecure: bool = False
    """Listen beyond this machine without authentication."""

    @property
    def tenants(self) -> tuple[Tenant, ...]:
        """Every tenant that is named, once for each of its credentials."""
        return (*(self.auth.tenants if self.auth else ()), *(self.tls.tenants if self.tls else ()))

    def _mistakes(self) -> Iterator[str]:
        if sum(guaranteed_shares(self.tenants).values()) > _MOST_GUARANTEED:
            yield f"the shares of all tenants come to more than {_MOST_GUARANTEED}; some must stay for others"
        authentic = self.auth is not None or (self.tls is not None and self.tls.client_ca is not None)
        if not (authentic or self.insecure or is_loopback(self.host)):
            yield (
                f"host {self.host} lets anybody send who reaches it; write auth: {{tokens: [...]}} or "
                "tls: {client_ca: ...}, or insecure: true where the network keeps others out"
            )


class OtlpHttpSettings(OtlpSettings):
    """The OTLP/HTTP receiver."""

    port: int = Field(default=4318, ge=0, le=65535)
    """Port; 0 takes any free one."""
    origins: list[str] = Field(default_factory=list)
    """Origins of pages that may send from a browser, such as https://app.example.com; '*' means any."""


class OtlpGrpcSettings(OtlpSettings):
    """The OTLP/gRPC receiver; it needs `pip install '.[grpc]'`."""

    port: int = Field(default=4317, ge=0, le=65535)
    """Port; 0 takes any free one."""
