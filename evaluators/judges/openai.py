"""A judge behind an endpoint whose model writes: OpenAI-compatible chat completions, or another wire format."""

import asyncio
import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar, Unpack, cast

from evaluators.answers.alternatives import alternatives_for
from evaluators.answers.reply_parser import parse_answer
from evaluators.answers.schemas import has_reasons, schema_of, schema_with_key
from evaluators.asking.prompt_isolation import key_request, subject_text
from evaluators.cases import Json
from evaluators.errors import JudgeError, JudgeReplyInvalid
from evaluators.judge import Answer, Prompt, R, Verdict
from evaluators.judges.capabilities import Capabilities, LearntCapabilities, QuestionAttempt
from evaluators.judges.chats import ALONE, GO, Chat, judged_text, question_text, with_text
from evaluators.judges.completions import Choice, Completion, estimated_tokens
from evaluators.judges.endpoint import CostTracker, EndpointJudge, RequestOutdated, WritingOptions, WritingSettings
from evaluators.judges.error_mapping import ABOUT_QUESTION, HttpStatusError, complaint_text, meaning_of
from evaluators.judges.own_words import words_beside
from evaluators.judges.requests import Question, Request, question_of, question_with_subject_first, subject_first_model
from evaluators.packs.ask_pack import ask_pack
from evaluators.packs.packed_prompt import NamedQuestion, PackPrompt, PackReply, pack_schema

_SAMPLING_TEMPERATURE = 1.0
_CACHE_KEY = "prompt_cache_key"
_CUT_OFF = "judge_reply_truncated"
_LESSONS = 12  # more than there are features to take away
_QUOTED = 2000
_FAULT = 500


