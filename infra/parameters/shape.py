"""Looks up the keys of an environment file: the keys of a table, a key's type and its meaning."""

import ast
import functools
import inspect
import itertools
import types
import typing
from typing import Annotated, Any, Union

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from infra.parameters.environment import Environment


def bare(annotation: Any) -> Any:
    """The type without Annotated and without `| None`."""
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        return bare(typing.get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        inside = [
            argument for argument in typing.get_args(annotation) if argument is not type(None)
        ]
        return bare(inside[0]) if len(inside) == 1 else annotation
    return annotation


def type_at(key: tuple[str, ...]) -> Any:
    """The type that `key` takes in an environment file, or None for an unknown key."""
    here: Any = Environment
    for name in key:
        if isinstance(here, type) and issubclass(here, BaseModel):
            field = here.model_fields.get(name)
            if field is None:
                return None
            here = bare(field.annotation)
        elif typing.get_origin(here) is dict:
            here = bare(typing.get_args(here)[1])
        else:
            return None
    return here


def field_at(key: tuple[str, ...]) -> FieldInfo | None:
    """The field that `key` names, or None for an unknown key."""
    table = type_at(key[:-1])
    if isinstance(table, type) and issubclass(table, BaseModel):
        return table.model_fields.get(key[-1])
    return None


def meaning(table: type[BaseModel], name: str) -> str:
    """The docstring of a field, on one line; empty if it has none.

    It is read from the source only when a reference, a schema or a message needs it; pydantic's own
    `use_attribute_docstrings` would read it at every start.
    """
    return _meanings(table).get(name, "")


@functools.cache
def _meanings(table: type[BaseModel]) -> dict[str, str]:
    body = ast.parse(inspect.getsource(table)).body[0]
    assert isinstance(body, ast.ClassDef)
    return {
        field.target.id: " ".join(docstring.value.value.split())
        for field, docstring in itertools.pairwise(body.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(docstring, ast.Expr)
        and isinstance(docstring.value, ast.Constant)
        and isinstance(docstring.value.value, str)
    }


def meaning_at(key: tuple[str, ...]) -> str:
    """The docstring of the field that `key` names; empty for an unknown key."""
    table = type_at(key[:-1])
    is_table = isinstance(table, type) and issubclass(table, BaseModel)
    return meaning(table, key[-1]) if is_table else ""


def keys_at(key: tuple[str, ...]) -> list[str]:
    """The keys that the table at `key` may have; empty if the file chooses the names."""
    table = type_at(key)
    if isinstance(table, type) and issubclass(table, BaseModel):
        return sorted(table.model_fields)
    return []
