"""`cdk list` and `cdk synth`, with the real CLI, offline and without credentials."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.app.conftest import Project

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]  # two runs of the CLI in one test


def files(out: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(out.rglob("*")) if file.is_file()}


def prod(out: Path) -> dict[str, Any]:
    (file,) = (out / "assembly-prod").glob("*.template.json")
    return dict(json.loads(file.read_text()))


def test_list_shows_every_environments_stacks(project: Project) -> None:
    assert project.cdk("list").stdout.split("\n")[:-1] == [
        "dev/endpoint (ranker-dev-endpoint)",
        "local/endpoint (ranker-local-endpoint)",
        "prod/endpoint (ranker-prod-endpoint)",
        "staging/endpoint (ranker-staging-endpoint)",
    ]


def test_synth_needs_no_credentials_packs_nothing_and_repeats_its_bytes(project: Project) -> None:
    first, second = (project.app("{}", out=out) for out in ("1", "2"))
    assert (first.returncode, second.returncode) == (0, 0), first.stderr
    assert files(project.root / "1") == files(project.root / "2")
    assert not (project.root / ".servable" / "archives").exists()
    assert "Overrides" not in prod(project.root / "1")["Outputs"]


def test_the_cli_passes_keys_with_colons_and_quotes_and_numbers_of_files(project: Project) -> None:
    file = project.root / "cdk.context.json"
    file.write_text('{"prod.variants.primary.max_instances": 9, "acme:z.y": 1}')
    options = ("prod.tags.acme:owner=me", 'prod.tags."acme.com/cost"=a=b', "prod.tags.acme.x=5")
    given = [word for option in options for word in ("-c", option)]
    ran = project.cdk("synth", "prod/*", "--quiet", "--output", "by-cli", *given)
    file.unlink()
    assert ran.returncode == 0, ran.stderr
    template = prod(project.root / "by-cli")
    assert template["Metadata"]["Overrides"] == {
        "variants.primary.max_instances": "9",
        "tags.acme:owner": "me",
        'tags."acme.com/cost"': "a=b",
        "tags.acme.x": "5",
    }
    manifest = json.loads((project.root / "by-cli" / "assembly-prod" / "manifest.json").read_text())
    stacks = [each["properties"] for each in manifest["artifacts"].values()]
    (tags,) = (stack["tags"] for stack in stacks if "templateFile" in stack)
    assert {"acme:owner": "me", "acme.com/cost": "a=b", "acme.x": "5"}.items() <= tags.items()


def test_an_unknown_environment_and_a_missing_folder_stop_with_a_sentence(project: Project) -> None:
    ran = project.app('{"prdo.region": "eu-west-1"}')
    assert (ran.returncode, ran.stderr) == (
        1,
        "-c prdo.region: there is no environment 'prdo'; allowed: dev, local, prod, staging; "
        "did you mean prod?\n",
    )
    ran = project.app('{"environments": "nowhere"}')
    assert ran.stderr.endswith(
        "nowhere doesn't exist; pass an existing folder: -c environments=FOLDER\n"
    )
