"""One key for one run, with the same words from `cdk -c` and from `servable --set`."""

from pathlib import Path

import hypothesis.strategies as st
from hypothesis import given

from infra.parameters.finding import Finding
from infra.parameters.loading import Loaded, load
from infra.parameters.overrides import find_unknown_environments, from_options, parse_value
from infra.preflight.check import check
from tests.conftest import VALID, valid
from tests.findings import messages


def overridden(project: Path, **keys: str) -> Loaded:
    folder = project / "environments"
    (folder / "prod.toml").write_text(VALID)
    given_keys = {key.replace("__", "."): text for key, text in keys.items()}
    return load(project, folder, {"prod": given_keys})[0]


def test_an_override_wins_over_the_file_and_its_missing_tables(project: Path) -> None:
    loaded = overridden(project, variants__primary__min_instances="4")
    assert valid(loaded).environment.variants["primary"].min_instances == 4
    loaded = overridden(project, variants__primary__container__tfs_processes="4")
    assert valid(loaded).environment.variants["primary"].container.tfs_processes == 4


def test_a_problem_with_an_override_names_the_option(project: Path) -> None:
    loaded = overridden(project, variants__primary__max_instnces="4")
    assert check(loaded)[0].file == "-c prod.variants.primary.max_instnces"
    (finding,) = findings(overridden(project, variants__primry__min_instances="3"))
    assert (finding.file, finding.remedy) == (
        "-c prod.variants.primry.min_instances",
        "did you mean primary?",
    )
    loaded = overridden(project, variants__primary__scaling='{ max_rps_per_instance = "x" }')
    assert findings(loaded)[0].file == "-c prod.variants.primary.scaling"
    assert findings(overridden(project, region__x="1"))[0].file == "-c prod.region.x"
    loaded = overridden(project, variants__primary__scaling="5", variants__primary__scaling__x="1")
    assert findings(loaded)[0].problem.endswith("collides with -c prod.variants.primary.scaling")


def test_a_string_needs_no_quotes_and_a_table_is_read_as_toml() -> None:
    assert parse_value("ml.c5.xlarge", ("variants", "a", "instance_type")) == "ml.c5.xlarge"
    assert parse_value("012345678901", ("account",)) == parse_value('"012345678901"', ("account",))
    assert parse_value("222222222222", ("account",)) == "222222222222"
    key = ("variants", "a", "container", "batching")
    assert parse_value("{ max_batch_size = 4 }", key) == {"max_batch_size": 4}


@given(st.integers())
def test_every_number_is_read_as_toml(number: int) -> None:
    assert parse_value(str(number), ("variants", "a", "min_instances")) == number


def test_the_cdks_own_context_is_no_override() -> None:
    options = {"@aws-cdk/core:x.y": "1", "aws:cdk.z": "2", "environments": "a", "prod.region": "b"}
    assert from_options(options) == {"prod": {"region": "b"}}


def test_an_override_of_an_unknown_environment_is_never_lost() -> None:
    found = find_unknown_environments({"prdo": {"region": "x"}}, ["dev", "prod"], "-c")
    assert messages(found) == [
        ("", "there is no environment 'prdo'", "dev, prod", "did you mean prod?")
    ]


def findings(loaded: Loaded) -> list[Finding]:
    return [finding for finding in check(loaded) if "saved_model" not in finding.key]


def test_an_account_without_quotes_in_a_file_is_told_to_have_them(project: Path) -> None:
    (project / "environments" / "prod.toml").write_text(
        VALID.replace('"111111111111"', "111111111111")
    )
    (problem,) = check(load(project, project / "environments")[0])
    assert problem.remedy == 'put it in quotes: "111111111111"'
