"""The normalized text of a judge's material, and its signs of injection: found once for all questions about it."""

from collections.abc import Mapping, Sequence

from evaluators.attacks.injection_detection import detect
from evaluators.attacks.verdict_echo import is_echo, readings_of
from evaluators.cases import Json


class ReadMaterial:
    """Material that was shown to a judge. It is searched at the first question about it."""

    def __init__(self, content: Mapping[str, Json]) -> None:
        self.content = content
        self._signs: frozenset[str] | None = None
        self._readings: Sequence[str] | None = None

    def signs(self) -> frozenset[str]:
        """Signs that its texts speak to the judge."""
        if self._signs is None:
            self._signs = detect(self.content)
        return self._signs

    def _read(self) -> Sequence[str]:
        if self._readings is None:
            self._readings = tuple(readings_of(self.content))
        return self._readings

    def holds(self, reply: Json) -> bool:
        """Whether the material contains a verdict of the reply with its reason."""
        return is_echo(reply, self.content, self._read)

    def is_same(self, content: Mapping[str, Json]) -> bool:
        """Whether other material has the same fields in the same order, with equal values or texts."""
        if list(content) != list(self.content):
            return False
        pairs = zip(content.values(), self.content.values(), strict=True)
        return all(one is other or (isinstance(one, str) and one == other) for one, other in pairs)


class ReadMaterials:
    """The materials of one case, each read once: the evaluators of a pack are mostly shown the same material."""

    def __init__(self) -> None:
        self._read: list[ReadMaterial] = []

    def of(self, content: Mapping[str, Json]) -> ReadMaterial:
        """The material; if it was read before, the earlier object."""
        for material in self._read:
            if material.is_same(content):
                return material
        self._read.append(ReadMaterial(content))
        return self._read[-1]
