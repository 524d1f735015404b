"""A judge behind an endpoint whose model decides: it gives probabilities for typed questions, and writes nothing."""

import re
import secrets
from collections.abc import Sequence
from typing import ClassVar, Unpack

from evaluators.answers.decided_answers import decided_answer
from evaluators.asking.prompt_isolation import wrap_for_decision
from evaluators.errors import MethodUnavailable
from evaluators.judge import Answer, Prompt, R, Verdict
from evaluators.judges.apis.deciding import DecisionRequest, NumberedQuestion, number_questions
from evaluators.judges.completions import estimated_tokens
from evaluators.judges.endpoint import CostTracker, DecidingOptions, DecidingSettings, EndpointJudge
from evaluators.judges.error_mapping import HttpStatusError, complaint_text
from evaluators.questions import Decision, deciding_model

_TOO_MANY = frozenset({400, 413, 422, 501})
_NUMBER = re.compile(r"\d{1,6}")


class DecisionJudge(EndpointJudge):
    """A judge behind an endpoint of decisions.

    Args:
        model: the model's name at the endpoint. api: the wire format: `DECISIONS` or `SYSTEMONE`. base_url: where the
        endpoint is, up to and including `/v1`; the environment's or the vendor's own if None. api_key: sent as bearer
        token; if None, the environment's. timeout: seconds for a whole question, in however many requests. input_price,
        output_price: US dollars per million tokens; without the first, the cost of a verdict is None.
        cached_input_price: the same for input tokens out of the provider's prompt cache; `input_price` if None.
        cache_write_price: the same for input tokens that were written into it; `input_price` if None. headers,
        fresh_headers, extra_body, ssl_context, proxy, on_headers: see `OpenAIJudge`.

    It answers prompts that have typed questions, with a probability for each option; any other cannot be asked here. An
    unanswered question of a prompt with one group is an error. With several groups the reply is filled with nothing,
    and what is not answered stands among the decisions: it concerns one group. An endpoint that refuses a number of
    questions is asked fewer at once from then on. Nothing is retried here: see `Retrying`.

    Raises:
        ValueError: there is no key.
    """

    decides: ClassVar[bool] = True
    takes_packs: ClassVar[bool] = True

    def __init__(self, model: str, **options: Unpack[DecidingOptions]) -> None:
        settings = DecidingSettings(**options)
        super().__init__(model, settings, settings.endpoint(settings.api))
        self._api = settings.api
        self._secret = secrets.token_bytes(32)
        self._most = settings.api.most

    @property
    def model(self) -> str:
        """The configured model's name with its wire format: see `evaluators.questions.deciding_model`."""
        return deciding_model(self._api.name, self._model)

    async def ask(self, prompt: Prompt, reply: type[R], *, logprobs: bool = False, samples: int = 1) -> Verdict[R]:  # noqa: ARG002 - a decision has its probabilities, always
        """See `Judge.ask`. The probabilities come with one answer, which stands for any number of samples.

        Raises:
            MethodUnavailable: the prompt has to be answered in words.
        """
        if not prompt.groups:
            raise MethodUnavailable("this judge decides and cannot write; name another that extracts")
        async with self._billed() as bill:
            questions = number_questions(prompt.groups, prompt.material)
            answer = _answer(reply, prompt, questions, await self._decide(prompt, questions, bill))
            return Verdict([answer], bill.model or self._model, bill.fingerprint, bill.usage, bill.cost_usd)

    async def _decide(
        self, prompt: Prompt, questions: Sequence[NumberedQuestion], bill: CostTracker
    ) -> Sequence[Decision]:
        """A decision for each question, in as many consecutive requests as the endpoint needs."""
        fenced = wrap_for_decision(prompt.material, self._secret)
        decisions: list[Decision] = []
        while len(decisions) < len(questions):
            part = questions[len(decisions) : len(decisions) + self._most]
            request = DecisionRequest(
                model=self._model, material=prompt.material, fenced=fenced, questions=part, extra=self._extra_body
            )
            try:
                body = self._api.body(request)
                reply = self._api.reply((await self._endpoint.post(body)).content, request.questions)
            except HttpStatusError as error:
                if not self._learn(len(part), error):
                    raise self._refused(error, fenced) from None
                continue
            bill.add(reply, estimated_tokens(body), 0)
            decisions += reply.decisions
        return decisions

    def _learn(self, sent: int, error: HttpStatusError) -> bool:
        """Ask fewer questions at once after a refusal that mentions their number; says whether it makes sense to ask
        again.
        """
        complaint = complaint_text(error).lower()
        if error.status not in _TOO_MANY or sent == 1 or "question" not in complaint:
            return False
        fewer = [int(number) for number in _NUMBER.findall(complaint) if 0 < int(number) < sent]
        self._most = min(self._most, max(fewer, default=sent // 2))
        return True


def _answer(
    reply: type[R], prompt: Prompt, questions: Sequence[NumberedQuestion], decisions: Sequence[Decision]
) -> Answer[R]:
    if len(prompt.groups) == 1:
        return decided_answer(reply, [question.question for question in questions], decisions)
    return Answer(reply.model_construct(), "", decisions=tuple(decisions))
