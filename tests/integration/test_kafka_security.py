"""Logs on a real broker with TLS, users and ACLs: each mechanism, each mistake, and what changes while it runs."""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from broker import Broker
from broker_security import PLAIN_USERS, grant, revoke, set_password
from kafka.errors import SaslAuthenticationFailedError, UnsupportedSaslMechanismError
from kafka_logs import fresh, settings_for
from log_stores import TIMING

from collector.logs.kafka import Credentials, KafkaLog, KafkaSettings
from collector.logs.kafka.settings import translate
from collector.logs.kafka_security import KafkaSecuritySettings
from collector.logs.log import LogRefused, LogUnavailable, Record
from collector.service.app import LogProbe

pytestmark = pytest.mark.kafka
TOPIC_RIGHTS = ("READ", "WRITE", "CREATE", "DESCRIBE_CONFIGS")


def secured(broker: Broker, **security: Any) -> KafkaSettings:
    server = broker.mutual if security["protocol"] == "SSL" else broker.secure
    return replace(
        settings_for(broker, bootstrap_servers=[server]),
        credentials=Credentials(KafkaSecuritySettings.model_validate(security)),
    )


def scram(broker: Broker, user: str, secret: str, **more: Any) -> KafkaSettings:
    assert broker.certificates is not None
    keys = {"protocol": "SASL_SSL", "mechanism": "SCRAM-SHA-512", "username": user, "password": secret or None}
    return secured(broker, **{**keys, "ca": broker.certificates.ca, **more})


@asynccontextmanager
async def opened(settings: KafkaSettings, topic: str) -> AsyncIterator[KafkaLog]:
    logs = await KafkaLog.open(settings, {"spans": topic}, 1, timing=TIMING)
    try:
        yield logs["spans"]
    finally:
        await logs["spans"].close()


async def values(log: KafkaLog) -> list[bytes]:
    return [record.value async for batch in log.read(0, 0) for record in batch]


async def round_trip(settings: KafkaSettings, topic: str) -> None:
    async with opened(settings, topic) as log:
        await log.append([Record(b"k", b"1")])
        assert await values(log) == [b"1"]


def permitted(broker: Broker, user: str) -> str:
    """A topic's name on which the user has all that is needed."""
    topic = fresh("secured")
    grant(broker.bootstrap, user, "TOPIC", topic, *TOPIC_RIGHTS)
    return topic


def user_of(broker: Broker, password: str, *mechanisms: str) -> str:
    name = fresh("user")
    set_password(broker.bootstrap, name, password, *mechanisms)
    return name


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_scram_over_tls(secured_broker: Broker, mechanism: str) -> None:
    user = user_of(secured_broker, "s3cret=,", mechanism)
    settings = scram(secured_broker, user, "s3cret=,", mechanism=mechanism)
    await round_trip(settings, permitted(secured_broker, user))


async def test_plain_over_tls(secured_broker: Broker) -> None:
    (user, password), *_ = PLAIN_USERS.items()
    await round_trip(scram(secured_broker, user, password, mechanism="PLAIN"), permitted(secured_broker, user))


async def test_mutual_tls(secured_broker: Broker) -> None:
    files = secured_broker.certificates
    assert files is not None
    settings = secured(
        secured_broker, protocol="SSL", ca=files.ca, certificate=files.client_certificate, key=files.client_key
    )
    await round_trip(settings, permitted(secured_broker, "CN=client"))


