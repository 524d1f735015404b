"""From the configuration to a redactor."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import Field, SecretStr

from collector import plugins
from collector.errors import ConfigError
from collector.redact.finding import Detector
from collector.redact.patterns import configured
from collector.redact.redactor import Count, Fail, Redactor
from collector.section import Section


class TextRedactSettings(Section):
    """How one sender's texts are redacted; keys left out are as for everybody."""

    enabled: bool = True
    """Whether texts are redacted at all."""
    detectors: tuple[str, ...] = ("patterns",)
    """Plug-ins of the group evalstream.redactors, or module:function; `patterns` is built in."""
    patterns: dict[str, str] = Field(default_factory=dict[str, str])
    """Your own regular expressions by the kind of data they find, like EMPLOYEE_ID; a group (?P<value>…) limits what is
    redacted to itself."""
    key: SecretStr | None = Field(default=None, min_length=16)
    """Makes the pseudonyms; the same in every process. Usually ${env:NAME}."""


class RedactSettings(TextRedactSettings):
    """The kinds of data taken out of texts before they are stored in a log, and again before a judge sees them."""

    tenants: dict[str, TextRedactSettings] = Field(default_factory=dict[str, TextRedactSettings])
    """Other redaction for the texts of named tenants (receive.*.auth.tenants); keys left out are as for everybody."""


@dataclass(frozen=True, slots=True)
class Redactors:
    """The redactor of all texts, and the redactors of tenants that have a separate one; None where nothing is
    redacted.
    """

    everybody: Redactor | None = None
    by_tenant: Mapping[str, Redactor | None] = field(default_factory=dict[str, "Redactor | None"])

    def of(self, tenant: str) -> Redactor | None:
        """The redactor of a sender; `tenant` is "" for one without a name."""
        return self.by_tenant.get(tenant, self.everybody)

    @property
    def redacts(self) -> bool:
        """Whether anybody's texts are redacted."""
        return self.everybody is not None or any(redactor is not None for redactor in self.by_tenant.values())


def open_redactors(
    settings: RedactSettings, count: Count = lambda _kind, _count: None, fail: Fail = lambda: None
) -> Redactors:
    """The redactors of a configuration. `count` and `fail` count what they do.

    Raises:
        ConfigError: a plug-in does not exist, or a pattern makes no sense.
    """
    everybody = open_redactor(settings, count, fail)
    general = settings.model_dump(exclude={"tenants"})
    tenants = {
        name: TextRedactSettings.model_validate(general | text_redact_settings.model_dump(exclude_unset=True))
        for name, text_redact_settings in settings.tenants.items()
    }
    return Redactors(
        everybody,
        {name: open_redactor(text_redact_settings, count, fail) for name, text_redact_settings in tenants.items()},
    )


def open_redactor(settings: TextRedactSettings, count: Count, fail: Fail) -> Redactor | None:
    """The redactor; None if nothing is to be redacted.

    Raises:
        ConfigError: a plug-in does not exist, or a pattern makes no sense.
    """
    if not settings.enabled:
        return None
    for kind in settings.patterns:
        if not (kind.isascii() and kind.isidentifier() and kind.isupper()):
            raise ConfigError(f"redact.patterns.{kind}: write the kind in capitals, digits and _, like EMPLOYEE_ID")
    detectors: list[Detector] = [plugins.detector(name) for name in settings.detectors]
    if settings.patterns:
        detectors.append(configured(settings.patterns))
    return Redactor(detectors, settings.key.get_secret_value().encode() if settings.key else b"evalstream", count, fail)
