"""What is found in texts that were written before the patterns were read: `python tests/hostile/stranger_sets.py a`.

A line is a text, with `\\n` for a line break; in `redaction_*.txt` what must be gone stands between ⟦ and ⟧. Set `a` was
used to mend what was missed; set `b` was measured once, after that, and nothing was changed for it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from collector.redact.patterns import find
from collector.redact.redactor import Redactor
from evaluators.attacks.attack_detection import detect_attack
from evaluators.attacks.injection_detection import detect

FOLDER = Path(__file__).with_name("strangers")
_MARKED = re.compile("⟦(.*?)⟧", re.DOTALL)
_REDACTOR = Redactor((find,), b"a key of these tests")


def lines_of(name: str) -> list[str]:
    """The texts of a set."""
    lines = (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return [line.replace("\\n", "\n") for line in lines if line]


def speaks_to_judge(text: str) -> bool:
    return bool(detect({"actual_output": text}))


def attacks_application(text: str) -> bool:
    return bool(detect_attack(text, by_user=True))


def is_redacted(marked: str) -> bool:
    """Whether nothing that is marked, nor a word or number of four characters of it, is left."""
    redacted = _REDACTOR.text(marked.replace("⟦", "").replace("⟧", ""))
    secrets = _MARKED.findall(marked)
    parts = {part for secret in secrets for part in re.findall(r"\w{4,}", secret)}
    return not any(secret in redacted for secret in secrets) and parts.isdisjoint(re.findall(r"\w+", redacted))


def is_changed(text: str) -> bool:
    return _REDACTOR.text(text) != text


MEASURED: dict[str, Callable[[str], bool]] = {
    "judges": speaks_to_judge,
    "signs": attacks_application,
    "redaction": is_redacted,
}
HARMLESS: dict[str, Callable[[str], bool]] = {
    "judges": speaks_to_judge,
    "signs": attacks_application,
    "redaction": is_changed,
}


def rates_of(name: str) -> Iterator[tuple[str, list[str], int, list[str], int]]:
    """What was missed of how many texts, and what of how many harmless ones was found, for each kind of text."""
    harmless = lines_of(f"harmless_{name}")
    for kind, finds in MEASURED.items():
        texts = lines_of(f"{kind}_{name}")
        missed = [text for text in texts if not finds(text)]
        yield kind, missed, len(texts), [text for text in harmless if HARMLESS[kind](text)], len(harmless)


if __name__ == "__main__":
    for kind, missed, count, wrong, harmless in rates_of(sys.argv[1]):
        print(f"{kind}: {count - len(missed)} of {count} found, {len(wrong)} of {harmless} harmless")
        if "-v" in sys.argv:
            print(*(f"  missed  {text!r}" for text in missed), *(f"  wrong   {text!r}" for text in wrong), sep="\n")
