"""The configuration file's keys, as models. Each part of the service declares its own; this file puts them together."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, field_validator

from collector.config.alerts import AlertSettings, GoldenSettings, MonitorAlertSettings
from collector.config.endpoints import checked_endpoint
from collector.config.section import Section
from collector.dead_letters import DeadLetterSettings
from collector.durations import Seconds
from collector.evaluate.strata import MOST
from collector.page.settings import PageSettings
from collector.receive.access import AuthSettings
from collector.receive.settings import OtlpGrpcSettings, OtlpHttpSettings
from collector.redact.opening import RedactSettings
from collector.safeguards import CanarySettings
from collector.span import EVENT_NAME


class KafkaLogSettings(Section):
    """The internal logs as topics: `<prefix>.spans`, `.turns`, `.evaluations`, `.definitions`, `.dead_letters`.

    And `.labels`, which is kept for ever, and `.unlinked`, if conversations are linked.
    """

    bootstrap_servers: list[str] = Field(min_length=1, description="Brokers, as host:port.")
    prefix: str = Field(
        default="evalstream", pattern=r"^[A-Za-z0-9._-]+$", description="First part of every topic's name."
    )
    partitions: int = Field(
        default=16, ge=1, le=10_000, description="Partitions of each internal topic; fixed once created."
    )
    replication_factor: int = Field(default=1, ge=1, description="Replicas of each internal topic.")
    group_instance_id: str | None = Field(
        default=None,
        description="A name that outlives restarts (the pod's); without it a restart after a crash waits 45 s.",
    )
    session_timeout: Seconds = Field(
        default=45.0, gt=0, description="After so long without a sign of life a process's partitions go to others."
    )


class LogSettings(Section):
    """Where the logs are kept."""

    kind: Literal["sqlite", "kafka", "memory"] = Field(
        default="sqlite", description="One file, topics, or nothing that outlives the process."
    )
    path: str = Field(default="evalstream.db", description="sqlite: the one file of all logs.")
    kafka: KafkaLogSettings | None = Field(default=None, description="kafka: brokers and topics.")
    retention: Seconds = Field(default=7 * 86400.0, description="sqlite: how long records are kept beyond need.")


class KafkaSourceSettings(Section):
    """Topics that others write: OTLP, as the OpenTelemetry Collector does, or ready-made turns."""

    bootstrap_servers: list[str] = Field(min_length=1, description="Brokers, as host:port.")
    traces: list[str] = Field(default_factory=list, description="Topics with spans, like otlp_spans.")
    logs: list[str] = Field(default_factory=list, description="Topics with log records, like otlp_logs.")
    turns: list[str] = Field(
        default_factory=list,
        description="Topics with ready-made turns, conversations or chats: JSON, an array of it, or JSON lines.",
    )
    encoding: Literal["auto", "otlp_proto", "otlp_json"] = Field(
        default="auto", description="What spans and log records are in; auto looks at the first byte of each value."
    )
    group: str = Field(default="evalstream", min_length=1, description="The consumer group.")
    start: Literal["earliest", "latest"] = Field(default="earliest", description="Where a new group starts.")
    group_instance_id: str | None = Field(
        default=None, description="A name that outlives restarts; without it a restart after a crash waits 45 s."
    )


class ReceiveSettings(Section):
    """Where traces come from. Without this section: OTLP/HTTP on 127.0.0.1:4318."""

    otlp_http: OtlpHttpSettings | None = None
    otlp_grpc: OtlpGrpcSettings | None = Field(
        default=None, description="Needs the extra grpc: pip install 'evalstream[grpc]'."
    )
    kafka: list[KafkaSourceSettings] = Field(default_factory=list[KafkaSourceSettings])
    files: list[str] = Field(
        default_factory=list,
        description="Files or directories, read once at the start: OTLP (.pb, .json, .jsonl), or ready-made turns, "
        "conversations or chats (.json, .jsonl).",
    )


class IdentitySettings(Section):
    """Where the ids of conversations and users stand, beside the usual places."""

    conversation: list[str] = Field(
        default_factory=list,
        description="Attributes of spans or resources that name the conversation, tried before the usual ones. "
        "name.* is any attribute below a name that ends in session_id, thread_id, conversation_id or chat_id, name{} "
        "such a key in the JSON of the attribute.",
    )
    user: list[str] = Field(
        default_factory=list, description="The same for the user; name.* and name{} look for user_id."
    )
    ignore: list[str] = Field(
        default_factory=list, description="Attributes that name neither, like a session.id that is a browser's."
    )


class LinkSettings(Section):
    """Conversations of services that name none, put together by the history that each call repeats."""

    services: list[str] = Field(
        min_length=1, description='Services that give no id and send the whole history with each call; "*" for all.'
    )
    window: Seconds = Field(default=3600.0, gt=0, description="How long after a turn the next one may come.")
    max_age: Seconds = Field(
        default=21_600.0, gt=0, description="How long after its first turn a conversation is added to."
    )


class AssembleSettings(Section):
    """How long a trace is waited for, and what ties traces together."""

    quiet: Seconds = Field(default=10.0, description="A trace is read when nothing of it came for this long.")
    linger: Seconds = Field(
        default=60.0, description="How long late pieces of a trace are still put together with the rest."
    )
    identity: IdentitySettings = IdentitySettings()
    link: LinkSettings | None = Field(
        default=None, description="Without it a trace that names no conversation is one of its own."
    )


class BreakerSettings(Section):
    """When a judge's endpoint is taken to be out, and what its questions do then."""

    failures: int = Field(default=20, ge=1, description="Attempts in a row that fail.")
    first_wait: Seconds = Field(default=5.0, gt=0, description="Time until one question probes; then doubled.")
    longest_wait: Seconds = Field(default=60.0, gt=0, description="The longest such time.")
    when_open: Literal["pause", "shed"] = Field(
        default="pause", description="pause: questions wait; shed: their evaluations fail."
    )
    max_pause: Seconds | None = Field(default=None, ge=0, description="pause: how long at most; then shed.")


