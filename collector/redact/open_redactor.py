"""From the configuration to a redactor."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from collector import plugins
from collector.errors import ConfigError
from collector.redact.finding import Detector
from collector.redact.patterns import configured
from collector.redact.redactor import Count, Fail, Redactor


class RedactSettings(BaseModel):
    """What is taken out of texts before they are stored in a log, and again before a judge sees them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = Field(default=True, description="Whether texts are redacted at all.")
    detectors: tuple[str, ...] = Field(
        default=("patterns",), description="Plug-ins of the group evalstream.redactors; `patterns` is built in."
    )
    patterns: dict[str, str] = Field(
        default_factory=dict[str, str],
        description="Your own regular expressions by the kind they find, like EMPLOYEE_ID; (?P<value>…) narrows it.",
    )
    key: SecretStr | None = Field(
        default=None, min_length=16, description="Makes the pseudonyms; the same in every process. Usually ${env:NAME}."
    )


def open_redactor(settings: RedactSettings, count: Count, fail: Fail) -> Redactor | None:
    """The redactor; None if nothing is to be redacted.

    Raises:
        ConfigError: a plug-in does not exist, or a pattern makes no sense.
    """
    if not settings.enabled:
        return None
    for kind in settings.patterns:
        if not (kind.isascii() and kind.isidentifier() and kind.isupper()):
            raise ConfigError(f"redact.patterns.{kind}: write the kind in capitals, digits and _, like EMPLOYEE_ID")
    detectors: list[Detector] = [plugins.load(plugins.REDACTORS, name)() for name in settings.detectors]
    if settings.patterns:
        detectors.append(configured(settings.patterns))
    key = settings.key.get_secret_value().encode() if settings.key else b"evalstream"
    return Redactor(detectors, key, count, fail)
