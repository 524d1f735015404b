"""The batches of a command: its journal, and judges whose requests go out in batches instead of at once."""

import asyncio
import os
import sqlite3
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path

from collector.backoff import StateLines
from collector.config.configured import Config
from collector.config.settings import JudgeSettings
from collector.errors import ConfigError, EvalstreamError
from collector.judging.outage_reporter import address_without_secrets
from collector.logs.log import Confirm
from collector.telemetry.plain import to_terminal
from collector.wording import plural
from evaluators.errors import JudgeError
from evaluators.judges.apis.writing import WritingApi
from evaluators.judges.batches.anthropic_batches import AnthropicBatches
from evaluators.judges.batches.batch_connection import BatchConnection
from evaluators.judges.batches.batch_endpoint import BatchEndpoint
from evaluators.judges.batches.batch_terms import AbsentBatches, BatchPace, BatchProgress, BatchTerms
from evaluators.judges.batches.journal import BatchJournal, JournalInUse
from evaluators.judges.batches.provider import BatchProvider, NoBatches
from evaluators.judges.batches.submitted_batches import GONE
from evaluators.judges.endpoint import Endpoint, EndpointOptions

SUFFIX = ".batches"
"""The suffix that makes the journal's name from the output's."""
REPORT_AFTER = 60.0
"""Seconds between two reports of one batch, or of one judge that is unavailable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnduringBatches:
    """The batches of a service: the most requests in one, what is waited for before each, and who gets its progress.

    The callbacks get a judge's name first; `on_problem` is called for each call that failed but will be retried,
    `on_at_once` for each request that went out at once. `warn` gets messages for the operator. `absent` remembers which
    endpoints take no batches, and `outages` which judges are unavailable; all partitions and configurations share it.
    """

    most_items: int
    confirm: Confirm
    on_progress: Callable[[str, BatchProgress], None]
    on_problem: Callable[[str, JudgeError], None]
    on_at_once: Callable[[str], None]
    warn: Callable[[str], None]
    absent: AbsentBatches
    outages: StateLines


@dataclass(eq=False, repr=False)
class Batches:
    """A journal and the endpoints that use it: a command's, or with `enduring` a service's."""

    journal: BatchJournal
    pace: BatchPace
    say: Callable[[str], None]
    _: KW_ONLY
    output: Path | None = None
    enduring: EnduringBatches | None = None

    def __post_init__(self) -> None:
        self._endpoints: list[tuple[str, JudgeSettings, BatchEndpoint]] = []

    def gathering(
        self, name: str, settings: JudgeSettings, api: WritingApi, options: EndpointOptions
    ) -> Callable[[Endpoint], BatchEndpoint]:
        """Turns a judge's endpoint into one that gathers its requests for batches."""

        def gather(endpoint: Endpoint) -> BatchEndpoint:
            terms = self._terms(name, settings)
            gathering = BatchEndpoint(endpoint, _provider(settings, api, options, terms), self.journal, terms)
            self._endpoints.append((name, settings, gathering))
            return gathering

        return gather

    def _terms(self, name: str, settings: JudgeSettings) -> BatchTerms:
        enduring = self.enduring
        reporter = _Reporter(name, self.say, enduring)
        terms = BatchTerms(
            home=home_of(name, settings),
            discount=settings.batch_discount,
            timeout=settings.timeout,
            pace=self.pace,
            on_progress=reporter.report,
            on_problem=reporter.report_problem,
            on_answer=reporter.report_answer,
        )
        if enduring is None:
            return terms

        def on_absent(error: NoBatches) -> None:
            enduring.warn(f"{absent_text(name, settings, error)}; {AT_ONCE}")

        return replace(
            terms,
            most_items=enduring.most_items,
            confirm=enduring.confirm,
            on_at_once=lambda: enduring.on_at_once(name),
            endures=True,
            absent=enduring.absent,
            concurrency=settings.concurrency,
            on_absent=on_absent,
        )

    async def start(self) -> None:
        """Follow the batches of earlier runs. A service (`enduring`) does not wait for its endpoints.

        Raises:
            ConfigError: an endpoint takes no batches.
            EvalstreamError: it cannot be asked.
        """
        for name, settings, endpoint in self._endpoints:
            if self.enduring is not None:
                endpoint.follow_open()
                endpoint.look_for_batches()
                continue
            try:
                await endpoint.start()
            except NoBatches as error:
                text = absent_text(name, settings, error)
                raise ConfigError(f"{text}; leave out --batch, or name a judge whose provider has batches") from None
            except JudgeError as error:
                raise EvalstreamError(
                    f"judges.{name} at {address_without_secrets(settings)}: its batches cannot be looked at ({error})"
                ) from None

    def finish(self) -> None:
        """Remove the journal, since all is done; unless a batch is open that was not waited for."""
        left = self.journal.open_batches()
        if not left:
            if self.output is not None:
                with self.output.open("ab") as file:  # paid answers are on the disk before the journal is removed
                    os.fsync(file.fileno())
            self.journal.remove()
            return
        names = ", ".join(batch.id or batch.key for batch in left)
        self.say(
            f"{plural(len(left), 'batch', 'batches')} of an earlier run still open ({names}), which nothing of this "
            f"run waits for; cancel at the provider what is not wanted, then delete {self.journal.path}"
        )