class JudgeSettings(Section):
    """A model behind any OpenAI-compatible endpoint."""

    model: str = Field(min_length=1, description="The model's name at the endpoint.")
    base_url: str = Field(
        default="https://api.openai.com/v1", pattern=r"^https?://", description="The endpoint, like https://host/v1."
    )
    api_key: SecretStr = Field(default=SecretStr("none"), description="Usually ${env:NAME}.")
    timeout: Seconds = Field(default=60.0, gt=0, description="Deadline of one request.")
    deadline: Seconds = Field(default=300.0, gt=0, description="Deadline of one question with all its retries.")
    concurrency: int = Field(default=32, ge=1, le=10_000, description="Requests in flight at most.")
    temperature: float = Field(default=0.0, ge=0.0, le=2.0, description="How freely the model words its answer.")
    max_tokens: int | None = Field(default=None, ge=1, description="Longest answer, in tokens.")
    top_logprobs: int = Field(default=20, ge=0, le=20, description="Alternatives asked for per token; 0 asks for none.")
    usd_per_million_input_tokens: float | None = Field(
        default=None, ge=0, description="The price of a prompt; without both prices cost is not counted."
    )
    usd_per_million_output_tokens: float | None = Field(default=None, ge=0, description="The price of an answer.")
    breaker: BreakerSettings = BreakerSettings()
    fallback: str | None = Field(default=None, description="A cheaper judge that takes over near a budget's end.")
    requests_per_minute: int | None = Field(default=None, ge=1, description="As the endpoint allows this model.")
    tokens_per_minute: int | None = Field(default=None, ge=1, description="As the endpoint allows this model.")
    cache: int = Field(
        default=0, ge=0, le=10_000_000, description="Answers kept in memory for identical questions; 0 keeps none."
    )

    @field_validator("base_url")
    @classmethod
    def _a_place_for_judged_text(cls, url: str) -> str:
        return checked_endpoint(url)

    @property
    def priced(self) -> bool:
        """Whether what it costs is known."""
        return self.usd_per_million_input_tokens is not None and self.usd_per_million_output_tokens is not None


class EndSettings(Section):
    """By what a turn says that its conversation is over, so that nobody waits for the idle time."""

    attributes: dict[str, str | list[str]] = Field(
        default_factory=dict, description="Names of a turn's attributes, and the values that end its conversation."
    )
    tools: list[str] = Field(default_factory=list, description="Names of tools whose call ends it.")
    events: list[str] = Field(
        default_factory=list,
        description="Names of span events or log records that end it, if they come with the turn's trace; those "
        "that carry messages or exceptions do not count.",
    )

    @field_validator("events")
    @classmethod
    def _names(cls, events: list[str]) -> list[str]:
        for each in events:
            if not re.fullmatch(EVENT_NAME, each):
                raise ValueError("an event's name has 1 to 100 characters and no white space; others are not noted")
        return events


