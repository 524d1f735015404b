"""The docstrings below the fields of models as the fields' descriptions, read from the source on request.

Pydantic reads them itself as it makes a class, which would take a tenth of every start; only schemas and sentences for
people need them.
"""

import ast
import inspect
import textwrap
from functools import lru_cache
from itertools import pairwise
from typing import Any

from pydantic import BaseModel, GetJsonSchemaHandler
from pydantic.fields import FieldInfo


class Described(BaseModel):
    """A model whose JSON schema has the docstrings below its fields."""

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        for name, field in described_fields(cls).items():
            key = field.alias or name
            if field.description is not None and key in properties:
                properties[key].setdefault("description", field.description)
        return schema


def described_fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """The fields of a model, each with its description."""
    left = {name for name, field in model.model_fields.items() if field.description is None}
    for base in model.__mro__ if left else ():
        own = left & inspect.get_annotations(base).keys()
        left -= own  # a class that redeclares a field also redescribes it
        docstrings = _docstrings(base) if own and issubclass(base, Described) else {}
        for name in own & docstrings.keys():
            model.model_fields[name].description = docstrings[name]
    return model.model_fields


@lru_cache(1024)  # to read a class's source takes milliseconds, and one is the base of many models
def _docstrings(model: type[BaseModel]) -> dict[str, str]:
    try:
        (made,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    except (OSError, SyntaxError):  # it has no source of its own
        return {}
    docstrings = dict[str, str]()
    for field, below in pairwise(made.body if isinstance(made, ast.ClassDef) else ()):
        text = ast.get_docstring(ast.Module([below], []))
        if text is not None and isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            docstrings[field.target.id] = text
    return docstrings
