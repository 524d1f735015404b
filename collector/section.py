"""The base of every mapping in the configuration file."""

from collections.abc import Iterable
from typing import Self
from urllib.parse import urlsplit

from pydantic import ConfigDict, model_validator

from evaluators.descriptions import Described


class Section(Described):
    """A mapping of the file: no unknown keys, and nothing changes after reading.

    The docstring below a key is its description, in the reference and in the schema.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for mistake in self._mistakes():
            raise ValueError(mistake)
        return self

    def _mistakes(self) -> Iterable[str]:
        """Sections override this: what is wrong between their keys, one sentence each. The first is reported."""
        return ()


def checked_base(url: str, *added: str) -> str:
    """The URL, if the paths of requests can be added to it.

    Raises:
        ValueError: it is none, or ends with one of the paths that are `added`.
    """
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises where it is not a port
    except ValueError:
        raise ValueError("is not a URL; write it like https://host/v1") from None
    for path in added:
        if parts.path.rstrip("/").endswith(path):
            raise ValueError(f"ends with {path}, which is added to it; write {url.split(path, maxsplit=1)[0]}")
    return url
