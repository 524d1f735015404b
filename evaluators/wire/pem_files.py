"""PEM files are tried before use, so that a complaint names the file: errors of `ssl` name no file."""

import ssl
from collections.abc import Callable
from pathlib import Path


def try_pem_files(certificate: Path | None = None, key: Path | None = None, **authorities: Path | None) -> None:
    """Load a certificate with its key, and authorities by their names in the configuration: `ca`, `client_ca`.

    Raises:
        ValueError: a file cannot be read, or has the wrong content. The message has its configuration key, the file,
        the reason and the remedy.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for name, path in {"certificate": certificate, "key": key, **authorities}.items():
        if path is not None:
            _use(name, path, path.read_bytes)
    for name, path in authorities.items():
        if path is not None:
            _use(name, path, lambda authority=path: context.load_verify_locations(authority))
    if certificate is not None and key is not None:
        _use("certificate", certificate, lambda: context.load_cert_chain(certificate, key, no_password))


def no_password() -> str:
    """The answer to a request for a key's password."""
    raise ValueError("the key has a password; store it without one")


def _use(name: str, path: Path, load: Callable[[], object]) -> None:
    path = path.absolute()
    try:
        load()
    except ssl.SSLError as problem:  # an OSError, too
        why = (problem.reason or "unreadable").replace("_", " ").lower()
        remedy = "PEM files that belong together" if name == "certificate" else "a PEM file of certificates"
        raise ValueError(f"{name}: {path} cannot be used ({why}); give {remedy}") from None
    except OSError as problem:
        raise ValueError(f"{name}: {path} cannot be read ({problem.strerror}); name a readable PEM file") from None
    except ValueError as problem:
        raise ValueError(f"{name}: {path} cannot be used: {problem}") from None
