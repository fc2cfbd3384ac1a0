"""Each package installs alone from its wheel, and the Python of its README prints what the page says."""

import re
from pathlib import Path

import pytest

from tests.checkouts import ROOT
from tests.wheels.environment import make
from tests.wheels.test_environments import run

pytestmark = pytest.mark.long
# What an example needs besides its package.
MORE = {"servable-runtime": ["numpy"]}


@pytest.mark.parametrize("name", ["servable-client", "servable-runtime", "servable-scaling"])
def test_a_package_alone_runs_its_readme(name: str, wheels: Path, tmp_path: Path) -> None:
    page = (ROOT / "packages" / name / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    expected = re.findall(r"^print\(.*\) +# (.*)$", code, re.MULTILINE)
    programs = make(tmp_path / "environment", wheels, [name, *MORE.get(name, [])])
    assert run(tmp_path, programs / "python", "-c", code).splitlines() == expected != []
