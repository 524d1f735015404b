"""A model of embeddings behind any OpenAI-compatible endpoint, as a judge that answers with vectors."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Unpack, cast

import orjson

from evaluators.answers.reply_parser import parse_reply
from evaluators.cases import Json
from evaluators.embeddings import Embeddings
from evaluators.errors import JudgeError, JudgeRejected, JudgeUnavailable, NoCompletion
from evaluators.judge import Answer, Prompt, R, Verdict
from evaluators.judges.apis.payload import parsed
from evaluators.judges.apis.writing import bearer
from evaluators.judges.connection import Connecting
from evaluators.judges.endpoint import Endpoint, Prices
from evaluators.judges.error_mapping import HttpStatusError, to_judge_error
from evaluators.judges.notices import Notices
from evaluators.judges.settings import EndpointOptions, EndpointSettings
from evaluators.judges.usage import estimated_tokens, usage_of, with_estimates

OPENAI = "https://api.openai.com/v1"
_PATH = "/embeddings"
_NO_KEY = "none"


class EmbeddingJudge:
    """A model of embeddings behind an OpenAI-compatible `/embeddings` endpoint; it answers with vectors alone.

    The arguments are those of `OpenAIJudge`; `input_price` is in US dollars per million tokens. One event loop at a
    time. Close it with `aclose`.
    """

    def __init__(self, model: str, **options: Unpack[EndpointOptions]) -> None:
        self.model = model
        self._settings = settings = EndpointSettings(**options)
        self._prices = Prices(settings.input_price, 0.0)
        self._notices = Notices(model)
        self._extra_body = dict(settings.extra_body or {})
        self._endpoint = Endpoint(self._connect, settings.on_headers, settings.retries)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._endpoint.aclose()

    async def ask(self, prompt: Prompt, reply: type[R], *, logprobs: bool = False, samples: int = 1) -> Verdict[R]:  # noqa: ARG002 - the port's signature
        """Embed the texts of the prompt's material.

        Raises:
            JudgeError: see `Judge.ask`; also where the form is not one of vectors.
        """
        texts = prompt.material.get("texts")
        if not issubclass(reply, Embeddings) or not texts:
            raise JudgeRejected("a model of embeddings answers no questions; name a judge that writes")
        body: dict[str, Json] = {"model": self.model, "input": texts, "encoding_format": "float", **self._extra_body}
        try:
            async with asyncio.timeout(self._settings.timeout):
                answered = await self._endpoint.post(body)
        except TimeoutError:
            raise JudgeUnavailable(f"no answer within {self._settings.timeout:g} s", type="judge_timeout") from None
        except HttpStatusError as refusal:
            raise to_judge_error(refusal, " ".join(map(str, texts))) from None
        return self._verdict(answered.content, reply, estimated_tokens(texts))

    def _verdict(self, content: bytes, reply: type[R], question_tokens: int) -> Verdict[R]:
        payload = _payload(content)
        usage = with_estimates(replace(usage_of(payload.get("usage")), output_tokens=0), question_tokens, 0)
        self._notices.look_at(usage)
        cost = self._prices.cost(usage)
        text = orjson.dumps({"vectors": _vectors(payload)}).decode()
        try:
            answer = Answer(parse_reply(text, reply), "")
        except JudgeError as error:
            error.usage, error.cost_usd = usage, cost
            raise
        model = payload.get("model")
        return Verdict([answer], model if isinstance(model, str) and model else self.model, None, usage, cost)

    def _connect(self) -> Connecting:
        settings = self._settings
        return settings.connection(settings.base_url or OPENAI, _PATH, bearer(settings.api_key or _NO_KEY))


def _payload(content: bytes) -> dict[str, Any]:
    payload = parsed(content)
    if not isinstance(payload, dict) or not isinstance(cast("dict[str, Any]", payload).get("data"), list):
        raise NoCompletion("the response has no embeddings")
    return cast("dict[str, Any]", payload)


def _vectors(payload: Mapping[str, Any]) -> list[Json]:
    """The vectors in the order of their texts, which the endpoint says by index."""
    entries = [cast("dict[str, Json]", each) for each in payload["data"] if isinstance(each, dict)]
    indexed = [entry.get("index") for entry in entries]
    if sorted(map(str, indexed)) == sorted(map(str, range(len(entries)))):
        entries.sort(key=lambda each: each["index"])
    return [entry.get("embedding") for entry in entries]
