"""A typo in staging.toml stops staging, says everything, stops nobody else, and can be mended."""

import pytest

from tests.app.conftest import Project

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]  # five runs of the CLI

BROKEN = 'extends = "base"\ncolour = "red"\n[variants.primary]\nmin_instances = "two"\n'
WARNED = "prod.variants.primary.container.gunicorn_timeout_seconds=120"
KEYS = ["variants.primary.min_instances", "colour", "account", "endpoint"]


def problems(said: str) -> list[str]:
    """Keys of staging's problems, once each: the app says them, and the CLI where selected."""
    lines = [line.strip() for line in said.splitlines()]
    ours = [line for line in lines if line.startswith("environments/staging.toml: ")]
    return list(dict.fromkeys(line.split(": ")[1] for line in ours))


def test_a_broken_file_stops_its_own_stack_alone_and_says_every_problem(project: Project) -> None:
    folder = project.root / "environments"
    staging, right = folder / "staging.toml", (folder / "staging.toml").read_text()
    staging.write_text(BROKEN)
    (folder / "dev.toml").rename(folder / "x.toml")
    (folder / "x.toml").write_text("not toml at all")
    (folder / "9 lives.toml").write_text('extends = "base"\n')

    ran = project.cdk("synth", "staging/*")
    assert (ran.returncode, problems(ran.stderr)) == (1, KEYS)
    # In the cdk.out of the first: the CLI would read the old report again.
    staging.write_text(right)
    assert project.cdk("synth", "staging/*", "--quiet").returncode == 0
    staging.write_text(BROKEN)

    # The same holds for a file that is no TOML, and for a name that cannot be one.
    ran = project.cdk("synth", "--quiet")
    shown = ran.stderr[ran.stderr.index("ERROR ") :]  # behind what app.py says by itself
    others = [f"environments/{name}: " in shown for name in ("x.toml", "9 lives.toml")]
    assert (ran.returncode, problems(shown), others) == (1, KEYS, [True, True])

    # No other stack is stopped, whatever warnings it has.
    ran = project.cdk("synth", "prod/*", "--quiet", "-c", WARNED)
    assert (ran.returncode, "WARNING" in ran.stderr) == (0, True)
    ran = project.cdk("list")
    listed = [line.split(" ")[0] for line in ran.stdout.splitlines()]
    named = [name for name in listed if not name.startswith("refused_")]
    assert named == ["local/endpoint", "prod/endpoint", "staging/endpoint", "x/endpoint"]
    assert problems(ran.stderr) == KEYS
