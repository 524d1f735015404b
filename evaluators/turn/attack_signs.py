"""Signs of an attack on the application, recognised by words and hidden characters."""

from typing import ClassVar

from evaluators.attacks.attack_detection import detect_attack
from evaluators.attacks.attack_sources import list_attack_sources
from evaluators.cases import Json, Turn
from evaluators.judge import Judge
from evaluators.mechanisms.worst_verdict import NONE, WorstItem
from evaluators.results import Score


class AttackSigns(WorstItem):
    """1 if a text that reached the application's model has signs of an attack, else 0. Lower is better.

    Asks no judge: it knows the words of jailbreaks, of demands to ignore or disclose instructions, and of passages and
    results that instruct an AI or leak data. It knows these words in English, and the commonest in twenty languages,
    also if encoded, in look-alike letters or in hidden characters. The label names the first attacker: `user`,
    `passage`, `tool result` or `none`; `details.signs` names texts and signs. Attacks in other words are not found:
    `prompt_attack` asks a judge.
    """

    kind: ClassVar[str] = "attack_signs"
    revision: ClassVar[int] = 3
    needed_fields: ClassVar[frozenset[str]] = frozenset({"input"})
    needs_judge: ClassVar[bool] = False

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        sources = [
            (source, detect_attack(source.text, by_user=source.kind == "user")) for source in list_attack_sources(case)
        ]
        attacks = [(source, sorted(signs)) for source, signs in sources if signs]
        signs: dict[str, Json] = {source.name: list(names) for source, names in attacks[:50]}
        return Score(
            value=float(bool(attacks)),
            label=attacks[0][0].kind if attacks else NONE,
            explanation="; ".join(f"{source.name}: {', '.join(names)}" for source, names in attacks[:3])
            or f"no signs in {len(sources)} texts",
            details={"signs": signs},
        )
