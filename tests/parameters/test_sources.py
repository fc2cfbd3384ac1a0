"""Where each value came from, after bases, overrides, and keys that were taken out; and its line."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from infra.parameters.loading import (
    Loaded,
    ValidFile,
    build_endpoint_state,
    build_hold_overrides,
    load,
    load_environment,
)
from infra.parameters.overrides import apply_overrides
from infra.parameters.sources import Source, find_line_number, format_path, is_base
from tests.conftest import VALID, valid
from tests.findings import messages


def test_a_value_is_of_the_file_or_option_that_put_it_last_until_it_is_taken_out() -> None:
    source = Source()
    source.put(("a", "b", "c"), 1, "base")
    source.put(("a", "b", "d"), 2, "file")
    assert source.values == {"a": {"b": {"c": 1, "d": 2}}}
    assert [source.find_origin((*"ab", key), "none") for key in "cdx"] == ["base", "file", "base"]
    shown = (source.find_origin(("a",), "none"), source.find_origin(("z",), "none"))
    assert shown == ("base", "none")
    # A table that replaces another, and a value that becomes a table, forget what was in it.
    source.put(("a", "b"), {"d": 3}, "-c")
    assert [source.find_origin((*"ab", key), "none") for key in "cd"] == ["-c", "-c"]
    source.put(("a", "b", "d", "e"), 4, "--set")
    assert source.values == {"a": {"b": {"d": {"e": 4}}}}
    told = [source.find_origin(key, "none") for key in (tuple("abd"), tuple("abde"), tuple("ab"))]
    assert told == ["--set", "--set", "-c"]

    source = Source()
    source.put(("a", "b"), 1, "file")
    source.remove(("a", "b"))
    source.remove(("a", "none", "deeper"))
    source.remove(("none",))
    assert (source.values, source.find_origin(("a", "b"), "none")) == ({"a": {}}, "file")
    source.remove(("a",))
    assert (source.values, source.origins) == ({}, {})

    source = Source()
    source.put(("variants", "primary", "min_instances"), 3, "file")
    source.put(("region",), "eu-west-1", "file")
    given = {"variants.primary.min_instances": "", "region": "", "endpoint.name": "new"}
    assert apply_overrides(source, "prod", given, "-c") == []
    assert source.values == {"variants": {"primary": {}}, "region": "", "endpoint": {"name": "new"}}
    assert source.find_origin(("region",), "file") == "-c prod.region"


@pytest.mark.parametrize(("key", "problem", "allowed", "remedy"), [
    ("models.rankr.version", "there is no models.rankr", "ranker", "did you mean ranker?"),
    ("variants.x.weight", "there is no variants.x", "primary", "use one of these"),
    ("variants.primary.weight.x", "collides with -c prod.variants.primary.weight", "",
     "give one of them"),
])  # fmt: skip
def test_an_override_that_cannot_apply_changes_nothing(
    project: Path, key: str, problem: str, allowed: str, remedy: str
) -> None:
    folder = project / "environments"
    (folder / "prod.toml").write_text(VALID)
    given = {"variants.primary.weight": "2", key: "1"}
    loaded = load_environment(project, folder, "prod", given, "-c")
    assert messages(loaded.findings) == [(key, problem, allowed, remedy)]
    (found,) = loaded.findings
    assert found.file == f"-c prod.{key}"
    assert loaded.draft is not None
    assert loaded.draft.variants["primary"].weight == 2
    assert [*loaded.overrides] == sorted(given)


def test_files_of_one_endpoint_name_each_other(project: Path) -> None:
    folder = project / "environments"
    (folder / "base.toml").write_text(VALID)
    texts = {
        "a": 'extends = "base"\n[endpoint]\nname = "same"\n',
        "b": 'extends = "base"\n[endpoint]\nname = "SAME"\n',
        "c": 'extends = "base"\nregion = "us-east-1"\n[endpoint]\nname = "same"\n',
        "d": 'extends = "a"\n',
        "e": "colour = 1\n",
    }
    for name, text in texts.items():
        (folder / f"{name}.toml").write_text(text)
    found = {loaded.name: loaded for loaded in load(project, folder)}
    assert {name: loaded.sharing for name, loaded in found.items()} == {
        # d has its name from a: a is told of b alone.
        "a": ("environments/b.toml",),
        "b": ("environments/a.toml", "environments/d.toml"),
        "c": (),
        "d": ("environments/a.toml", "environments/b.toml"),
        "e": (),
    }
    assert [type(loaded) is ValidFile for loaded in found.values()] == [True] * 4 + [False]

    assert [is_base(name) for name in ("base", "secure-base", "basement", "prod")] == [
        True, True, False, False,
    ]  # fmt: skip
    assert format_path(project / "environments" / "prod.toml", project) == "environments/prod.toml"
    assert format_path(Path("/elsewhere/prod.toml"), project) == "/elsewhere/prod.toml"


def test_the_rest_of_a_file_with_problems_is_judged(project: Path) -> None:
    def draft_of(text: str) -> Loaded:
        (project / "environments" / "prod.toml").write_text(text)
        return load_environment(project, project / "environments", "prod", {}, "-c")

    loaded = draft_of(VALID.replace('account = "111111111111"', "colour = 1") + "weight = 'x'\n")
    assert [finding.key for finding in loaded.findings] == [
        "variants.primary.weight", "colour", "account",
    ]  # fmt: skip
    assert loaded.draft is not None
    assert (loaded.draft.account, loaded.draft.variants["primary"].weight) == ("0" * 12, 1)
    headless = draft_of(VALID[VALID.index("[models") :])
    assert headless.draft is not None
    assert (headless.draft.region, headless.draft.endpoint.name) == ("us-east-1", "missing")
    # A batch without its input is left out as a whole.
    batch = (
        '[batch.a]\nmodel = "ranker"\ninstance_type = "ml.c5.xlarge"\noutput = "s3://bucket/a/"\n'
    )
    without = draft_of(f'{VALID}{batch}content_type = "text/csv"\n')
    assert without.draft is not None
    assert without.draft.batch == {}
    assert draft_of("= 1").draft is None


def test_what_a_file_deploys_is_held_by_its_type_or_its_pool(project: Path) -> None:
    pools = VALID + (
        '[variants.pool]\nmodel = "ranker"\nshadow = true\n'
        'instance_pools = [{ instance_type = "ml.g6.xlarge" }, { instance_type = "ml.g5.xlarge" }]\n'
        '[variants.less]\nmodel = "ranker"\nserverless = { memory_mib = 2048, max_concurrency = 4 }\n'
        '[rollout]\nstrategy = "canary"\n'
    )
    (project / "environments" / "prod.toml").write_text(pools)
    state = build_endpoint_state(valid(load(project, project / "environments")[0]).environment)
    assert (state.queued, state.guarded) == (False, True)
    assert {
        name: (each.instance_type, each.pools, each.shadow, each.scales)
        for name, each in state.variants.items()
    } == {
        "primary": ("ml.c5.xlarge", (), False, False),
        "pool": ("ml.g6.xlarge", ("ml.g6.xlarge", "ml.g5.xlarge"), True, False),
        "less": (None, (), False, False),
    }
    assert build_hold_overrides(state.variants) == {
        "variants.primary.scaling.hold": "true",
        "variants.primary.instance_type": "ml.c5.xlarge",
        "variants.pool.scaling.hold": "true",
        "variants.pool.instance_pools": '[{ instance_type = "ml.g6.xlarge" }, '
        '{ instance_type = "ml.g5.xlarge" }]',
        "variants.less.scaling.hold": "true",
    }


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
    """Every key that isn't a table."""
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
