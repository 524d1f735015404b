"""What a broker needs for listeners with TLS, users and ACLs: an authority, certificates, and lines of its properties.

Besides PLAINTEXT, whose clients are superusers, a secured broker listens on SECURE (TLS, and PLAIN, SCRAM or OAUTHBEARER)
and on MUTUAL (TLS with client certificates).
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from kafka import KafkaAdminClient
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

PLAIN_USERS = {"plain-user": "plain-password"}

PROPERTIES = """
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL,MUTUAL:SSL
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
ssl.keystore.type=PEM
ssl.keystore.location={folder}/broker.pem
ssl.truststore.type=PEM
ssl.truststore.location={folder}/ca.pem
listener.name.mutual.ssl.client.auth=required
listener.name.secure.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER
listener.name.secure.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required {users};
listener.name.secure.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.secure.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.secure.scram-sha-512.connections.max.reauth.ms=1500
listener.name.secure.oauthbearer.sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;
"""
"""Users by SCRAM-SHA-512 log in again every few seconds, so that a rotated password is noticed."""


class Certificates:
    """An authority, and what it has signed: the broker's certificate for 127.0.0.1, and a client's."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.ca = folder / "ca.pem"
        self._sign_itself("ca")
        self._sign("broker", "subjectAltName=IP:127.0.0.1")
        self.client_certificate, self.client_key = self._sign("client", "extendedKeyUsage=clientAuth")
        pem = (folder / "broker.key").read_text() + (folder / "broker.crt").read_text() + self.ca.read_text()
        (folder / "broker.pem").write_text(pem)

    def stranger(self) -> Path:
        """The PEM file of an authority that has signed nothing."""
        self._sign_itself("stranger")
        return self.folder / "stranger.pem"

    def _sign_itself(self, name: str) -> None:
        self._openssl(
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30",
            "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem",
        )  # fmt: skip

    def _sign(self, name: str, extension: str) -> tuple[Path, Path]:
        self._openssl(
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30",
            "-subj", f"/CN={name}", "-addext", extension, "-addext", "basicConstraints=critical,CA:FALSE",
            "-CA", "ca.pem", "-CAkey", "ca.key", "-keyout", f"{name}.key", "-out", f"{name}.crt",
        )  # fmt: skip
        return self.folder / f"{name}.crt", self.folder / f"{name}.key"

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self.folder, check=True, capture_output=True)


def properties(folder: Path) -> str:
    """Lines of `server.properties`; the certificates are in `folder`."""
    users = " ".join(f'user_{name}="{password}"' for name, password in PLAIN_USERS.items())
    return PROPERTIES.format(folder=folder, users=users)


def set_password(bootstrap: str, user: str, password: str, *mechanisms: str) -> None:
    """Make a SCRAM user, or change its password."""
    named = mechanisms or ("SCRAM-SHA-512",)
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        for mechanism in named:
            change = UserScramCredentialUpsertion(user, ScramMechanism[mechanism.replace("-", "_")], password)
            answer = admin.alter_user_scram_credentials([change])
            assert answer == {user: None}, answer
    finally:
        admin.close()


def grant(bootstrap: str, user: str, kind: str, name: str, *operations: str, prefixed: bool = True) -> None:
    """Permit a user operations on a TOPIC or GROUP whose name is, or begins with, `name`."""
    pattern = ResourcePattern(
        ResourceType[kind], name, ACLResourcePatternType.PREFIXED if prefixed else ACLResourcePatternType.LITERAL
    )
    acls = [ACL(f"User:{user}", "*", ACLOperation[each], ACLPermissionType.ALLOW, pattern) for each in operations]
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        assert not admin.create_acls(acls)["failed"]
    finally:
        admin.close()


def revoke(bootstrap: str, user: str, kind: str, name: str, *operations: str, prefixed: bool = True) -> None:
    """Take back what `grant` has permitted."""
    pattern = ResourcePatternFilter(
        ResourceType[kind], name, ACLResourcePatternType.PREFIXED if prefixed else ACLResourcePatternType.LITERAL
    )
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        admin.delete_acls(
            [
                ACLFilter(f"User:{user}", "*", ACLOperation[each], ACLPermissionType.ALLOW, pattern)
                for each in operations
            ]
        )
    finally:
        admin.close()
