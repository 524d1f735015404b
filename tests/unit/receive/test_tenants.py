from __future__ import annotations

import pytest
from pydantic import SecretStr, ValidationError

from collector.admission.fair_limit import address_key
from collector.receive.access import AuthSettings, OtlpGrpcSettings, OtlpHttpSettings, SenderAuthSettings
from collector.receive.otlp_ingest import SenderLimits
from collector.receive.rejection import Rejected
from collector.receive.tenants import CertificateTenant, Tenant, sender_of, subjects_of, tenant_with
from collector.telemetry.registry import Telemetry

TOKEN = "a-good-token-0123456789"


@pytest.mark.parametrize(
    ("address", "key"),
    [
        ("192.0.2.1", "address 192.0.2.1"),
        ("::ffff:192.0.2.1", "address 192.0.2.1"),
        ("2001:db8:1:2:3::4", "address 2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1", "address 2001:db8:1:2::/64"),
        ("::1", "address ::1"),
        ("fe80::1%eth0", "address fe80::/64"),
        (None, "address unknown"),
        ("", "address unknown"),
    ],
)
def test_a_sender_is_its_address_or_its_network(address: str | None, key: str):
    assert address_key(address) == key


def test_a_credential_counts_before_the_address():
    team = Tenant(name="team-a")
    assert sender_of("192.0.2.1", team, ["x"]).key == sender_of("192.0.2.2", team).key == "tenant team-a"
    assert sender_of("192.0.2.1", None, ["x.example"]).key == "certificate x.example"
    assert sender_of("192.0.2.1", team).label == "team-a"
    assert sender_of("192.0.2.1", None).label == "unnamed"


def test_certificates_are_known_by_common_or_alternative_name():
    certificate = {
        "subject": ((("countryName", "DE"),), (("commonName", "front"),)),
        "subjectAltName": (("DNS", "a.example"), ("URI", "spiffe://x/a"), ("IP Address", "192.0.2.1")),
    }
    assert subjects_of(certificate) == ["front", "a.example", "spiffe://x/a"]
    assert subjects_of(None) == subjects_of({}) == []
    team = CertificateTenant(name="team-a", subject="spiffe://x/a")
    assert tenant_with(subjects_of(certificate), [team]) is team
    assert tenant_with(["other"], [team]) is None


def test_tokens_with_and_without_a_name_stand_side_by_side():
    auth = SenderAuthSettings.model_validate({"tokens": [TOKEN], "tenants": [{"name": "team-a", "token": TOKEN + "2"}]})
    assert auth.unnamed == AuthSettings(tokens=(SecretStr(TOKEN),)), "no tenant's token opens the page"
    assert SenderAuthSettings.model_validate({"tenants": [{"name": "a", "token": TOKEN}]}).unnamed is None


@pytest.mark.parametrize(
    "token",
    [{"name": "a", "token": "short"}, {"name": "a b", "token": TOKEN}, {"name": "a", "token": TOKEN, "rate": 0}],
)
def test_tenants_that_cannot_be(token: dict[str, object]):
    with pytest.raises(ValidationError) as raised:
        SenderAuthSettings.model_validate({"tenants": [token]})
    assert TOKEN not in str(raised.value.errors(include_input=False, include_url=False))


def test_shares_leave_something_to_others():
    tokens = [{"name": name, "token": TOKEN + name, "share": 0.5} for name in ("a", "b")]
    with pytest.raises(ValidationError, match="come to more than"):
        OtlpHttpSettings.model_validate({"auth": {"tenants": tokens}})


def test_clients_need_an_authority(tmp_path):
    with pytest.raises(ValidationError, match="write client_ca"):
        OtlpHttpSettings.model_validate(
            {"tls": {"certificate": "x", "key": "y", "tenants": [{"name": "a", "subject": "b"}]}}
        )


def test_a_rate_is_charged_by_items_over_all_receivers():
    now = [0.0]
    token = {"name": "team-a", "token": TOKEN, "rate": 10}
    receivers = [kind.model_validate({"auth": {"tenants": [token]}}) for kind in (OtlpHttpSettings, OtlpGrpcSettings)]
    limits = SenderLimits(receivers, Telemetry(), clock=lambda: now[0])
    team, other = sender_of("192.0.2.1", receivers[0].tenants[0]), sender_of("192.0.2.1", None)

    limits.require_rate(team)
    limits.count_items(team, 150)  # ten seconds' worth may come at once; the rest has to be waited for
    with pytest.raises(Rejected, match="team-a sends more") as raised:
        limits.require_rate(team)
    assert (raised.value.status, raised.value.retry_after, raised.value.reason) == (429, 5.0, "rate")
    limits.require_rate(other)
    now[0] = 5.1
    limits.require_rate(team)


def test_tenants_are_labels_whatever_strangers_use_up():
    telemetry = Telemetry(label_values=1)
    SenderLimits(
        [OtlpHttpSettings.model_validate({"auth": {"tenants": [{"name": "team-a", "token": TOKEN}]}})], telemetry
    )
    assert telemetry._capped("tenant", "team-a") == "team-a"
    assert telemetry._capped("tenant", "unnamed") == "unnamed"
