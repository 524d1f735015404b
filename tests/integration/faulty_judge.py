"""The stand-in judge with injected faults: slow, limited, silent, or talking nonsense."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import orjson
from aiohttp import web
from stand_in_judge import StandInJudge, completion, tokens_of

from evaluators.texts.draw import draw

_PROSE = "I am a stand-in and no model, and this is no JSON: the answer seems fine to me, I would say."


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Injected faults. Shares lie in [0, 1]; which calls they hit depends on a call's number alone.

    `latency` (s) is waited before every answer, `retry_after` (s) asked for with 429. `hang` answers nothing at all.
    """

    latency: float = 0.0
    error_share: float = 0.0
    limited_share: float = 0.0
    retry_after: float = 1.0
    prose_share: float = 0.0
    hang: bool = False
    reply: tuple[int, str] | None = None
    """Status and body that are sent instead of an answer, to `reply_share` of the calls, as a gateway may."""
    reply_share: float = 1.0
    reply_to: str = ""
    """Only requests with this text in them get `reply`."""


NO_FAULTS = Faults()


class FaultyJudge(StandInJudge):
    """What goes wrong from now on is in `faults`."""

    def __init__(self, faults: Faults = NO_FAULTS) -> None:
        super().__init__()
        self.faults = faults

    async def answer(self, body: bytes) -> web.Response:
        """See `StandInJudge`."""
        faults, chance = self.faults, _chance(self.calls)
        if faults.hang:
            await asyncio.Event().wait()
        if faults.latency:
            await asyncio.sleep(faults.latency)
        if faults.reply is not None and faults.reply_to.encode() in body and chance < faults.reply_share:
            status, text = faults.reply
            kind = "text/html" if "<" in text else "application/json"
            return web.Response(status=status, text=text, content_type=kind)
        if chance < faults.error_share:
            return web.json_response({"error": _error("the stand-in judge fails on purpose")}, status=500)
        chance -= faults.error_share
        if chance < faults.limited_share:
            wait = {"Retry-After": f"{faults.retry_after:g}"}
            error = _error("the stand-in judge is busy on purpose")
            return web.json_response({"error": error}, status=429, headers=wait)
        if chance - faults.limited_share < faults.prose_share:
            return web.json_response(prose(orjson.loads(body)))
        return await super().answer(body)


def prose(request: dict[str, Any]) -> dict[str, Any]:
    """An answer to a chat completion request that is no JSON."""
    answer = completion(request)
    for choice in answer["choices"]:
        choice["message"]["content"] = _PROSE
        if choice["logprobs"]:
            choice["logprobs"] = {"content": tokens_of(_PROSE, {}, int(request.get("top_logprobs") or 0))}
    return answer


def _chance(number: int) -> float:
    return draw(number.to_bytes(8, "big"), algorithm="sha256")


def _error(message: str) -> dict[str, Any]:
    return {"message": message, "type": "stand_in", "param": None, "code": None}
