"""Tenants: named senders, and the key by which each sender's share of a limit is counted."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, cast

from pydantic import Field, SecretStr

from collector.admission.fair_limit import address_key
from collector.section import Section

UNNAMED = "unnamed"
"""The tenant in metrics of senders without a name."""

_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"


class Tenant(Section):
    """A named sender, with a share of the limits and a rate."""

    name: str = Field(min_length=1, max_length=64, pattern=_NAME)
    """Name of the tenant, as metrics show it."""
    share: float = Field(default=0.0, ge=0.0, le=0.9)
    """Part of max_requests and max_pending_bytes that is reserved for this tenant; the rest is shared."""
    rate: float | None = Field(default=None, gt=0)
    """Most spans and log records per second; beyond: the sender must retry."""


class TokenTenant(Tenant):
    """A sender with a bearer token. A tenant may have several tokens, each written with its name."""

    token: SecretStr
    """The token, usually ${env:NAME}."""


class CertificateTenant(Tenant):
    """A sender with a client certificate, known by a name in it."""

    subject: str = Field(min_length=1)
    """Common name, or DNS or URI alternative name, of its certificates."""


class Sender(NamedTuple):
    """The sender of a request: `key` is the tenant, the certificate or else the address, as limits count it."""

    key: str
    tenant: Tenant | None = None

    @property
    def label(self) -> str:
        """The tenant in metrics."""
        return self.tenant.name if self.tenant else UNNAMED


def sender_of(address: str | None, tenant: Tenant | None, subjects: Iterable[str] = ()) -> Sender:
    """The sender at an address with a tenant's credential, or a certificate with these subjects."""
    if tenant is not None:
        return Sender(tenant_key(tenant.name), tenant)
    subject = next(iter(subjects), None)
    return Sender(f"certificate {subject}" if subject else address_key(address))


def tenant_key(name: str) -> str:
    """The key of a tenant."""
    return f"tenant {name}"


def guaranteed_shares(tenants: Iterable[Tenant]) -> dict[str, float]:
    """The reserved parts by key; the largest where a tenant is written several times."""
    shares: dict[str, float] = {}
    for tenant in tenants:
        key = tenant_key(tenant.name)
        shares[key] = max(shares.get(key, 0.0), tenant.share)
    return shares


def subjects_of(certificate: Mapping[str, Any] | None) -> list[str]:
    """The names in a client certificate as Python's ssl gives it: its common name, DNS and URI names."""
    if not certificate:
        return []
    parts = cast("tuple[tuple[tuple[str, str], ...], ...]", certificate.get("subject", ()))
    names = [value for part in parts for kind, value in part if kind == "commonName"]
    alternatives = cast("tuple[tuple[str, str], ...]", certificate.get("subjectAltName", ()))
    return names + [value for kind, value in alternatives if kind in {"DNS", "URI"}]


def tenant_with(subjects: Iterable[str], tenants: Iterable[CertificateTenant]) -> Tenant | None:
    """The tenant that has one of these subjects."""
    by_subject = {tenant.subject: tenant for tenant in tenants}
    return next((by_subject[subject] for subject in subjects if subject in by_subject), None)