class OpenAIJudge(EndpointJudge):
    """A judge behind an OpenAI-compatible chat completions endpoint, or another endpoint whose model writes answers.

    Args:
        model: the model's name at the endpoint.
        base_url: where the endpoint is, up to and including `/v1`; if None, `OPENAI_BASE_URL`, else OpenAI's own.
        api_key: sent as bearer token; endpoints without keys take any text. If None, `OPENAI_API_KEY`.
        temperature: of single answers; several samples are drawn at 1 unless the prompt says otherwise.
        max_tokens: length limit of an answer; None leaves it to the endpoint.
        timeout: seconds for a whole question: every request, every sample, the repair of a broken answer.
        top_logprobs: alternatives per token asked for where token probabilities are wanted; lowered to what the
            endpoint takes, 0 for never. If None, as many as the form of the answer has use for.
        input_price, output_price: US dollars per million tokens; without both, the cost of a verdict is None.
        cached_input_price: the same for input tokens out of the provider's prompt cache; `input_price` if None.
        cache_write_price: the same for input tokens that were written into it; `input_price` if None. headers: sent
        with each request. fresh_headers: asked before each request for headers that may have changed, such as a rotated
        key. extra_body: parameters of the endpoint's own, put into each request as they are. optional: more parameters
        (`seed`, `reasoning_effort`); a parameter that the endpoint refuses by name is left out. ssl_context:
        certificates to trust and to show; the usual authorities if None. proxy: the HTTP proxy to connect through; the
        environment's if None. answer_key: whether an answer must carry the key that its question ends in, which a
        verdict planted in the
            judged text cannot have. False for a model too weak to repeat eight characters.
        subject_first: what is judged comes first and the instructions after it, so that questions about one subject
            share what the provider's prompt cache holds. Scores may change, so `model` says so.
        sight: which pictures of a case it is shown; none by default. The model has to be able to see. on_headers: is
        told the headers of each response, refusals too: endpoints say there what they still allow. posting: wraps the
        endpoint: unchanged, or gathering requests for batches. secret: the source of markers and keys; drawn if None.
        With the same secret, equal questions are equal requests. client: `AsyncOpenAI`, `AsyncAzureOpenAI` or
        `AsyncBedrockOpenAI` through which requests go, or a function that
            makes one; its address and credentials are used, and it is closed only if the function made it.
        tracing: wraps each connection, for instance to make spans of requests. retries: how often a request that is
        refused for now (429, 500, …) is posted again; 0 below `Retrying`. api: the wire format of the endpoint: `CHAT`,
        or one of `evaluators.judges.apis` that write. A missing address or key is then its vendor's, like
        `ANTHROPIC_API_KEY`.

    Refusals teach what the endpoint cannot do (structured output, token probabilities, …), if the same question is
    answered without it; the judge remembers this, and tries again later. An answer that does not parse is sent back
    once, with what is wrong with it; if an answer is cut off in its reason, the verdict alone is asked for, and from
    then on the length of reasons is bounded. Longer outages are for `Retrying`. Close it with `aclose`, or use it as an
    async context manager; so does the end of `asyncio.run`. One event loop at a time.

    Raises:
        ValueError: there is no key.
    """

    takes_packs: ClassVar[bool] = True

    def __init__(self, model: str, **options: Unpack[WritingOptions]) -> None:
        self._settings = settings = WritingSettings(**options)
        api, secret = settings.api, settings.secret
        super().__init__(model, settings, settings.posting(settings.endpoint(api)))
        of_questions = secret or secrets.token_bytes(32)
        self._secret = of_questions if settings.answer_key else None
        self._subject_secret = of_questions if settings.subject_first else None
        self._marker = secret[:16].hex() if secret and not settings.answer_key else None
        self.sight = settings.sight
        self._optional = dict(settings.optional or {})
        self._has_cache_key = settings.subject_first and api.takes_cache_key
        self._learnt = LearntCapabilities(api.abilities(self._hopes()))
        self._api = api

    def _hopes(self) -> Capabilities:
        """The endpoint's assumed capabilities before the first answer."""
        settings = self._settings
        hopes = Capabilities(optional=(*self._optional, *([_CACHE_KEY] if self._has_cache_key else ())))
        if settings.top_logprobs is not None:
            hopes = replace(hopes, top_logprobs=settings.top_logprobs)
        if settings.subject_first:  # providers put a schema or a tool before the messages, and no two are the same
            hopes = replace(hopes, format=settings.api.shareable)
        return hopes

    @property
    def model(self) -> str:
        """The configured model name, with the order of its questions where that is not the usual one."""
        return self._model if self._subject_secret is None else subject_first_model(self._model)

    @property
    def base_url(self) -> str | None:
        """The address of the endpoint; None with a client of one's own."""
        return None if self._settings.client is not None else self._settings.address(self._api)

    @property
    def capabilities(self) -> Capabilities:
        """The endpoint's capabilities, as far as known."""
        return self._learnt.current

    async def ask(self, prompt: Prompt, reply: type[R], *, logprobs: bool = False, samples: int = 1) -> Verdict[R]:
        """See `Judge.ask`. With several samples, those that do not parse are left out, unless none does."""
        async with self._billed() as bill:
            if isinstance(prompt, PackPrompt):
                return cast("Verdict[R]", await self._ask_pack(prompt, bill))
            if self._subject_secret is None:
                question = question_of(prompt, self._secret, self._marker)
            else:
                question = question_with_subject_first(prompt, self._subject_secret, keyed=self._secret is not None)
            request = self._request(prompt, question, reply, logprobs=logprobs, samples=samples)
            if samples == 1:
                choices = (await self._complete(question.chat, request, 1, bill)).choices[:1]
            else:
                choices = await self._choices(question.chat, request, samples, bill)
            answers, broken = _read_all(choices, reply, question.key)
            if not answers and broken is not None:
                choice, error = broken
                if error.type == _CUT_OFF:
                    answers = [await self._shorter(question, request, reply, error, bill)]
                else:
                    answers = [await self._repair(question, request, reply, choice, error, bill)]
            return Verdict(answers, bill.model or self._model, bill.fingerprint, bill.usage, bill.cost_usd)

    def _optional_of(self, prompt: Prompt) -> Mapping[str, Json]:
        """The further parameters of a request: with the key of the subject in the provider's cache."""
        if not self._has_cache_key:
            return self._optional
        return {**self._optional, _CACHE_KEY: hashlib.sha256(subject_text(prompt.material).encode()).hexdigest()[:32]}

    async def _ask_pack(self, pack: PackPrompt, bill: CostTracker) -> Verdict[PackReply]:
        async def complete(chat: Chat, questions: Sequence[NamedQuestion]) -> Choice:
            request = Request(
                model=self._model,
                temperature=self._settings.temperature if pack.temperature is None else pack.temperature,
                max_tokens=pack.limit(self._settings.max_tokens),
                logprobs=pack.logprobs,
                form="Pack",
                schema=pack_schema(questions),
                extra=self._extra_body,
                optional=self._optional_of(pack),
                most_alternatives=pack.alternatives,
            )
            return (await self._complete(chat, request, 1, bill)).choices[0]

        reply, choice = await ask_pack(pack, self._secret, complete, self._marker)
        model = bill.model or self._model
        return Verdict([Answer(reply, choice.text)], model, bill.fingerprint, bill.usage, bill.cost_usd)

    def _request(self, prompt: Prompt, question: Question, reply: type[R], *, logprobs: bool, samples: int) -> Request:
        usual = _SAMPLING_TEMPERATURE if samples > 1 else self._settings.temperature
        return Request(
            model=self._model,
            temperature=usual if prompt.temperature is None else prompt.temperature,
            max_tokens=self._settings.max_tokens if prompt.max_tokens is None else prompt.max_tokens,
            logprobs=logprobs,
            form=reply.__name__,
            schema=schema_of(reply) if question.key is None else schema_with_key(reply),
            reply=reply,
            extra=self._extra_body,
            optional=self._optional_of(prompt),
            shared=question.shared,
            constant=prompt.constant,
            most_alternatives=alternatives_for(reply) if logprobs and self._settings.top_logprobs is None else None,
        )

    async def _choices(self, chat: Chat, request: Request, samples: int, bill: CostTracker) -> Sequence[Choice]:
        """The requested number of answers, in one request if the endpoint can, else in several."""
        choices = list((await self._complete(chat, request, samples, bill)).choices)
        missing = samples - len(choices)
        if missing and self._learnt.current.multiple_choices:
            self._learnt.current = replace(self._learnt.current, multiple_choices=False)
        others = await asyncio.gather(
            *(self._complete(chat, request, 1, bill) for _ in range(missing)), return_exceptions=True
        )
        for other in others:  # some answers are better than paying for all again
            if isinstance(other, Completion):
                choices += other.choices[:1]
            elif not isinstance(other, JudgeError):
                raise other
        return choices[:samples]

    async def _shorter(
        self, question: Question, request: Request, reply: type[R], error: JudgeReplyInvalid, bill: CostTracker
    ) -> Answer[R]:
        """Ask for the verdict alone. From now on schemas bound texts and lists, if the endpoint takes such.

        If there are no reasons to leave out, as in a list of claims, only the bounds can help.
        """
        earlier = self._learnt.current
        self._learnt.current = earlier.bounded()
        if has_reasons(reply):
            completion = await self._complete(with_text(question.chat, ALONE), replace(request, alone=True), 1, bill)
            return _read_one(completion.choices[0], reply, question.key, alone=True)
        if earlier.bounds != "unneeded" or earlier.format != "json_schema":
            raise error
        return _read_one((await self._complete(question.chat, request, 1, bill)).choices[0], reply, question.key)

    async def _repair(
        self, question: Question, request: Request, reply: type[R], choice: Choice, error: JudgeError, bill: CostTracker
    ) -> Answer[R]:
        """Send a broken answer back once, with what is wrong with it. An answer that was cut off or refused is not sent
        back.
        """
        if error.type != JudgeReplyInvalid.type:
            raise error
        quoted = choice.text if len(choice.text) <= _QUOTED else choice.text[:_QUOTED] + " […]"
        complaint = f"That could not be read: {error}. {GO} Nothing but that one JSON object."
        again = [
            *question.chat,
            {"role": "assistant", "content": quoted or "(no answer)"},
            {"role": "user", "content": f"{complaint} {key_request(question.key)}" if question.key else complaint},
        ]
        return _read_one((await self._complete(again, request, 1, bill)).choices[0], reply, question.key)

    async def _complete(self, chat: Chat, request: Request, samples: int, bill: CostTracker) -> Completion:
        """One completion; each refusal before it teaches what the endpoint cannot do."""
        attempt = self._learnt.begin(partial(request.features_used, samples))
        lessons = 0
        while True:
            features = attempt.features
            sent = request.shaped(bounded=features.bounds == "needed")
            alternatives = sent.alternatives(features.top_logprobs)
            shape = None if sent.constant else (features, sent.form, alternatives, samples > 1)
            try:
                answered = await self._endpoint.post(self._api.body(chat, sent, features, samples), shape)
                completion = self._api.completion(answered.content)
            except RequestOutdated:
                attempt = self._learnt.begin(partial(request.features_used, samples))
                continue
            except HttpStatusError as error:
                lessons += 1
                if lessons == _LESSONS or not self._goes_on(attempt, error, chat):
                    problem = self._refused(error, question_text(chat))
                    self._notices.warn(f"{error.status} {meaning_of(error)}", str(problem))
                    raise problem from None
                continue
            self._learnt.answered(attempt)
            bill.add(completion, estimated_tokens(chat), completion.tokens, answered.price_share)
            return completion.limited(sent.max_tokens) if features.limit and sent.max_tokens is not None else completion

    def _goes_on(self, attempt: QuestionAttempt, error: HttpStatusError, chat: Chat) -> bool:
        """Whether a refused question is asked again with a feature less."""
        meaning = meaning_of(error, question_text(chat))
        if meaning in ABOUT_QUESTION or meaning == "unsupported":
            complaint = words_beside(complaint_text(error), judged_text(chat))
            complaint = "response_format" if meaning == "failed generation" else complaint
            return self._learnt.refused(attempt, complaint, named=meaning != "unsupported")
        return error.status == _FAULT and self._learnt.failed(attempt)


def _read_all(
    choices: Sequence[Choice], reply: type[R], key: str | None
) -> tuple[Sequence[Answer[R]], tuple[Choice, JudgeReplyInvalid] | None]:
    """The readable answers, and the last unreadable answer with its fault."""
    answers: list[Answer[R]] = []
    broken = None
    for choice in choices:
        try:
            answers.append(_read_one(choice, reply, key))
        except JudgeReplyInvalid as error:
            broken = (choice, error)
    return answers, broken


def _read_one(choice: Choice, reply: type[R], key: str | None, *, alone: bool = False) -> Answer[R]:
    if choice.refused:
        raise JudgeReplyInvalid("the judge refused to answer", type="judge_refused")
    try:
        return parse_answer(choice.text, reply, key, choice.tokens, alone=alone)
    except JudgeReplyInvalid:
        if choice.finish_reason != "length":
            raise
        raise JudgeReplyInvalid("the answer was cut off at its length limit", type=_CUT_OFF) from None
