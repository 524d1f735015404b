"""A webhook: evaluations as CloudEvents 1.0 in a JSON batch, signed as Standard Webhooks does.

The evaluation's id is the event's id. The signature is an HMAC-SHA256 of `<id>.<timestamp>.<body>`, so that a receiver
can refuse what is not ours, or old. Sources: cloudevents.io, HTTP binding, batched mode; standardwebhooks.com.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import Field, SecretStr

from collector.errors import ConfigError
from collector.export.platforms import platform
from collector.export.platforms.exporter import platform_exporter
from evaluators.records import to_dict
from evaluators.results import Evaluation

_MOST = 100
_BATCH = "application/cloudevents-batch+json"
_TYPE = "evalstream.evaluation"
_PREFIX = "whsec_"


class WebhookSettings(platform.PlatformSettings):
    """The section `export.webhook`."""

    url: str = Field(pattern=r"^https?://")
    """Takes batches of CloudEvents by POST."""
    secret: SecretStr | None = None
    """The signing secret: whsec_ and base64, or any text. Without it nothing is signed."""
    source: str = Field(default="evalstream", min_length=1)
    """The events' source."""
    skipped: bool = False
    """Send skipped evaluations, too."""


class Webhook(platform.Platform[Any]):
    """The receiver's URL."""

    name = "webhook"

    def __init__(self, settings: WebhookSettings, page: str | None = None) -> None:
        """Raises ConfigError where the secret is not what it seems."""
        self.settings = settings
        self._page = page
        self.endpoint = settings.url
        self._key = None if settings.secret is None else _key(settings.secret.get_secret_value())

    def headers(self) -> Mapping[str, SecretStr]:
        """None that are the same for all."""
        return {}

    def requests(self, batch: Sequence[Evaluation]) -> Iterator[platform.PlatformRequest]:
        """Batches of events, each signed over its bytes."""
        wanted = [evaluation for evaluation in batch if self.settings.skipped or evaluation.outcome != "skipped"]
        for piece in platform.chunks(wanted, _MOST):
            body = [self._event(evaluation) for evaluation in piece]
            yield platform.PlatformRequest(path="", body=body, evaluations=piece, content_type=_BATCH)

    def signature(self, request: platform.PlatformRequest, body: bytes, now: float) -> Mapping[str, str]:
        """The id of the batch, the same at each attempt; the time; with a secret the signature of both and the body."""
        ids = "".join(evaluation.evaluation_id for evaluation in request.evaluations)
        message, at = f"msg_{hashlib.sha256(ids.encode()).hexdigest()[:32]}", str(int(now))
        known = {"webhook-id": message, "webhook-timestamp": at}
        if self._key is None:
            return known
        signed = b".".join((message.encode(), at.encode(), body))
        digest = base64.b64encode(hmac.digest(self._key, signed, "sha256")).decode()
        return {**known, "webhook-signature": f"v1,{digest}"}

    def _event(self, evaluation: Evaluation) -> dict[str, Any]:
        data = to_dict(evaluation)
        if not self.settings.explanation:
            data.pop("explanation", None)
        event: dict[str, Any] = {
            "specversion": "1.0", "id": evaluation.evaluation_id, "source": self.settings.source,
            "type": f"{_TYPE}.{evaluation.outcome}", "subject": evaluation.subject.id,
            "time": evaluation.time.isoformat(), "datacontenttype": "application/json", "data": data,
        }  # fmt: skip
        link = platform.page_link(evaluation, self._page)
        return event if link is None else {**event, "pageurl": link}


def _key(secret: str) -> bytes:
    if not secret.startswith(_PREFIX):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        raise ConfigError("export.webhook.secret: begins with whsec_, but what follows is not base64") from None


WebhookExporter = platform_exporter(WebhookSettings, Webhook)
"""Sends evaluations to a URL."""
