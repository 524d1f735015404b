"""The base of every mapping in the configuration file."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A mapping of the file: no unknown keys, and nothing changes after reading.

    The docstring below a key is its description, in the reference and in the schema.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
