"""`evalstream dead-letters`: lists, shows and re-drives what could not be processed."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import orjson
from rich.console import Console
from rich.table import Table

from collector.config.loading import Config
from collector.dead_letters import DeadLetter, letters_in, put, record_of
from collector.errors import BadInput, EvalstreamError
from collector.logging_json import plain
from collector.logs.log import Log, LogError, Record, RecordTooLarge
from collector.opening import Logs, open_logs
from collector.receive.intake import take_in
from collector.redact.opening import open_redactor
from collector.redact.redactor import Redactor

Say = Callable[[str], None]

_SHOWN_BYTES = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which letters: those of these ids, or all; of this stage, or of any; redriven ones only if asked for."""

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


async def list_letters(config: Config, wanted: Wanted, console: Console, *, as_json: bool) -> int:
    """Print a table, or a JSON object a line; the exit status."""
    letters = await _letters(config, wanted)
    if as_json:
        for letter in letters:
            console.file.write(orjson.dumps(replace(letter, value=None, key=None, headers=())).decode() + "\n")
        return 0
    table = Table("id", "stage", "source", "position", "attempts", "bytes", "kept", "state", "reason")
    for each in letters:
        place = f"{each.partition}:{each.position}"
        kept = "yes" if each.value is not None else "no"
        table.add_row(
            each.letter_id, each.stage, plain(each.source), place, str(each.attempts), str(each.size), kept,
            each.state, plain(each.reason),
        )  # fmt: skip
    if letters:
        console.print(table)
    else:
        console.print("no dead letters")
    return 0


async def show_letter(config: Config, letter_id: str, say: Say) -> int:
    """Print all there is of one letter, and the beginning of its value; the exit status."""
    letters = await _letters(config, Wanted(ids=(letter_id,), redriven=True))
    if not letters:
        raise EvalstreamError(f"there is no dead letter {plain(letter_id)!r}; see: evalstream dead-letters list")
    [letter] = letters
    for name in ("letter_id", "stage", "source", "partition", "position", "at", "attempts", "size", "state", "kind"):
        say(f"{name + ':':<10} {plain(str(getattr(letter, name)))}")
    say(f"{'reason:':<10} {plain(letter.reason)}")
    if letter.value is None:
        say(f"{'value:':<10} not kept (dead_letters.keep_values)")
        return 0
    value = base64.b64decode(letter.value)
    cut = " […]" if len(value) > _SHOWN_BYTES else ""
    say(f"{'value:':<10} {plain(value[:_SHOWN_BYTES].decode('utf-8', 'backslashreplace'))}{cut}")
    return 0


async def redrive_letters(config: Config, wanted: Wanted, say: Say) -> int:
    """Process letters once more: append each to the log it came from. The exit status is 1 if one stays dead."""
    redactor = open_redactor(config.settings.redact, lambda _kind, _count: None, lambda: None)
    came_to: Counter[str] = Counter()
    linking = config.settings.assemble.link is not None
    async with open_logs(config.settings.log, linking=linking) as logs:
        letters = [letter async for letter in letters_in(logs.dead_letters) if wanted(letter)]
        for letter in letters:
            problem = await _redrive(letter, logs, redactor)
            came_to["stay dead" if problem else "redriven"] += 1
            if problem:
                say(f"{letter.letter_id}: {plain(problem)}")
    say(", ".join(f"{count} {what}" for what, count in sorted(came_to.items())) or "no dead letters")
    return 1 if came_to["stay dead"] else 0


async def _letters(config: Config, wanted: Wanted) -> list[DeadLetter]:
    if config.settings.log.kind == "memory":
        raise EvalstreamError("log.kind is memory: its dead letters are gone with the process that wrote them")
    async with open_logs(config.settings.log) as logs:
        return [letter async for letter in letters_in(logs.dead_letters) if wanted(letter)]


async def _redrive(letter: DeadLetter, logs: Logs, redactor: Redactor | None) -> str | None:
    """Append what the letter holds where it is read again; says what is in the way, if anything is."""
    record = record_of(letter)
    if record is None:
        return "its value was not kept (dead_letters.keep_values), so send it again from where it came"
    try:
        records = _received(letter, record, redactor) if letter.stage == "receive" else [record]
        target = _target(letter, logs)
        if target is None:
            return "it is to be linked, and assemble.link is not in the configuration any more"
        await target.append(records)
    except BadInput as error:
        await put(logs.dead_letters, [replace(letter, attempts=letter.attempts + 1, reason=str(error)[:500])])
        return str(error)
    except RecordTooLarge:
        return "it is larger than the log takes"
    except LogError as error:
        return f"the log cannot be written now: {error}"
    await put(logs.dead_letters, [replace(letter, state="redriven", value=None, key=None, headers=())])
    return None


def _received(letter: DeadLetter, record: Record, redactor: Redactor | None) -> Sequence[Record]:
    return take_in(record.value, letter.signal or "traces", redactor=redactor).records


def _target(letter: DeadLetter, logs: Logs) -> Log | None:
    """The log that is read again; None if the configuration has it no more."""
    match letter.stage:
        case "evaluate":
            return logs.turns
        case "link":
            return logs.unlinked
        case "receive" | "assemble":
            return logs.spans