class TokenEndpoint:
    """An endpoint of OAuth 2.0: gives unsigned tokens, as the broker of these tests accepts them."""

    def __init__(self) -> None:
        self.status, self.life = 200, 300
        self.requests: list[dict[str, list[str]]] = []

    @contextmanager
    def serving(self) -> Iterator[str]:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                endpoint.requests.append(parse_qs(body))
                self.send_response(endpoint.status)
                self.end_headers()
                self.wfile.write(json.dumps(endpoint.answer()).encode())

            def log_message(self, *_: object) -> None: ...

        server = HTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/token"
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

    def answer(self) -> dict[str, Any]:
        parts = {"alg": "none"}, {"sub": "oauth-client", "iat": time.time(), "exp": time.time() + self.life}
        encoded = [base64.urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=") for each in parts]
        return {"access_token": f"{'.'.join(encoded)}.", "token_type": "bearer", "expires_in": self.life}


def oauth(broker: Broker, url: str, **more: Any) -> KafkaSettings:
    assert broker.certificates is not None
    client = {"token_url": url, "client_id": "me", "client_secret": "hush", "scope": "kafka", **more}
    return secured(broker, protocol="SASL_SSL", mechanism="OAUTHBEARER", ca=broker.certificates.ca, oauth=client)


async def test_tokens_of_an_endpoint(secured_broker: Broker) -> None:
    endpoint = TokenEndpoint()
    with endpoint.serving() as url:
        await round_trip(oauth(secured_broker, url), permitted(secured_broker, "oauth-client"))
    asked = {"grant_type": ["client_credentials"], "client_id": ["me"], "client_secret": ["hush"], "scope": ["kafka"]}
    assert endpoint.requests == [asked]  # one token for all connections


async def test_an_endpoint_that_refuses(secured_broker: Broker) -> None:
    endpoint = TokenEndpoint()
    with endpoint.serving() as url:
        endpoint.status = 401
        with pytest.raises(LogRefused, match=r"refuses the client me \(401\); correct client_id"):
            await round_trip(oauth(secured_broker, url), "t")
        endpoint.status, endpoint.life = 200, -10
        with pytest.raises(LogRefused, match="refuses the token of the client me"):
            await round_trip(oauth(secured_broker, url), "t")
    with pytest.raises(LogUnavailable, match="does not answer"):
        await round_trip(oauth(secured_broker, url), "t")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"password": "wrong"}, "refuses the user .*wrong user, password or mechanism; correct security.username"),
        ({"username": "nobody"}, "refuses the user nobody .*wrong user, password or mechanism"),
        ({"mechanism": "SCRAM-SHA-256"}, "refuses the user .*SCRAM-SHA-256.* correct .*security.mechanism"),
        ({"ca": None}, "certificate that is not trusted .*; set security.ca"),
        ({"mechanism": "PLAIN"}, "refuses the user"),
        ({"protocol": "SASL_PLAINTEXT", "ca": None}, "TLS[?] Then set security.protocol"),
        (None, "TLS[?] Then set security.protocol"),
    ],
)
async def test_what_is_wrong_is_said_at_once(
    secured_broker: Broker, changes: dict[str, Any] | None, sentence: str, caplog: pytest.LogCaptureFixture
) -> None:
    user = user_of(secured_broker, "right", "SCRAM-SHA-512")
    if changes is None:
        settings = settings_for(secured_broker, bootstrap_servers=[secured_broker.secure])
    else:
        settings = scram(secured_broker, user, "right", **changes)
    began = time.monotonic()
    with pytest.raises(LogUnavailable, match=sentence):
        await round_trip(settings, "t")
    assert time.monotonic() - began < 8  # kafka-python repeats the login for ten seconds
    assert not [record for record in caplog.records if record.name.startswith("kafka.")], "the sentence is enough"


async def test_a_login_that_is_refused_later_is_named_as_at_the_start(secured_broker: Broker) -> None:
    """/readyz had neither the user nor the broker."""
    settings = scram(secured_broker, "somebody", "wrong")
    with pytest.raises(LogRefused) as refused:
        await round_trip(settings, "t")
    assert str(translate(SaslAuthenticationFailedError(), settings)) == str(refused.value)
    assert "password" not in str(translate(UnsupportedSaslMechanismError(), settings)), "that is no wrong password"


async def test_tls_that_does_not_fit(secured_broker: Broker) -> None:
    files = secured_broker.certificates
    assert files is not None
    whole = {"protocol": "SSL", "ca": files.ca, "certificate": files.client_certificate, "key": files.client_key}
    for changes, sentence in (
        ({"certificate": None, "key": None}, "wants one .*set security.certificate and security.key"),
        ({"ca": files.stranger()}, "certificate that is not trusted .*; set security.ca"),
        ({"key": files.folder / "broker.key"}, "security.certificate: .*give PEM files that belong together"),
        ({"ca": files.folder / "absent.pem"}, "security.ca: .*absent.pem cannot be read"),
    ):
        with pytest.raises(LogRefused, match=sentence):
            await round_trip(secured(secured_broker, **{**whole, **changes}), "t")
    plaintext = replace(secured(secured_broker, **whole), bootstrap_servers=[secured_broker.bootstrap])
    with pytest.raises(LogUnavailable, match="does not speak TLS on this port"):
        await round_trip(plaintext, "t")
    other_name = replace(
        secured(secured_broker, **whole), bootstrap_servers=[secured_broker.mutual.replace("127.0.0.1", "localhost")]
    )
    with pytest.raises(LogRefused, match="certificate for another name"):
        await round_trip(other_name, "t")