class BatchesOfCheck(Batches):
    """Batches that send nothing: `evalstream check` uses them to see whether endpoints take batches."""

    def __init__(self, journal: BatchJournal, pace: BatchPace) -> None:
        super().__init__(journal, pace, lambda _report: None)

    async def start(self) -> None:
        """Nothing is followed."""

    async def look(self, patience: float) -> Sequence[str]:
        """The answer of each endpoint within `patience` seconds, as a sentence."""
        return await asyncio.gather(*(_look(*endpoint, patience) for endpoint in self._endpoints))


async def _look(name: str, settings: JudgeSettings, endpoint: BatchEndpoint, patience: float) -> str:
    where = f"judges.{name} at {address_without_secrets(settings)}"
    try:
        async with asyncio.timeout(patience):
            await endpoint.start()
    except NoBatches as error:
        return f"{absent_text(name, settings, error)}; {AT_ONCE}"
    except JudgeError as error:
        return f"{where}: whether it takes batches is not known ({error})"
    except TimeoutError:
        return f"{where}: whether it takes batches is not known (no answer within {patience:g} s)"
    return f"{where} takes batches"


AT_ONCE = (
    "its evaluations that may wait are made at once, at the full price; leave out urgency: hours, "
    "or name a judge whose provider has batches"
)
"""The fate of deferred evaluations of a judge without batches, and the remedy."""


def absent_text(judge: str, settings: JudgeSettings, error: NoBatches) -> str:
    """The sentence that a judge's endpoint takes no batches."""
    return f"judges.{judge} at {address_without_secrets(settings)}: {error}"


def home_of(name: str, settings: JudgeSettings) -> str:
    """A judge and its endpoint, as a journal names them."""
    return f"{name} {settings.api} {settings.base_url}"


@contextmanager
def open_batches(enabled: bool, output: Path | None, pace: BatchPace | None = None) -> Generator[Batches | None]:
    """The batches of a command with this output; None if it asks at once.

    Their journal is beside the output, and remains until `Batches.finish`.

    Raises:
        ConfigError: there is no output to resume from, or the journal cannot be used.
    """
    if not enabled:
        yield None
        return
    if output is None or output.suffix == ".csv":
        raise ConfigError(
            "--batch: name a file that ends in .jsonl with --output: a run that is interrupted resumes from it"
        )
    path = output.with_name(output.name + SUFFIX)
    try:
        journal = BatchJournal(path)
    except JournalInUse:
        raise ConfigError(
            f"{path}: another run works with it; wait for its end, or name another file with --output"
        ) from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written ({error.strerror}); name another file with --output") from error
    except sqlite3.DatabaseError:
        raise ConfigError(f"{path}: is no journal of batches; name another file with --output") from None
    with closing(journal):
        yield Batches(journal, pace or BatchPace(), to_terminal, output=output)


def at_batch_prices(config: Config) -> Config:
    """The configuration with the prices of batches, to estimate the cost of evaluations."""
    judges = {name: _discounted(judge) for name, judge in config.settings.judges.items()}
    return replace(config, settings=config.settings.model_copy(update={"judges": judges}))


