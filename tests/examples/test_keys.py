"""Each key of an environment file is shown in use: in environments/ or in an example that is deployed."""

from collections.abc import Iterator

from pydantic import BaseModel

from infra.parameters.environment import Environment
from tests.presets import environments

# Not in use, and why.
EXCEPTIONS = {
    # Its one value besides the default, "at start", has pip in every container fetch packages from the
    # internet: no example should do so, and no test of one could.
    "ModelTable.install",
}


def keys_of_schema() -> set[str]:
    """TABLE.key of all tables, as editors get them."""
    schema = Environment.model_json_schema()
    tables = {"Environment": schema, **schema["$defs"]}
    return {f"{name}.{key}" for name, table in tables.items() for key in table["properties"]}


def keys_in_use(value: object) -> Iterator[str]:
    """TABLE.key of each key that a file sets, in this table and in those within it."""
    if isinstance(value, BaseModel):
        for key in value.model_fields_set:
            yield f"{type(value).__name__}.{key}"
            yield from keys_in_use(getattr(value, key))
    elif isinstance(value, dict):
        yield from keys_in_use(list(value.values()))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from keys_in_use(item)


def test_every_key_is_in_use_in_an_environment_or_an_example() -> None:
    in_use = {key for loaded in environments().values() for key in keys_in_use(loaded.environment)}
    assert keys_of_schema() - in_use == EXCEPTIONS
