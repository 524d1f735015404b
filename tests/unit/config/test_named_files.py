"""Files that a configuration names and that cannot be used: `check` says what the start would say, before it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from collector.cli import main
from collector.config.loading import load
from collector.config.named_files import elsewhere_notes
from collector.errors import ConfigError
from collector.logs.kafka.credentials import Credentials
from collector.logs.kafka_security import KafkaSecuritySettings
from collector.logs.log import LogRefused
from collector.receive.access import AuthSettings, BearerTokens, TlsSettings, ssl_context_of
from evaluators.secret_files import SecretFiles

WHOLE = """\
evaluators: {short: {kind: length, maximum: 10, threshold: 0.5}}
monitors: {all: {evaluators: [short]}}
"""
JUDGE = 'judges: {{main: {{model: m, base_url: "https://127.0.0.1:1/v1", {}}}}}\n'
TLS = "receive: {{otlp_http: {{tls: {{{}}}}}}}\n"
KAFKA = "log: {{kind: kafka, kafka: {{bootstrap_servers: ['127.0.0.1:1'], security: {{{}}}}}}}\n"
OAUTH = (
    "protocol: SASL_SSL, mechanism: OAUTHBEARER, oauth: {token_url: 'https://h/t', client_id: i, client_secret_file: "
)
SCRAM = "protocol: SASL_SSL, mechanism: SCRAM-SHA-512, username: u, password_file: "
PEM = "; name a readable PEM file"
ABSENT = "cannot be read (No such file or directory)"
MISTAKES = (
    (TLS.format("certificate: no.pem, key: our.key"), f"receive.otlp_http.tls.certificate: no.pem {ABSENT}{PEM}"),
    (TLS.format("certificate: our.pem, key: no.key"), f"receive.otlp_http.tls.key: no.key {ABSENT}{PEM}"),
    (
        TLS.format("certificate: folder, key: our.key"),
        f"receive.otlp_http.tls.certificate: folder cannot be read (Is a directory){PEM}",
    ),
    (
        TLS.format("certificate: our.pem, key: other.key"),
        "receive.otlp_http.tls.certificate: our.pem cannot be used (key values mismatch); give PEM files that belong",
    ),
    (
        TLS.format("certificate: prose, key: our.key"),
        "receive.otlp_http.tls.certificate: prose cannot be used (unreadable); give PEM files that belong together",
    ),
    (
        TLS.format("certificate: our.pem, key: closed.key"),
        "receive.otlp_http.tls.certificate: our.pem cannot be used: the key has a password; store it without one",
    ),
    (
        TLS.format("certificate: our.pem, key: our.key, client_ca: prose"),
        "receive.otlp_http.tls.client_ca: prose cannot be used (no certificate or crl found); give a PEM file of",
    ),
    (TLS.format("certificate: our.pem, key: our.key, client_ca: no.pem"), "receive.otlp_http.tls.client_ca: no.pem"),
    ("page: {tls: {certificate: no.pem, key: our.key}}\n", f"page.tls.certificate: no.pem {ABSENT}"),
    ("page: {auth: {token_files: [no.key]}}\n", f"page.auth.token_files[0]: no.key {ABSENT}; name a readable file"),
    ("page: {auth: {token_files: [empty]}}\n", "page.auth.token_files[0]: empty is empty; write into it what the"),
    (JUDGE.format("tls: {ca: no.pem}"), f"judges.main.tls.ca: no.pem {ABSENT}{PEM}"),
    (JUDGE.format("tls: {ca: prose}"), "judges.main.tls.ca: prose cannot be used (no certificate or crl found); give"),
    (JUDGE.format("tls: {certificate: our.pem, key: no.key}"), f"judges.main.tls.key: no.key {ABSENT}{PEM}"),
    (JUDGE.format("api_key_file: no.key"), f"judges.main.api_key_file: no.key {ABSENT}; name a readable file"),
    (JUDGE.format("api_key_file: empty"), "judges.main.api_key_file: empty is empty; write into it what the service"),
    (JUDGE.format("header_files: {api-key: no.key}"), f"judges.main.header_files.api-key: no.key {ABSENT}"),
    (KAFKA.format("protocol: SSL, ca: no.pem"), f"log.kafka.security.ca: no.pem {ABSENT}{PEM}"),
    (KAFKA.format("protocol: SSL, ca: prose"), "log.kafka.security.ca: prose cannot be used (no certificate or crl"),
    (KAFKA.format("protocol: SSL, certificate: our.pem, key: no.key"), f"log.kafka.security.key: no.key {ABSENT}"),
    (KAFKA.format(f"{SCRAM}no.key"), f"log.kafka.security.password_file: no.key {ABSENT}"),
    (KAFKA.format(f"{SCRAM}empty"), "log.kafka.security.password_file: empty is empty; write into it"),
    (KAFKA.format(f"{OAUTH}no.key}}"), f"log.kafka.security.oauth.client_secret_file: no.key {ABSENT}"),
    (KAFKA.format(f"{OAUTH}prose, ca: no.pem}}"), f"log.kafka.security.oauth.ca: no.pem {ABSENT}{PEM}"),
    (
        "receive: {kafka: [{bootstrap_servers: ['h:1'], traces: [t], security: {protocol: SSL, ca: no.pem}}]}\n",
        f"receive.kafka[0].security.ca: no.pem {ABSENT}",
    ),
    ("receive: {files: [no.jsonl]}\n", "receive.files[0]: no.jsonl does not exist; name a file or a folder"),
    ("receive: {files: [prose]}\n", "receive.files[0]: prose holds neither OTLP nor turns by its name; it must end"),
    ("export: {otlp: {header_files: {Authorization: no.key}}}\n", f"export.otlp.header_files.Authorization: no.key {ABSENT}"),
    ("export: {jsonl: {path: no/scores.jsonl}}\n", "export.jsonl.path: there is no folder no; make it, or name another"),
    ("log: {path: no/logs.db}\n", "log.path: there is no folder no; make it, or name another"),
    ("golden: {path: no.jsonl}\n", f"golden.path: no.jsonl {ABSENT}; name a readable file"),
)  # fmt: skip
ELSEWHERE = (
    (TLS.format("certificate: /run/no/c.pem, key: /run/no/k.pem"), "receive.otlp_http.tls: this machine has no folder"),
    (KAFKA.format(f"{SCRAM}/run/no/password"), "log.kafka.security.password_file: this machine has no folder /run/no"),
    ("log: {path: /no/logs.db}\n", "log.path: this machine has no folder /no; the service needs it"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("named")
    (made / "prose").write_text("not a certificate")
    (made / "empty").write_text("\n")
    (made / "folder").mkdir()
    new = ("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj", "/CN=localhost")
    for name in ("our", "other"):
        _openssl(made, *new, "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.pem")
    _openssl(made, "ec", "-in", "our.key", "-aes128", "-passout", "pass:word", "-out", "closed.key")
    return made


def _openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    monkeypatch.chdir(folder)

    def write(part: str) -> Path:
        path = folder / "evalstream.yaml"
        path.write_text(WHOLE + part)
        return path

    return write


@pytest.mark.parametrize(("part", "expected"), MISTAKES)
def test_a_file_that_cannot_be_used(folder: Path, written: Callable[[str], Path], part: str, expected: str) -> None:
    path = written(part)
    with pytest.raises(ConfigError) as refused:
        elsewhere_notes(load(path))
    (sentence,) = str(refused.value).splitlines()
    assert sentence.replace(f"{folder}/", "").startswith(f"evalstream.yaml: {expected}")
    assert sentence.count(f"{folder}/") == 2, "the configuration, and the file that was tried"


@pytest.mark.parametrize(("part", "expected"), ELSEWHERE)
def test_a_folder_of_another_machine_is_a_note(written: Callable[[str], Path], part: str, expected: str) -> None:
    assert elsewhere_notes(load(written(part)))[0].startswith(expected)


def test_files_that_can_be_used(written: Callable[[str], Path]) -> None:
    parts = (
        TLS.format("certificate: our.pem, key: our.key, client_ca: other.pem"),
        JUDGE.format("tls: {ca: our.pem, certificate: our.pem, key: our.key}, api_key_file: prose"),
        KAFKA.format(f"{SCRAM}prose, ca: our.pem"),
    )
    assert elsewhere_notes(load(written("".join(parts)))) == []


@pytest.mark.parametrize("option", [[], ["--diff"], ["--json"]])
def test_check_ends_with_status_2(
    folder: Path, written: Callable[[str], Path], option: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    written(JUDGE.format("api_key_file: no.key"))
    monkeypatch.setattr("sys.argv", ["evalstream", "check", *option])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert f": judges.main.api_key_file: {folder}/no.key cannot be read" in capsys.readouterr().err


def test_the_start_names_the_same_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(FileNotFoundError, match=f"{folder}/no.key"):
        SecretFiles({"key": Path("no.key")})
    with pytest.raises(ConfigError, match=f"{folder}/no.key"):
        ssl_context_of(TlsSettings(certificate=Path("our.pem"), key=Path("no.key")), "page")
    with pytest.raises(ConfigError, match=f"page.auth.token_files: {folder}/no.key"):
        BearerTokens(AuthSettings(token_files=(Path("no.key"),)), "page")
    with pytest.raises(ConfigError, match=r"^page\.tls\.key: \S+/no\.key cannot be read"):
        ssl_context_of(TlsSettings(certificate=folder / "our.pem", key=folder / "no.key"), "page")
    with pytest.raises(LogRefused, match=r"^security\.ca: \S+/prose cannot be used"):
        Credentials(KafkaSecuritySettings(protocol="SSL", ca=folder / "prose")).options()


def test_a_log_that_is_no_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The start would refuse it; a new or empty file is made a database."""
    monkeypatch.chdir(tmp_path)
    Path("c.yaml").write_text(WHOLE + "log: {path: e.db}\n")
    assert elsewhere_notes(load(Path("c.yaml"))) == []
    Path("e.db").write_bytes(b"random bytes, more than sixteen of them")
    with pytest.raises(ConfigError, match=r"log\.path: \S+/e\.db is no SQLite file; name another, or move it away"):
        elsewhere_notes(load(Path("c.yaml")))