Factor = Annotated[float, Field(ge=1.0, le=MOST)]
"""How many times as often something is judged."""


class LowScoreSettings(Section):
    """Turns that an evaluator without judge scores low."""

    evaluator: str = Field(description="Its name; it scores turns and asks no judge.")
    below: float = Field(gt=0.0, le=1.0, description="Scores below this one are low.")
    factor: Factor = Field(default=2.0, description="How many times as often they are judged.")


class HavingSettings(Section):
    """Turns with certain values of a field, or of attributes.<name>."""

    field: str = Field(min_length=1, description="The field, or attributes.<name>.")
    values: list[str] = Field(min_length=1, description="The values, as text.")
    factor: Factor = Field(default=2.0, description="How many times as often they are judged.")


class BoostSettings(Section):
    """What is judged more often than the rest. It weighs less, so means stay right."""

    error: Factor = Field(default=1.0, description="Turns that failed.")
    negative_feedback: Factor = Field(default=1.0, description="Turns that somebody disliked.")
    slow: Factor = Field(default=1.0, description="Turns that took longer than `slow_after`.")
    slow_after: Seconds = Field(default=10.0, gt=0, description="From how long on a turn is slow.")
    low_score: list[LowScoreSettings] = Field(default_factory=list[LowScoreSettings], max_length=10)
    having: list[HavingSettings] = Field(default_factory=list[HavingSettings], max_length=20)


class BudgetSettings(Section):
    """What judging may cost, in US dollars. The rates follow it; near its end cheaper judges may take over."""

    usd_per_hour: float | None = Field(default=None, gt=0, description="What an hour may cost.")
    usd_per_day: float | None = Field(default=None, gt=0, description="What a day may cost.")
    hard_cap: float = Field(
        default=1.2, ge=1.0, le=10.0, description="At so many times the budget within its hour or day nothing is asked."
    )
    fallback_at: float = Field(
        default=0.9, gt=0.0, le=1.0, description="At this share of it judges give way to their `fallback`, where named."
    )

    @property
    def limited(self) -> bool:
        """Whether there is a budget at all."""
        return self.usd_per_hour is not None or self.usd_per_day is not None


class JurySettings(Section):
    """Several judges that each make a whole evaluation; an evaluator names it as its judge."""

    judges: list[str] = Field(min_length=2, description="Names out of `judges`.")
    combine: Literal["mean", "median", "majority"] = Field(
        default="median", description="How their scores become one; majority goes by passing."
    )
    quorum: int | None = Field(
        default=None, ge=1, description="So many have to come to a score; more than half, if left out."
    )


class UseSettings(Section):
    """An evaluator that shall not share its monitor's sample."""

    name: str = Field(description="Out of `evaluators`.")
    sample: float | None = Field(default=None, gt=0.0, le=1.0, description="A rate of its own.")
    salt: str | None = Field(default=None, min_length=1, description="A draw of its own.")


class MonitorSettings(Section):
    """Which traffic is watched, at what rate, by which evaluators."""

    evaluators: list[str | UseSettings] = Field(min_length=1, description="Names out of `evaluators`.")
    match: dict[str, str | list[str]] = Field(
        default_factory=dict,
        description="A turn's field (service, model, dialect, user_id) or attributes.<name>, and the values wanted.",
    )
    sample: float = Field(default=1.0, gt=0.0, le=1.0, description="Share of conversations that are judged.")
    idle: Seconds = Field(default=900.0, description="A conversation is over when no turn came for this long.")
    lateness: Seconds = Field(default=600.0, description="How long after that a late turn reopens it.")
    max_age: Seconds = Field(default=86_400.0, gt=0, description="A conversation is over at this age at the latest,")
    max_turns: int = Field(default=200, ge=1, description="at so many turns,")
    max_bytes: int = Field(default=1 << 20, ge=1024, description="and at so many bytes, as they are kept.")
    end: EndSettings = EndSettings()
    boost: BoostSettings = BoostSettings()
    budget: BudgetSettings = BudgetSettings()

    alerts: MonitorAlertSettings = MonitorAlertSettings()

    @property
    def uses(self) -> list[UseSettings]:
        """The evaluators, each with what is its own."""
        return [UseSettings(name=each) if isinstance(each, str) else each for each in self.evaluators]


