"""Who gets in: tokens, certificates, and what is refused before anything listens."""

from __future__ import annotations

import ssl
import subprocess

import aiohttp
import pytest
from pydantic import ValidationError

from collector.errors import ConfigError
from collector.logs.memory import MemoryLog
from collector.receive.access import LOOK_EVERY, AuthSettings, BearerTokens, SenderAuthSettings
from collector.receive.otlp_http import OtlpHttpReceiver, OtlpHttpSettings
from collector.telemetry.registry import Telemetry

GOOD, ALSO = "a-good-token-0123456789", "another-token-0123456789"
HEADERS = {"Content-Type": "application/x-protobuf"}


def receiver(**settings) -> OtlpHttpReceiver:
    made = OtlpHttpSettings.model_validate({"port": 0} | settings)
    return OtlpHttpReceiver(made, MemoryLog("spans", partitions=1), Telemetry())


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (f"Bearer {GOOD}", 200),
        (f"bearer {ALSO}", 200),
        (None, 401),
        ("", 401),
        ("Bearer", 401),
        ("Bearer ", 401),
        (f"Bearer {GOOD[:-1]}", 401),
        (f"Bearer {GOOD}x", 401),
        (f"Bearer {GOOD.upper()}", 401),
        (f"Basic {GOOD}", 401),
        (GOOD, 401),
        (f"Bearer {GOOD},{ALSO}", 401),
        ("Bearer \xff\xfe", 401),
    ],
)
async def test_only_a_whole_token_lets_in(header, status):
    headers = HEADERS | ({} if header is None else {"Authorization": header})
    async with receiver(auth={"tokens": [GOOD, ALSO]}).serve() as port, aiohttp.ClientSession() as session:
        url = f"http://127.0.0.1:{port}/v1/traces"
        async with session.post(url, data=b"", headers=headers) as response:
            assert response.status == status
            assert GOOD not in await response.text(errors="replace")
            assert (response.headers.get("WWW-Authenticate") == "Bearer") == (status == 401)


def test_every_token_is_compared_whole(monkeypatch):
    compared = []
    monkeypatch.setattr("hmac.compare_digest", lambda one, two: compared.append((one, two)) or one == two)
    tokens = BearerTokens(AuthSettings(tokens=(GOOD, ALSO)), "receive.otlp_http")

    assert tokens.is_valid(GOOD)
    assert len(compared) == 2, "finding the first does not end the comparison"
    assert {len(each) for pair in compared for each in pair} == {32}, "hashes, so that length tells nothing"


def test_token_files_rotate_without_a_restart(tmp_path):
    now = [0.0]
    file = tmp_path / "tokens"
    file.write_text(GOOD + "\n")
    tokens = BearerTokens(AuthSettings(token_files=(file,)), "receive.otlp_http", clock=lambda: now[0])
    file.write_text(f"{ALSO}\n\n")

    now[0] = LOOK_EVERY
    assert tokens.is_valid(ALSO)
    assert not tokens.is_valid(GOOD)
    assert not tokens.is_valid("")

    file.unlink()
    now[0] = 2 * LOOK_EVERY
    assert tokens.is_valid(ALSO), "while a file is being replaced the old tokens hold"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com"])
def test_nothing_listens_beyond_loopback_without_authentication(host, tmp_path):
    with pytest.raises(ValidationError, match="insecure: true"):
        OtlpHttpSettings(host=host)
    OtlpHttpSettings(host=host, insecure=True)
    OtlpHttpSettings(host=host, auth=SenderAuthSettings(tokens=(GOOD,)))


def test_short_tokens_are_refused_without_being_shown():
    with pytest.raises(ValidationError) as raised:
        OtlpHttpSettings.model_validate({"auth": {"tokens": ["hunter2"]}})
    assert "hunter2" not in str(raised.value.errors(include_input=False, include_url=False))


def test_a_file_of_short_tokens_says_what_is_wrong_with_them(tmp_path):
    file = tmp_path / "tokens"
    file.write_text("hunter2\n")
    with pytest.raises(ConfigError, match="no token of 16 characters or more") as raised:
        BearerTokens(AuthSettings(token_files=(file,)), "receive.otlp_http")
    assert "hunter2" not in str(raised.value)


def make_certificates(folder):
    """Two authorities, each with one certificate for localhost."""
    for name in ("ours", "others"):
        run = lambda *arguments: subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)  # noqa: E731
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        run("req", "-x509", *curve, "-keyout", f"{name}-ca.key", "-out", f"{name}-ca.pem", "-subj", f"/CN={name}", "-days", "2",
            "-addext", "keyUsage=critical,keyCertSign")  # fmt: skip
        run("req", *curve, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", "/CN=localhost")
        (folder / "ext").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        run("x509", "-req", "-in", f"{name}.csr", "-CA", f"{name}-ca.pem", "-CAkey", f"{name}-ca.key", "-CAcreateserial",
            "-out", f"{name}.pem", "-days", "2", "-extfile", "ext")  # fmt: skip


def sign_expired(folder):
    """A certificate of our authority that was good until yesterday."""
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    signed = ("-CA", "ours-ca.pem", "-CAkey", "ours-ca.key", "-CAcreateserial", "-days", "-1")
    for arguments in (
        ("req", *curve, "-keyout", "expired.key", "-out", "expired.csr", "-subj", "/CN=localhost"),
        ("x509", "-req", "-in", "expired.csr", *signed, "-out", "expired.pem"),
    ):
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


async def test_mutual_tls_lets_only_our_clients_in(tmp_path):
    make_certificates(tmp_path)
    tls = {
        "certificate": tmp_path / "ours.pem",
        "key": tmp_path / "ours.key",
        "client_ca": tmp_path / "ours-ca.pem",
    }

    async def post(port: int, client: str | None) -> int:
        context = ssl.create_default_context(cafile=tmp_path / "ours-ca.pem")
        if client:
            context.load_cert_chain(tmp_path / f"{client}.pem", tmp_path / f"{client}.key")
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"https://127.0.0.1:{port}/v1/traces", data=b"", headers=HEADERS, ssl=context) as response,
        ):
            return response.status

    sign_expired(tmp_path)
    async with receiver(tls=tls).serve() as port:
        assert await post(port, "ours") == 200
        for client in ("others", "expired", None):
            with pytest.raises(aiohttp.ClientError):
                await post(port, client)
