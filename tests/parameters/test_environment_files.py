"""A file becomes a frozen environment; a base is changed key by key."""

import json
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pydantic
import pytest

from infra.parameters.environment import Environment
from infra.parameters.keys import read_meaning
from infra.parameters.loading import ValidFile, load
from infra.parameters.reference import _find_tables, build_json_schema, render_markdown
from infra.parameters.sources import list_environment_names
from infra.policy.container import KEYLESS, SETTINGS
from tests.checkouts import ROOT
from tests.conftest import VALID, valid


def written(project: Path, **files: str) -> dict[str, Environment]:
    folder = project / "environments"
    for name, text in files.items():
        (folder / f"{name.replace('_', '-')}.toml").write_text(text)
    found = {loaded.name: loaded for loaded in load(project, folder)}
    return {name: valid(file).environment for name, file in found.items()}


def test_a_file_wins_over_its_bases_key_by_key_and_lists_do_not_merge(project: Path) -> None:
    prod = 'extends = "base"\nregion = "us-east-1"\n'
    assert written(project, base=VALID, prod=prod)["prod"].region == "us-east-1"

    prod = 'extends = "base"\n[variants.primary]\nmin_instances = 3\n'
    variant = written(project, base=VALID, prod=prod)["prod"].variants["primary"]
    assert (variant.min_instances, variant.instance_type) == (3, "ml.c5.xlarge")

    base = VALID + '[alarms]\nnotify = ["a@example.com"]\n'
    prod = 'extends = "base"\n[alarms]\nnotify = ["b@example.com"]\n'
    assert written(project, base=base, prod=prod)["prod"].alarms.notify == ["b@example.com"]

    middle = 'extends = "base"\nregion = "us-east-1"\n'
    found = written(project, base=VALID, secure_base=middle, prod='extends = "secure-base"\n')
    assert found["prod"].region == "us-east-1"
    environment = written(project, prod=VALID)["prod"]
    with pytest.raises(pydantic.ValidationError):
        environment.region = "us-east-1"


def test_a_base_is_no_environment(project: Path) -> None:
    for name in ("base", "secure-base", "prod"):
        (project / "environments" / f"{name}.toml").write_text("")
    assert list_environment_names(project / "environments") == ["prod"]


def test_every_default_has_a_meaning() -> None:
    missing = [
        f"{table.__name__}.{name}"
        for table in tables(Environment)
        for name in table.model_fields
        if not read_meaning(table, name)
    ]
    assert missing == []
    schema = json.loads(build_json_schema())["$defs"]["Variant"]["properties"]
    assert {*schema["environment"]["properties"]} == {*SETTINGS, *KEYLESS}
    assert "properties" not in schema["min_instances"]
    lines = render_markdown().splitlines()
    for head, below in pairwise(lines):
        assert not below.startswith("|---") or head.count("|") == below.count("|")


def test_every_key_is_read_by_what_deploys() -> None:
    folders = ("infra/constructs", "infra/parameters", "infra/policy", "stacks")
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.py")]
    code = "".join(re.sub(r'"{3}.*?"{3}', "", file.read_text(), flags=re.DOTALL) for file in files)
    words = Counter(re.findall(r"\w+", code))
    written = Counter(
        name
        for table in set(tables(Environment))
        if table.__module__ != "infra.parameters.replay"
        for name in table.model_fields
    )
    # Each once, where it is defined, and those that only `servable check` reads.
    shown = {name for name, times in written.items() if words[name] <= times}
    assert shown == {"caller_timeout_ms", "content_types", "require", "tolerance"}


def tables(table: type[pydantic.BaseModel]) -> list[type[pydantic.BaseModel]]:
    return [table, *(inner for _, inner in _find_tables(table, ""))]


def test_the_files_of_this_repository_have_no_finding() -> None:
    assert [loaded.findings for loaded in load(ROOT, ROOT / "environments")] == [(), (), (), ()]


@pytest.mark.parametrize(("more", "is_valid"), [("", True), ("[unknown]\n", False)])
def test_a_file_is_valid_if_all_its_keys_are(project: Path, more: str, *, is_valid: bool) -> None:
    (project / "environments" / "prod.toml").write_text(VALID + more)
    (loaded,) = load(project, project / "environments")
    assert isinstance(loaded, ValidFile) is is_valid