def _discounted(settings: JudgeSettings) -> JudgeSettings:
    share = 1.0 - settings.batch_discount * settings.takes_batches
    prices = {name: getattr(settings, name) for name in type(settings).model_fields if name.startswith("usd_per_")}
    return settings.model_copy(update={name: price and price * share for name, price in prices.items()})


def _provider(settings: JudgeSettings, api: WritingApi, options: EndpointOptions, terms: BatchTerms) -> BatchProvider:
    headers, fresh_headers = options.get("headers") or {}, options.get("fresh_headers") or dict
    if settings.api == "anthropic":
        return AnthropicBatches(
            BatchConnection(
                settings.base_url,
                {**api.headers(settings.api_key.get_secret_value()), **headers},
                ssl_context=options.get("ssl_context"),
                proxy=settings.proxy.get_secret_value() if settings.proxy else None,
                fresh_headers=fresh_headers,
            )
        )
    from evaluators.judges.batches.openai_batches import OpenAIBatches  # the client takes most of a second to import

    client = options.get("client")
    assert callable(client), "batches of OpenAI go through its client"
    return OpenAIBatches(client(), api.path, terms.confirm, lambda: {**headers, **fresh_headers()})


@dataclass(eq=False, repr=False)
class _Reporter:
    """Reports the progress of a judge's batches: at their beginning and end, and once a minute."""

    judge: str
    say: Callable[[str], None]
    enduring: EnduringBatches | None

    def __post_init__(self) -> None:
        self._batches = StateLines(REPORT_AFTER)
        self._outages = StateLines(REPORT_AFTER) if self.enduring is None else self.enduring.outages
        self._warn = self.say if self.enduring is None else self.enduring.warn
        self._ends_outage = self.judge in self._outages.open  # then it began with an earlier configuration

    def report(self, progress: BatchProgress) -> None:
        """Report the progress of a batch."""
        if progress.status == GONE:
            self._warn(f"judge {self.judge}: {_gone_text(progress)}")
        elif progress.ended or self._batches.is_due(progress.batch):
            self.say(f"judge {self.judge}: {_progress_text(progress)}")
        if self.enduring is not None:
            self.enduring.on_progress(self.judge, progress)

    def report_problem(self, error: JudgeError) -> None:
        """Report that the provider is unavailable."""
        if self._outages.is_due(self.judge):
            self._warn(f"judge {self.judge} is unavailable ({error}); it is asked again")
        if self.enduring is not None:
            self.enduring.on_problem(self.judge, error)

    def report_answer(self, has_failed: bool) -> None:
        """Report that the provider works again: see `BatchTerms.on_answer`.

        A call that `has_failed` before ends the outage, and so does the first batch that is taken, if the outage began
        with an earlier configuration. Other batches end none, as a full queue refuses large ones and takes small ones.
        The next problem is another one, and is reported at once.
        """
        if (has_failed or self._ends_outage) and self.judge in self._outages.open:
            self._outages.open.discard(self.judge)
            self._outages.forget(self.judge)
            self.say(f"judge {self.judge} is available again")
        self._ends_outage = False


def _gone_text(progress: BatchProgress) -> str:
    lost = plural(progress.without_answer, "answer")
    return (
        f"batch {progress.batch} is not at the provider any more, and with it {lost} that may have been paid for: "
        "their evaluations fail, and are made again only if somebody says so; look whether it was deleted, or the key "
        "is another account's"
    )


def _progress_text(progress: BatchProgress) -> str:
    age = f"{progress.seconds / 60:.0f} min" if progress.seconds >= 60 else f"{progress.seconds:.0f} s"
    if not progress.ended:
        return f"batch {progress.batch} {progress.status}: {progress.done:,} of {progress.total:,} done after {age}"
    without = f", {progress.without_answer:,} without an answer" if progress.without_answer else ""
    unknown = f", {plural(progress.unknown, 'result')} that nobody asked for" if progress.unknown else ""
    answered = progress.total - progress.without_answer
    return f"batch {progress.batch} {progress.status} after {age}: {plural(answered, 'answer')}{without}{unknown}"
