"""A model of embeddings behind any OpenAI-compatible endpoint, as a judge that answers with vectors."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack, cast

import orjson

from evaluators.answers.reply_parser import parse_reply
from evaluators.cases import Json
from evaluators.embeddings import Embeddings
from evaluators.errors import JudgeRejected
from evaluators.judge import Answer, Prompt, R, Verdict
from evaluators.judges.apis.payload import object_in, objects, text
from evaluators.judges.apis.writing import bearer
from evaluators.judges.completions import Completion, estimated_tokens, usage_of
from evaluators.judges.connection import Connecting
from evaluators.judges.endpoint import CostTracker, Endpoint, EndpointJudge, EndpointOptions, EndpointSettings
from evaluators.judges.error_mapping import HttpStatusError

OPENAI = "https://api.openai.com/v1"
_NO_KEY = "none"


class EmbeddingJudge(EndpointJudge):
    """A model of embeddings behind an OpenAI-compatible `/embeddings` endpoint; it answers with vectors alone.

    It takes the arguments of `OpenAIJudge`; `input_price` is in US dollars per million tokens. One event loop at a
    time. Close it with `aclose`.
    """

    def __init__(self, model: str, **options: Unpack[EndpointOptions]) -> None:
        self._settings = settings = replace(EndpointSettings(**options), output_price=0.0)
        super().__init__(model, settings, Endpoint(self._connect, settings.on_headers, settings.retries))
        self.model = model

    async def ask(self, prompt: Prompt, reply: type[R], *, logprobs: bool = False, samples: int = 1) -> Verdict[R]:  # noqa: ARG002 - the port's signature
        """Embed the texts of the prompt's material.

        Raises:
            JudgeError: see `Judge.ask`; also if the prompt's form is not one for vectors.
        """
        texts = prompt.material.get("texts")
        if not issubclass(reply, Embeddings) or not texts:
            raise JudgeRejected("a model of embeddings answers no questions; name a judge that writes")
        async with self._billed() as bill:
            return await self._embed(cast("Sequence[Json]", texts), reply, bill)

    async def _embed(self, texts: Sequence[Json], reply: type[R], bill: CostTracker) -> Verdict[R]:
        body: dict[str, Json] = {"model": self.model, "input": texts, "encoding_format": "float", **self._extra_body}
        try:
            payload = object_in((await self._endpoint.post(body)).content, "data")
        except HttpStatusError as refusal:
            raise self._refused(refusal, " ".join(map(str, texts))) from None
        usage = replace(usage_of(payload.get("usage")), output_tokens=0)
        bill.add(Completion((), text(payload.get("model")), usage), estimated_tokens(texts), 0)
        answer = Answer(parse_reply(orjson.dumps({"vectors": _vectors(payload)}).decode(), reply), "")
        return Verdict([answer], bill.model or self.model, None, bill.usage, bill.cost_usd)

    def _connect(self) -> Connecting:
        settings = self._settings
        return settings.connection(settings.base_url or OPENAI, "/embeddings", bearer(settings.api_key or _NO_KEY))


def _vectors(payload: Mapping[str, Any]) -> list[Json]:
    """The vectors in the order of their texts, which the endpoint says by index."""
    entries = objects(payload["data"])
    if sorted(map(str, [entry.get("index") for entry in entries])) == sorted(map(str, range(len(entries)))):
        entries.sort(key=lambda each: each["index"])
    return [entry.get("embedding") for entry in entries]
