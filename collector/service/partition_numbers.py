"""How many partitions the topics had when the service first used them: more of them send conversations elsewhere.

A record goes to the partition that its key's hash selects. With another number of partitions, turns of an open
conversation go to another partition than its earlier ones, and what is done is looked for where it is not.
"""

from collector.config.settings import KafkaLogSettings
from collector.errors import ConfigError
from collector.evaluate.recovery.generated_steps import GeneratedStepsStore

_KEY = "log.kafka.partitions"


async def require_partitions(notes: GeneratedStepsStore, settings: KafkaLogSettings) -> None:
    """See that the topics have the partitions that they had before, or that a change is meant.

    Raises:
        ConfigError: somebody has added partitions to the topics.
    """
    before = await _noted(notes)
    if before is None:
        await notes.save(_key(None), str(settings.partitions))
    elif before != settings.partitions:
        if settings.repartitioned_from != before:
            raise ConfigError(
                f"log.kafka.partitions: the topics had {before} partitions and have {settings.partitions}: "
                "conversations that are open would be judged in two halves, and turns that come again twice; stop the "
                "senders until evalstream_open_conversations and evalstream_evaluations_in_flight are 0 with the old "
                f"configuration, or use another prefix; then, or to accept it, set repartitioned_from: {before}"
            )
        await notes.save(_key(before), str(settings.partitions))


async def _noted(notes: GeneratedStepsStore) -> int | None:
    """The number after all changes that were meant; None before the first start."""
    number: int | None = None
    while (after := await notes.load(_key(number))) is not None:
        number = int(after)
    return number


def is_note(key: bytes | None) -> bool:
    """Whether a record of the definitions log says how many partitions the topics had."""
    return key is not None and key.startswith(_KEY.encode())


def _key(before: int | None) -> str:
    return _KEY if before is None else f"{_KEY} after {before}"