class EvaluateSettings(Section):
    """How the work is done."""

    concurrency: int = Field(
        default=64,
        ge=1,
        le=100_000,
        description="Evaluations under way at most, for each judge and for what asks none.",
    )
    waiting: int = Field(
        default=10_000,
        ge=0,
        le=1_000_000,
        description="For each judge, evaluations that may wait for a place; beyond, the turns log is not read on.",
    )
    waiting_bytes: int = Field(default=64 << 20, ge=1 << 20, description="The same in bytes, about.")
    grace: Seconds = Field(
        default=20.0, description="How long running evaluations may take to end when the service stops."
    )
    open_conversations: int = Field(
        default=100_000, ge=1, description="Conversations remembered per partition and monitor; the oldest leave first."
    )
    open_bytes: int = Field(default=256 << 20, ge=1 << 20, description="The same in bytes.")
    carry_records: int = Field(
        default=1_000_000, ge=1, description="A conversation that needs older records is written again into the log."
    )
    carry_after: Seconds = Field(default=7200.0, gt=0, description="The same by the records' age.")
    shed_after: Seconds | None = Field(
        default=None, gt=0, description="What waits longer than this is not judged any more, and counted as shed."
    )
    budget: BudgetSettings = Field(default=BudgetSettings(), description="For all monitors together.")
    sampling_salt: str = Field(default="evalstream", min_length=1, description="Another salt draws another sample.")


class TrafficSettings(Section):
    """The traffic that is expected. It changes nothing but what `evalstream check` says of the capacity it needs."""

    spans_per_second: float = Field(gt=0, description="All spans that are sent, those of other work among them.")
    spans_per_turn: float = Field(default=5.0, ge=1, description="Spans for each turn, all that come included.")
    bytes_per_span: float = Field(default=1000.0, gt=0, description="Of OTLP protobuf, uncompressed.")
    bytes_per_turn: float = Field(default=4000.0, gt=0, description="Of the texts of a turn, its history included.")
    turns_per_conversation: float = Field(default=5.0, ge=1, description="On average.")
    input_tokens: float = Field(default=1500.0, ge=0, description="That a judge reads for one evaluation.")
    output_tokens: float = Field(default=200.0, ge=0, description="That it writes.")


class Settings(Section):
    """The whole file."""

    redact: RedactSettings = RedactSettings()
    store_text: bool = Field(
        default=True,
        description="false: scores only. No explanations and no dead letters' values are kept, and what is to be "
        "judged only until it is.",
    )
    canary: CanarySettings = CanarySettings()
    dead_letters: DeadLetterSettings = DeadLetterSettings()

    log: LogSettings = LogSettings()
    receive: ReceiveSettings = ReceiveSettings(otlp_http=OtlpHttpSettings())
    assemble: AssembleSettings = AssembleSettings()
    judges: dict[str, JudgeSettings] = Field(default_factory=dict)
    juries: dict[str, JurySettings] = Field(default_factory=dict)
    evaluators: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="How to score, by name: a kind, its keys, and the judge that it asks."
    )
    monitors: dict[str, MonitorSettings] = Field(default_factory=dict)
    evaluate: EvaluateSettings = EvaluateSettings()
    alerts: AlertSettings = AlertSettings()
    golden: GoldenSettings | None = None
    traffic: TrafficSettings | None = Field(
        default=None, description="The traffic that is expected, for `evalstream check` to say what it needs."
    )
    export: dict[str, dict[str, Any]] = Field(
        default_factory=lambda: {"prometheus": {}}, description="Exporters by name, with their settings."
    )
    page: PageSettings | None = Field(
        default=None, description="A page to look at the service with; without this key there is none."
    )

    @property
    def page_auth(self) -> AuthSettings | None:
        """Whose tokens open the page: its own, or else those of senders."""
        senders = self.receive.otlp_http.auth if self.receive.otlp_http else None
        return self.page.auth or senders if self.page else None

    def members(self, judge: str) -> tuple[str, ...]:
        """The judges behind a name that an evaluator gives: the jury's, or the one."""
        return tuple(self.juries[judge].judges) if judge in self.juries else (judge,)
