"""`evalstream dead-letters`: lists, shows and reprocesses records that could not be processed."""

import base64
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial

from rich.console import Console
from rich.table import Column, Table

from collector.config.configured import Config
from collector.dead_letters import DeadLetter, append_letters, letter_to_json, letters_in, record_of
from collector.errors import BadInput, ConfigError
from collector.logs.log import Log, LogError, Record, RecordTooLarge
from collector.otlp.own_items import OwnItems
from collector.receive.feedback_ingest import ALL_FEEDBACK, parse_feedback, parse_references
from collector.receive.parsed_request import parse
from collector.receive.turn_ingest import ArrivalTimes, message_location, parse_turns
from collector.redact.open_redactor import open_redactor
from collector.redact.redactor import Redactor
from collector.service.open_logs import Logs, open_stored_logs, own_items
from collector.telemetry.plain import plain

Print = Callable[[str], None]

_PREVIEW_BYTES = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterFilter:
    """Selects letters by id and stage; empty ids and no stage mean all. Redriven ones only if `redriven`."""

    ids: Collection[str] = ()
    stage: str | None = None
    redriven: bool = False

    def __call__(self, letter: DeadLetter) -> bool:
        """Whether the letter is one of them."""
        return (
            (not self.ids or letter.letter_id in self.ids)
            and self.stage in (None, letter.stage)
            and (self.redriven or letter.state == "dead")
        )


_STORE = "dead_letters: {keep_values: true}"
_NOT_STORED = "values without 'stored' were not stored"


async def list_letters(config: Config, wanted: LetterFilter, console: Console, *, as_json: bool) -> int:
    """Print a table, or a JSON object a line; the exit status."""
    letters = await _letters(config, wanted)
    if as_json:
        for letter in letters:
            console.file.write(letter_to_json(replace(letter, value=None, key=None, headers=())).decode() + "\n")
        return 0
    table = Table(
        Column("id", no_wrap=True), "stage", "source", "position", "attempts", "bytes", "value", "state", "reason"
    )
    for letter in letters:
        place = f"{letter.partition}:{letter.position}" + (f"+{letter.piece}" if letter.piece else "")
        stored = "stored" if letter.value is not None else "–"
        table.add_row(
            letter.letter_id, letter.stage, plain(letter.source), place, str(letter.attempts), str(letter.size), stored,
            letter.state, plain(letter.reason),
        )  # fmt: skip
    if letters:
        console.print(table)
        if not all(letter.value is not None or letter.state == "redriven" for letter in letters):
            console.print(f"{_NOT_STORED}, and redrive cannot process them; to store values from now on: {_STORE}")
    else:
        console.print("no dead letters")
    return 0


async def show_letter(config: Config, letter_id: str, say: Print) -> int:
    """Print one letter with the beginning of its value; the exit status."""
    letters = await _letters(config, LetterFilter(ids=(letter_id,), redriven=True))
    if not letters:
        raise _unknown([letter_id])
    [letter] = letters
    for name in ("letter_id", "stage", "source", "partition", "position", "at", "attempts", "size", "state", "kind"):
        say(f"{name + ':':<10} {plain(str(getattr(letter, name)))}")
    say(f"{'reason:':<10} {plain(letter.reason)}")
    if letter.value is None:
        say(f"{'value:':<10} not stored; to store values from now on: {_STORE}")
        return 0
    value = base64.b64decode(letter.value)
    cut = " […]" if len(value) > _PREVIEW_BYTES else ""
    say(f"{'value:':<10} {plain(value[:_PREVIEW_BYTES].decode('utf-8', 'backslashreplace'))}{cut}")
    return 0


