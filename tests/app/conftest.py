"""The CDK CLI as somebody runs it who has no AWS account: offline, no credentials, no settings."""

import os
from pathlib import Path

import pytest

from tests.checkouts import PATH, Ran, checkout, run_in


class Project:
    """A copy of the project, with the commands that people type in it."""

    def __init__(self, root: Path, home: Path) -> None:
        self.root = root
        self._environment = {
            "PATH": PATH,
            "HOME": str(home),
            "CDK_HOME": str(home),
            "CDK_DISABLE_VERSION_CHECK": "1",
            "AWS_EC2_METADATA_DISABLED": "true",
            # The unpacked jsii kernel (239 MB) is shared with every other run on this machine.
            "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache")),
        }

    def cdk(self, *arguments: str) -> Ran:
        return run_in(self.root, "cdk", *arguments, environment=self._environment)

    def app(self, context: str, *, out: str = "cdk.out") -> Ran:
        """app.py alone, as the CLI runs it: half the time, and the same words."""
        environment = {**self._environment, "CDK_CONTEXT_JSON": context, "CDK_OUTDIR": out}
        return run_in(self.root, "python3", "app.py", environment=environment)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder = tmp_path_factory.mktemp("app")
    return Project(checkout(folder / "project"), folder)
