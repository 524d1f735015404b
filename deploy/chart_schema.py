"""The chart's values.schema.json: values, written by hand, and under `config` the schema of the configuration."""

# ruff: noqa: INP001 - scripts beside the pages that they write

import json
from pathlib import Path
from typing import Any

from collector.commands.schema import DRAFT, configuration_schema

PATH = Path(__file__).with_name("helm") / "evalstream" / "values.schema.json"
_REFERENCE = {"$ref": "#/$defs/Configuration"}


def document() -> str:
    """The file as it should be: a misspelt key anywhere under `config` fails `helm lint` and `helm template`.

    What is written by hand stays; `$defs`, a line each, are made from the models that check the configuration.
    """
    values: dict[str, Any] = json.loads(PATH.read_text(encoding="utf-8"))
    configuration = configuration_schema()
    definitions = {**configuration.pop("$defs"), "Configuration": configuration}
    del configuration["$schema"]
    values.pop("$defs", None)
    values["$schema"] = DRAFT
    values["properties"]["config"]["allOf"] = [_REFERENCE]
    by_hand = json.dumps(values, indent=2, ensure_ascii=False).removesuffix("\n}")
    made = ",\n".join(f"    {_in_one_line(name)}: {_in_one_line(each)}" for name, each in definitions.items())
    return f'{by_hand},\n  "$defs": {{\n{made}\n  }}\n}}\n'


def _in_one_line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
