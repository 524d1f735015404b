r"""The OpenTelemetry Collector's redaction processor, told to look for what our built-in detector looks for.

As like it as it can be told, and as cheaply: Go searches for an alternation tens of times more slowly than for a pattern
that begins with letters, so keys and secrets have a pattern each (together 280 µs a span; as an alternation 1,750). What
it cannot be told, or only at that price:

- checksums (of cards, IBANs), national ids, words around a number, where a word begins, what is part of a machine's id
  or a version, words in any case, digits and signs of other alphabets, JSON in JSON and what its escapes hide: it masks
  more in some texts, and less in others;
- what is in lists and maps, in a span's name and status, and in numbers: it looks at the texts of attributes, of
  resources, scopes, spans and events.
"""

from __future__ import annotations

from typing import Any

_KEYS = (
    "sk-", "AKIA", "ASIA", "ABIA", "ACCA", "gh[pousr]_", "github_pat_", "glpat-", "glrt-", "gldt-", "glcbt-", "glptt-",
    "glft-", "glsoat-", "xox[abeoprs]-", "xapp-", "AIza", "ya29[.]", "sk_live_", "sk_test_", "rk_live_", "rk_test_",
    "pk_live_", "pk_test_", "whsec_", "hf_", "npm_", "pypi-", "dop_v1_", "hooks[.]slack[.]com/services/", "shpat_",
    "shpca_", "shppa_", "shpss_", "ATATT3", "xai-", "pplx-", "r8_", "hvs[.]", "GOCSPX-", "1//0", "EAA[A-Z]",
    "dckr_pat_", "sbp_", "figd_", "key-[0-9a-f]", "xkeysib-", "SK[0-9a-f]{8}", "dapi[0-9a-f]{8}", "sq0(?:atp|csp)-",
    "rubygems_", "glsa_", "glc_", "ops_eyJ", "ntn_", "PMAK-", "NRAK-", "lsv2_", "nvapi-", "tvly-", "ph[cx]_", "tskey-",
    "AGE-SECRET-KEY-", "discord(?:app)?[.]com/api/webhooks/", "SG[.]", "gsk_", "sntrys_", "lin_api_",
)  # fmt: skip
"""How keys begin."""
_SECRETS = (
    "api_key",
    "api-key",
    "apiKey",
    "API_KEY",
    "secret",
    "SECRET",
    "token",
    "TOKEN",
    "passw",
    "Passw",
    "PASSW",
    "pwd",
)
"""Words that a secret follows."""
_GIVEN = r"""\w*\\?["']? *(?:[:=]|=>|is) *\\?["']?[^\s"'\\,;<>{}]{6,}"""

PATTERNS = {
    "EMAIL": [r"[\w.%+\-]+@(?:[\w\-]+\.)+[A-Za-z]{2,}"],
    "CREDENTIALS": [r"://[^/\s:@]*:[^/\s@]+@"],
    "CARD": [r"[2-6][0-9]{3}(?:[ .\-]?[0-9]){9,15}"],
    "IBAN": [r"[A-Z]{2}[0-9]{2}[ \-]?(?:[A-Z0-9][ \-]?){11,30}"],
    "PHONE": [
        r"\+[1-9][0-9]{0,2}(?:[./ \-]{0,2}(?:\([0-9]{1,5}\)|[0-9]{1,5})){1,6}",
        r"\([0-9]{2,5}\)[ \-]?[0-9]{2,5}(?:[. \-][0-9]{2,5}){1,3}",
        r"[2-9][0-9]{2}[. \-][0-9]{3}[. \-][0-9]{4}",
        r"0[1-9][0-9]{0,3}[/ \-][0-9]{3,8}(?:[ \-]?[0-9]{2,5}){0,2}",
        r"00[1-9][0-9]{0,2}[./ \-][0-9]{1,5}(?:[./ \-]?[0-9]{2,5}){1,4}",
    ],
    "IPV4": [r"(?:[0-9]{1,3}\.){3}[0-9]{1,3}"],
    "IPV6": [r"(?:[0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4}", r"::(?:[0-9A-Fa-f]{1,4}:)*[0-9A-Fa-f]{1,4}"],
    "JWT": [r"eyJ[\w\-]{8,}\.[\w\-]{2,}(?:\.[\w\-]*)?"],
    "PRIVATE_KEY": [r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----(?s:.*)"],
    "KEY": [rf"{start}[\w\-/.=]{{16,}}" for start in _KEYS],
    "TOKEN": [rf"{scheme} +[A-Za-z0-9._~+/=\-]{{16,}}" for scheme in ("Bearer", "bearer", "Basic", "basic")],
    "SECRET": [f"{word}{_GIVEN}" for word in _SECRETS],
    "COOKIE": [r"ookie: *[^\r\n]{6,}"],
}

SECRET_NAMES = (
    r"(?i)api[_\-]?key|access[_\-]?key|secret[_\-]?key|client[_\-]?secret|auth[_\-]?token|access[_\-]?token"
    r"|refresh[_\-]?token|private[_\-]?key|password|passwd|passphrase|authorization|cookie"
)
"""Names of attributes whose value is masked, whatever it looks like."""


def processor() -> dict[str, Any]:
    """The processor's part of a Collector's configuration."""
    return {
        "allow_all_keys": True,
        "blocked_values": [pattern for some in PATTERNS.values() for pattern in some],
        "blocked_key_patterns": [SECRET_NAMES],
        "summary": "silent",
    }