async def test_missing_acls_are_said(secured_broker: Broker) -> None:
    user = user_of(secured_broker, "right")
    with pytest.raises(LogRefused, match=r"does not permit this user CREATE of the topic \S+: grant it"):
        await round_trip(scram(secured_broker, user, "right"), fresh("forbidden"))


async def test_a_password_file_is_read_again(secured_broker: Broker, tmp_path: Path) -> None:
    """The broker wants the user to log in again every 1.5 seconds: what was right then is wrong later."""
    file = tmp_path / "password"
    file.write_text("first\n")
    user, topic = user_of(secured_broker, "first"), ""
    topic = permitted(secured_broker, user)
    settings = scram(secured_broker, user, "", password_file=file)
    async with opened(settings, topic) as log:
        await log.append([Record(b"k", b"0")])
        set_password(secured_broker.bootstrap, user, "second")
        file.write_text("second\n")
        until, count = time.monotonic() + 3.5, 1
        while time.monotonic() < until:
            with suppress(LogUnavailable):  # the login falls between the two changes
                await log.append([Record(b"k", b"%d" % count)])
                count += 1
            await asyncio.sleep(0.2)
        assert count > 8
        assert await values(log) == [b"%d" % number for number in range(count)]


async def test_a_refused_read_names_the_right_that_is_missing(secured_broker: Broker) -> None:
    """It named five rights, of a source and of the prefix, in a sentence without a subject."""
    user = user_of(secured_broker, "right", "SCRAM-SHA-512")
    topic = permitted(secured_broker, user)
    async with opened(scram(secured_broker, user, "right"), topic) as log:
        await log.append([Record(b"k", b"1")])
        revoke(secured_broker.bootstrap, user, "TOPIC", topic, "READ")
        with pytest.raises(LogRefused) as caught:
            await values(log)
    assert str(caught.value) == (
        f"Kafka does not permit this user to use the topic {topic}; grant this user READ of it"
    )


@pytest.mark.long
async def test_why_a_running_service_is_refused_stays_said(own_secured_broker: Broker, tmp_path: Path) -> None:
    """With a wrong CA, its cause and "no append has been acknowledged" took turns on /readyz."""
    broker, files = own_secured_broker, own_secured_broker.certificates
    assert files is not None
    ca = tmp_path / "ca.pem"
    ca.write_bytes(files.ca.read_bytes())
    user = user_of(broker, "right", "SCRAM-SHA-512")
    settings = replace(scram(broker, user, "right", ca=ca), delivery_timeout=20.0)
    async with opened(settings, permitted(broker, user)) as log, asyncio.TaskGroup() as group:
        probe = LogProbe([log])

        async def write() -> None:
            while True:
                with suppress(LogUnavailable):
                    await log.append([Record(b"k", b"1")])
                await asyncio.sleep(0.2)

        tasks = [group.create_task(write()), group.create_task(probe.run_forever(0.5))]
        await asyncio.sleep(2.0)
        assert probe.problem() is None
        ca.write_bytes(files.stranger().read_bytes())
        await asyncio.to_thread(broker.restart)
        await asyncio.sleep(12.0)  # requests on the connections of before take 10 s
        until, said = time.monotonic() + 20.0, set[str | None]()
        while time.monotonic() < until:
            said.add(probe.problem())
            await asyncio.sleep(0.05)
        ca.write_bytes(files.ca.read_bytes())
        async with asyncio.timeout(30):
            while probe.problem() is not None:
                await asyncio.sleep(0.1)
        for task in tasks:
            task.cancel()
    (cause,) = said
    assert cause is not None
    assert "has a certificate that is not trusted" in cause


def test_no_secret_is_shown() -> None:
    secret = secrets.token_hex(8)
    security = KafkaSecuritySettings.model_validate(
        {"protocol": "SASL_SSL", "mechanism": "PLAIN", "username": "u", "password": secret}
    )
    settings = KafkaSettings(bootstrap_servers=["b:1"], credentials=Credentials(security))
    assert secret not in f"{security} {settings!r} {settings.credentials!r} {settings.client_options()}"