async def redrive_letters(config: Config, wanted: LetterFilter, say: Print) -> int:
    """Process letters once more: append each to the log it came from. The exit status is 1 if one fails again.

    Raises:
        ConfigError: an id does not exist.
    """
    redactor = open_redactor(config.settings.redact, lambda _kind, _count: None, lambda: None)
    outcomes: Counter[str] = Counter()
    async with open_stored_logs(config.settings.log, linking=config.optional_logs["linking"]) as logs:
        every = [letter async for letter in letters_in(logs.dead_letters)]
        if unknown := sorted(set(wanted.ids) - {letter.letter_id for letter in every}):
            raise _unknown(unknown)
        letters = [letter for letter in every if wanted(letter)]
        own = await own_items(await logs.generated_steps())
        for letter in letters:
            problem = await _redrive(letter, logs, redactor, own, config.settings.assemble.attachments.stored_bytes)
            outcomes["failed again" if problem else "redriven"] += 1
            if problem:
                say(f"{letter.letter_id}: {plain(problem)}")
    say(
        ", ".join(f"{outcomes[outcome]:,} {outcome}" for outcome in ("redriven", "failed again") if outcomes[outcome])
        or "no dead letters"
    )
    return 1 if outcomes["failed again"] else 0


def _unknown(ids: Sequence[str]) -> ConfigError:
    named = ", ".join(repr(plain(letter_id)) for letter_id in ids)
    return ConfigError(f"no dead letter {named}; list them with: evalstream dead-letters list --all")


async def _letters(config: Config, wanted: LetterFilter) -> list[DeadLetter]:
    async with open_stored_logs(config.settings.log) as logs:
        return [letter async for letter in letters_in(logs.dead_letters) if wanted(letter)]


async def _redrive(
    letter: DeadLetter, logs: Logs, redactor: Redactor | None, own: OwnItems, stored_media: int
) -> str | None:
    """Append the letter's record to the log that it is read from; returns the problem, None if there is none."""
    record = record_of(letter)
    if record is None:
        return f"its value was not stored; send it again from its source, and to store values from now on: {_STORE}"
    try:
        records = (
            await _received(letter, record, logs, redactor, own, stored_media)
            if letter.stage == "receive"
            else [record]
        )
        if letter.stage in {"export", "watch", "page"}:
            return f"the {letter.source} log has it; `evalstream export again` writes evaluations out again"
        target = _target(letter, logs)
        if target is None:
            return "it needs assemble.link, which is not in the configuration"
        await target.append(records)
    except BadInput as error:
        await append_letters(
            logs.dead_letters, [replace(letter, attempts=letter.attempts + 1, reason=str(error)[:500])]
        )
        return str(error)
    except RecordTooLarge:
        return "it is larger than the log accepts"
    except LogError as error:
        return f"the log is unavailable: {error}"
    await append_letters(logs.dead_letters, [replace(letter, state="redriven", value=None, key=None, headers=())])
    return None


async def _received(
    letter: DeadLetter, record: Record, logs: Logs, redactor: Redactor | None, own: OwnItems, stored_media: int
) -> Sequence[Record]:
    if letter.signal == "turns":
        place = message_location(letter.source, letter.partition, letter.position)
        at = partial(ArrivalTimes().next, letter.at)
        parsed = parse_turns(record.value, place, at=at, redactor=redactor, stored_media=stored_media)
        if parsed.feedback:
            await logs.labels.append(parsed.feedback)
        return parsed.records
    if letter.signal == "references":
        return parse_references(record.value, logs.turns, tenant=None, redactor=redactor).records
    if letter.signal == "feedback":
        return parse_feedback(record.value, ALL_FEEDBACK, tenant=None, redactor=redactor).records
    return parse(record.value, letter.signal or "traces", redactor=redactor, own=own, stored_media=stored_media).records


def _target(letter: DeadLetter, logs: Logs) -> Log | None:
    """The log that is read again; None if the configuration does not have it."""
    match letter.stage:
        case "evaluate":
            return logs.turns
        case "link":
            return logs.unlinked
        case "receive" | "assemble":
            if letter.signal == "feedback":
                return logs.labels
            return logs.turns if letter.signal in ("turns", "references") else logs.spans
        case "export" | "watch" | "page":
            return None
