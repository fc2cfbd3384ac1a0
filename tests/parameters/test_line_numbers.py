"""The line that a finding names is the one that sets its key."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from infra.parameters.sources import find_line_number

NAMES = st.sampled_from(["a", "b", "models", "x-1"])
VALUES = st.one_of(st.integers(), st.text(max_size=5), st.lists(st.integers(), max_size=3))
TABLES = st.recursive(
    st.dictionaries(NAMES, VALUES, max_size=3),
    lambda inner: st.dictionaries(NAMES, st.one_of(VALUES, inner), max_size=3),
    max_leaves=12,
)
FILE = """# colour = 1
colour = 2
list = [
  "colour = 3",
]

[variants.primary]
text = \"\"\"
model = "none"
\"\"\"
model = "ranker"
[[models.x.also]]
request = "1.json"
"""


def leaves(values: dict[str, Any], at: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every key that is no table."""
    found = []
    for name, value in values.items():
        inside = leaves(value, (*at, name)) if isinstance(value, dict) else [(*at, name)]
        found += inside
    return found


def holds(text: str, key: tuple[str, ...]) -> bool:
    values: Any = tomllib.loads(text)
    for name in key:
        if name not in values:
            return False
        values = values[name]
    return True


def test_a_key_has_its_line_or_that_of_the_table_around_it(tmp_path: Path) -> None:
    for content in [None, b"\xff"]:
        if content is not None:
            (tmp_path / "prod.toml").write_bytes(content)
        assert find_line_number(tmp_path / "prod.toml", "region") is None
    for key, line in [
        ("colour", 2),
        ("list", 3),
        ("variants", 7),
        ("variants.primary.text", 8),
        ("variants.primary.model", 11),
        ("variants.primary.missing", 7),
        ("models.x.also.0.request", 12),
        ("region", None),
        ("", None),
    ]:
        (tmp_path / "prod.toml").write_text(FILE)
        assert find_line_number(tmp_path / "prod.toml", key) == line


@pytest.mark.long
@given(TABLES)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_tomllib_finds_a_key_only_from_its_line(tmp_path: Path, values: dict[str, Any]) -> None:
    file, text = tmp_path / "prod.toml", tomlkit.dumps(values)
    file.write_text(text)
    lines = [f"{line}\n" for line in text.split("\n")]
    for key in leaves(values):
        line = find_line_number(file, ".".join(key))
        assert line is not None
        before, through = "".join(lines[: line - 1]), "".join(lines[:line])
        assert (holds(before, key), holds(through, key)) == (False, True)
