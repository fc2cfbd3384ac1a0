"""What a person reads when a file is wrong: file, key, value, what is allowed, what to do."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.parameters.finding import Finding, Severity
from infra.parameters.keys import describe_pattern, find_type
from infra.parameters.loading import load
from infra.parameters.reference import build_json_schema
from infra.parameters.spellings import RENAMED
from infra.preflight.check import check
from tests.conftest import VALID, Environment
from tests.findings import Message, messages
from tests.preflight.overlay import overlaid

COUNT = "a whole number, 0 or more and 10000 or less"


def said(environment: Environment, text: str = VALID, **replacements: str) -> list[Message]:
    return messages(check(environment(text, **replacements)))


def test_an_unknown_key_names_the_nearest_and_a_foreign_file_none(environment: Environment) -> None:
    assert said(environment, VALID + "max_instnces = 3\n") == [
        (
            "variants.primary.max_instnces",
            "unknown key 'max_instnces'",
            "components, container, copy_memory_mib, core_dumps, download_timeout_seconds, environment, "
            "inference_ami, initial_instances, instance_pools, instance_type, max_instances, min_instances, "
            "model, provision_timeout_seconds, routing, scaling, serverless, shadow, sleep_after_minutes, "
            "ssm_access, start_seconds, startup_timeout_seconds, volume_gb, weight",
            "did you mean max_instances?",
        )
    ]
    assert said(environment, "zzz = 1\n" + VALID)[0].remedy == "remove it"
    assert said(environment, "version = 1\n[tool]\nx = 1\n") == [
        ("", "it contains none of an environment file's keys", "",
         "pass the project's folder: `servable --project FOLDER COMMAND`"),
    ]  # fmt: skip


@pytest.mark.parametrize(("key", "table", "now"), [
    ("max_machines = 3\n", "variants.primary.max_machines", "variants.primary.max_instances"),
    ("[pages]\n", "pages", "alarms"),
])  # fmt: skip
def test_a_key_that_was_renamed_is_refused_with_its_new_name(
    environment: Environment, monkeypatch: pytest.MonkeyPatch, key: str, table: str, now: str
) -> None:
    rows = {"variants.NAME.max_machines": "variants.NAME.max_instances", "pages": "alarms"}
    monkeypatch.setattr("infra.parameters.spellings.RENAMED", rows)
    assert said(environment, VALID + key) == [(table, f"{table} was renamed", now, f"write {now}")]


def test_every_renamed_key_leads_to_one_that_there_is() -> None:
    for was, now in RENAMED.items():
        assert (find_type(tuple(was.split("."))), was) == (None, was)
        assert find_type(tuple(now.split("."))) is not None


def test_a_wrong_type_number_word_or_account_learns_what_is_right(environment: Environment) -> None:
    for line, problem, allowed, remedy in [
        ('min_instances = "2"', "'2' is not a whole number", COUNT, "leave out the quotes: 2"),
        ("min_instances = 1.5", "1.5 is not a whole number", COUNT, "change it"),
        ("min_instances = true", "True is not a whole number", COUNT, "change it"),
        ("container = 3", "3 is not a table", "a table", "change it"),
        ('weight = "much"', "'much' is not a number", "a number, 0 or more and 1000000 or less",
         "change it"),
    ]:  # fmt: skip
        key = f"variants.primary.{line.split(' ')[0]}"
        assert said(environment, f"{VALID}{line}\n") == [(key, problem, allowed, remedy)]

    key, allowed = "variants.primary.scaling.safety_factor", "more than 0 and 1 or less"
    for value, remedy in ((1.5, "set 1, the nearest"), (0.0, "change it")):
        scaling = f"[variants.primary.scaling]\nmax_rps_per_instance = 1\nsafety_factor = {value}\n"
        problem = f"{value} is out of range"
        assert said(environment, VALID + scaling) == [(key, problem, allowed, remedy)]
    text = VALID + 'container = { gunicorn_worker_class = "gvent" }\n'
    assert said(environment, text) == [
        ("variants.primary.container.gunicorn_worker_class", "'gvent' is not known",
         "sync, gevent, gthread, eventlet, tornado", "did you mean gevent?"),
    ]  # fmt: skip
    assert said(environment, **{'account = "111111111111"\n': ""}) == [
        ("account", "missing", "AWS account id: a string of 12 digits",
         "add account = … at the top of the file"),
    ]  # fmt: skip
    assert said(environment, **{'"111111111111"': '"1111"'}) == [
        ("account", "'1111' does not have the required format",
         "12 digits in quotes, for example 111111111111", "write it in that format"),
    ]  # fmt: skip


def test_an_identifier_that_is_none_is_told_its_form(project: Path) -> None:
    for lines, form in [
        ('network = { subnets = ["subnet 1"] }', "subnet-0a1b2c3d4e5f60718"),
        ('network = { security_groups = ["default"] }', "sg-0a1b2c3d4e5f60718"),
        ('endpoint.callers = ["web"]', "arn:aws:iam::111111111111:role/serving"),
        ('endpoint.log_kms_key = "alias/logs"',
         "arn:aws:kms:eu-west-1:111111111111:key/0a1b2c3d-0000-0000-0000-000000000001"),
        ('security.permissions_boundary = "b"', "arn:aws:iam::111111111111:policy/boundary"),
        ('security.iam_path = "service"', "/service/ranker/"),
        ('alarms.notify = ["me"]', "team@example.com"),
        ('endpoint.volume_kms_key = "arn:aws:s3:::b"', "alias/ranker"),
        ('prices.as_of = "May"', "2026-11-29"),
        ("prices.instance_usd_per_hour = { c5 = 1.0 }", "ml.c5.xlarge"),
    ]:  # fmt: skip
        (found,) = overlaid(project, lines).findings
        assert found.problem.endswith(("does not have the required format", "is not a valid name"))
        assert found.allowed.endswith(f", for example {form}")

    (found,) = overlaid(project, 'variants.primary.environment = { "MY-TABLE" = "x" }').findings
    shown = found.allowed
    assert shown == "letters, digits and _, not beginning with a digit, for example TABLE_NAME"
    for key in ["k", "1234abcd-12ab-34cd-56ef-1234567890ab", "alias/a/b"]:
        assert overlaid(project, f'endpoint.volume_kms_key = "{key}"').findings == ()


def find_patterns(schema: Any) -> Iterator[str]:
    """Yield every pattern of a JSON schema, of values and of names."""
    if isinstance(schema, dict):
        yield from [schema["pattern"]] if isinstance(schema.get("pattern"), str) else []
        yield from schema.get("patternProperties", {})
    for inner in schema.values() if isinstance(schema, dict) else schema:
        if isinstance(inner, dict | list):
            yield from find_patterns(inner)


def test_every_pattern_of_the_schema_has_a_form_whose_example_matches() -> None:
    patterns = set(find_patterns(json.loads(build_json_schema())))
    assert len(patterns) > 20
    for pattern in patterns:
        form, _, example = describe_pattern(pattern).partition(", for example ")
        assert form, pattern
        assert re.search(pattern, example), pattern


def test_problems_are_said_at_once_without_what_follows(environment: Environment) -> None:
    found = said(environment, VALID + 'min_instances = "2"\nmax = 3\n')
    told = [finding.key for finding in found]
    assert told == ["variants.primary.min_instances", "variants.primary.max"]
    found = said(
        environment,
        **{'account = "111111111111"\n': "colour = 1\n", "c5.xlarge": "c5.huge",
           '"model"': '"none"'},
    )  # fmt: skip
    assert [finding.key for finding in found] == [
        "colour", "account", "models.ranker.saved_model", "variants.primary.instance_type",
    ]  # fmt: skip
    found = said(environment, **{'"model"': "3"})
    assert [finding.key for finding in found] == ["models.ranker.saved_model"]
    text = VALID + 'max_instances = 5\n[variants.primary.scaling]\nmax_rps_per_instance = "164"\n'
    given = [finding.key for finding in said(environment, text)]
    assert given == ["variants.primary.scaling.max_rps_per_instance"]


def test_a_wrong_base_or_file_name_is_mended_where_it_stands(project: Path) -> None:
    def first(**files: str) -> list[Finding]:
        folder = project / "environments"
        for file in folder.iterdir():
            file.unlink()
        for name, text in files.items():
            (folder / f"{name}.toml").write_text(text)
        return check(load(project, folder)[0])

    found = first(base=VALID.replace('"eu-west-1"', "3"), prod='extends = "base"\n')
    assert [finding.file for finding in found] == ["environments/base.toml"]
    assert messages(first(base=VALID, prod='extends = "bsae"\n')) == [
        ("extends", "there is no file 'bsae' in environments/", "base", "did you mean base?")
    ]
    assert "a -> b -> a" in first(a='extends = "b"\n', b='extends = "a"\n')[0].problem
    # A bad extends hides no unknown key.
    keys = [finding.key for finding in first(prod='extends = "bse"\ncolour = 1\n')]
    assert keys == ["extends", "colour"]
    assert messages(first(eu_prod=VALID)) == [
        ("", "'eu_prod' is not a valid name for an environment",
         "a letter followed by letters, digits, and hyphens, at most 40 characters",
         "rename the file"),
    ]  # fmt: skip


def test_a_file_not_toml_says_where_and_a_bad_name_or_number_what(environment: Environment) -> None:
    wrong = "not TOML: Illegal character '\\n' (at line 1, column 13)"
    assert said(environment, 'account = "1\n')[0].problem == wrong
    for line, remedy in [
        ("account = 012345678901",
         'quote it: account = "012345678901", or leave out the leading zeros of a number'),
        ("region = eu-west-1  # Ireland", 'quote it: region = "eu-west-1"'),
        ("production = True", "write production = true"),
        ("tags = [eu", "correct that line"),
    ]:  # fmt: skip
        (found,) = said(environment, f"\n{line}\n")
        assert found.remedy == remedy

    (finding,) = said(environment, VALID.replace("[variants.primary]", '[variants."a b"]'))
    assert finding[:2] == ("variants.a b", "'a b' is not a valid name")
    (problem,) = said(environment, VALID + "weight = inf\n")
    assert problem[:2] == ("variants.primary.weight", "inf is not a finite number")


@pytest.mark.parametrize(("parts", "text"), [
    ({"key": "a.b", "line": 7, "allowed": "1 to 3"},
     "prod.toml:7: a.b: 4 is too much; allowed: 1 to 3; lower it"),
    ({"key": ""}, "prod.toml: 4 is too much; lower it"),
])  # fmt: skip
def test_a_message_is_place_key_problem_values_and_remedy(parts: dict[str, Any], text: str) -> None:
    finding = Finding(
        rule="r", severity=Severity.ERROR, file="prod.toml", problem="4 is too much",
        remedy="lower it", **parts,
    )  # fmt: skip
    assert str(finding) == text


@pytest.mark.parametrize(("text", "key", "remedy"), [
    (VALID.replace('[endpoint]\nname = "ranker"\n', ""), "endpoint",
     'add a table [endpoint] with name = "…"'),
    (VALID.replace('name = "ranker"\n', ""), "endpoint.name", "add name = … to [endpoint]"),
    (VALID[: VALID.index("[models")], "models", "add a table [models.NAME]"),
    (VALID + '[batch.a]\nmodel = "ranker"\ninstance_type = "ml.c5.xlarge"\noutput = "s3://bucket/a/"\n'
     'content_type = "text/csv"\n', "batch.a.input", "add input = … to [batch.a]"),
    (VALID.replace('saved_model = "model"', 'artifact = { sha256 = "' + "a" * 64 + '" }'),
     "models.ranker.artifact.uri",
     "add uri = … to [models.ranker.artifact], or run `servable pin prod`"),
], ids=["table", "key", "tables", "batch", "artifact"])  # fmt: skip
def test_a_missing_key_is_added_to_its_table(
    environment: Environment, text: str, key: str, remedy: str
) -> None:
    (found,) = [each for each in said(environment, text) if each.key == key]
    assert (found.problem, found.remedy) == ("missing", remedy)
    meaning = found.allowed
    assert not meaning.endswith(".")
    assert ". " not in meaning


def test_a_value_is_shown_as_it_was_probably_meant_and_with_what_is_allowed(project: Path) -> None:
    for lines, remedy in [
        ("tags = { cost = 7 }", 'put it in quotes: "7"'),
        ("tags = { cost = true }", "change it"),
        ('alarms.notify = "a@example.com"', 'put it in brackets: ["a@example.com"]'),
        ("alarms.notify = 3", "change it"),
        ('variants.primary.weight = "3"', "leave out the quotes: 3"),
        ('variants.primary.shadow = "1"', "change it"),
    ]:
        (found,) = overlaid(project, lines).findings
        assert found.remedy == remedy
    for lines, problem, allowed in [
        ('variants.primary.routing = "rand"', "'rand' is not known",
         "least_outstanding_requests, random"),
        ("variants.primary.weight = -1", "-1 is out of range", "0 or more and 1000000 or less"),
        ("models.ranker.version = 'a'", "'a' is not a whole number",
         "a whole number, 0 or more and 9223372036854775807 or less"),
        (f'region = "{"x" * 70}"', "'" + "x" * 56 + "... does not have the required format",
         "a Region's name, for example eu-west-1"),
        ('acknowledge = { a = "short" }', "'short' is out of range", "at least 10 characters"),
        ("metrics.publish_seconds = 20", "20 is not known", "10, 30, 60, 120, 180, 240, 300"),
    ]:  # fmt: skip
        (found,) = overlaid(project, lines).findings
        assert (found.problem, found.allowed) == (problem, allowed)
