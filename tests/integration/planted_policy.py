"""A policy that people's labels follow and an evaluator's criteria lack; a judge and a proposer that obey planted text."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import yaml

CLAUSE = "An answer that promises a refund fails."
"""The clause that labels follow."""

JUDGES = '''
import asyncio
import random
from evaluators.errors import JudgeReplyInvalid, JudgeUnavailable
from evaluators.judge import Answer, Verdict
from evaluators.results import Usage

CLAUSE = "promises a refund fails"


class Obeying:
    """Judges by the words "polite" and "rude"; by refunds, too, where its instructions say so. Wrong in some cases."""

    def __init__(self, model, proposals=(), fault=None, usd=0.001, wrong=0.03):
        self.model, self.proposals, self.fault, self.usd, self.wrong = model, list(proposals), fault, usd, wrong

    async def ask(self, prompt, reply, *, logprobs=False, samples=1):
        if "disagreements" in prompt.material:
            return await self._propose(prompt, reply)
        text = str(prompt.material)
        good = "polite" in text
        good &= not (CLAUSE in prompt.instructions and "refund" in text)
        good ^= random.Random(f"{self.model} {text}").random() < self.wrong
        made = reply.model_validate({"reason": "so", "score": 9 if good else 2})
        return Verdict([Answer(made, "")], self.model, None, Usage(input_tokens=10, calls=1), self.usd)

    async def _propose(self, prompt, reply):
        if self.fault == "nonsense":
            raise JudgeReplyInvalid("no JSON")
        if self.fault == "wants_no_addresses" and "@" in str(prompt.material):
            raise JudgeReplyInvalid("an address")
        if self.fault == "unavailable":
            raise JudgeUnavailable("no answer within 30 s", type="judge_timeout")
        if self.fault == "hangs":
            await asyncio.Event().wait()
        made = reply.model_validate({"proposals": self.proposals})
        return Verdict([Answer(made, "")], self.model, None, Usage(input_tokens=1000, calls=1), 10 * self.usd)
'''

USELESS = {"why": "Style.", "change": "clause", "clause": "Short answers are nicer."}
RIGHT = {"why": "People fail refunds.", "change": "clause", "clause": CLAUSE}


def planted_config(
    folder: Path, *, proposals: Any = (USELESS, RIGHT), fault: str | None = None, **settings: Any
) -> Path:
    """A configuration with an evaluator whose criteria lack the clause, and judges that obey it."""
    own = folder / "own"
    own.mkdir(exist_ok=True)
    (own / "obeying.py").write_text(JUDGES)
    prices = {"usd_per_million_input_tokens": 1.0, "usd_per_million_output_tokens": 1.0}
    judge = {"kind": "obeying:Obeying", **prices}
    values = {
        "log": {"kind": "memory"},
        "plugins": "./own",
        "judges": {
            "main": {**judge, "model": "main"},
            "strong": {**judge, "model": "strong", "deadline": 0.5, "options": {"proposals": list(proposals), "fault": fault}},
        },
        "evaluators": {
            "helpful": {
                "kind": "prompt", "prompt": "Is {{actual_output}} polite?", "judge": "main", "threshold": 0.5,
            }
        },
        "monitors": {"all": {"evaluators": ["helpful"]}},
        **settings,
    }  # fmt: skip
    path = folder / "evalstream.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


def planted_labels(
    path: Path, count: int = 160, *, shuffled: int | None = None, change: Callable[[dict[str, Any]], None] | None = None
) -> Path:
    """Labels that follow the policy; `shuffled` is the seed of labels that follow nothing."""
    chance = random.Random(3)
    rows: list[dict[str, Any]] = []
    for number in range(count):
        polite, refund = chance.random() < 0.65, chance.random() < 0.35
        words = [chance.choice(WORDS) for _ in range(12)]
        answer = f"{'polite' if polite else 'rude'} {' '.join(words)} {'refund' if refund else 'parcel'} {number}"
        rows.append(
            {
                "turn_id": f"t{number}", "conversation_id": f"c{number // 2}", "input": f"{words[0]} {words[1]}?",
                "actual_output": answer, "human": polite and not refund, "note": "a refund" if refund else "",
            }
        )  # fmt: skip
    if shuffled is not None:
        verdicts = [each["human"] for each in rows]
        random.Random(shuffled).shuffle(verdicts)
        for each, human in zip(rows, verdicts, strict=True):
            each["human"] = human
    for each in rows:
        if change is not None:
            change(each)
    path.write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in rows))
    return path


WORDS = (
    "order", "tomorrow", "sorry", "warehouse", "courier", "evening", "address", "reply", "invoice", "number", "basket",
    "colour", "delay", "window", "friend", "garden", "letter", "market", "office", "paper", "ribbon", "string", "ticket",
)  # fmt: skip
