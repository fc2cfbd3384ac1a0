"""What a package index shows of each wheel: rendered by PyPI's own library, its links followed."""

import re
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from readme_renderer import markdown

from scripts.build_wheels import WHEELS, expand_links
from servable import __version__
from tests.checkouts import ROOT
from tests.wheels import built

REPOSITORY = built.REPOSITORY
TREE = f"{REPOSITORY}/{{}}/v1.2.3"


def test_a_relative_link_becomes_an_address_of_the_release() -> None:
    for written, address in [
        ("[a](docs/a.md#b)", f"[a]({REPOSITORY}/blob/v1.2.3/docs/a.md#b)"),
        ("[`a`](LICENSE)", f"[`a`]({REPOSITORY}/blob/v1.2.3/LICENSE)"),
        ("![a](docs/a.svg)", f"![a]({REPOSITORY}/raw/v1.2.3/docs/a.svg)"),
        ("[a](#b)", "[a](#b)"),
        ("[a](https://b.c)", "[a](https://b.c)"),
        ("[a](mailto:b@c.d)", "[a](mailto:b@c.d)"),
    ]:
        assert expand_links(written, ".", TREE) == address
    page = expand_links("[a](../../docs/a.md)", "packages/servable-client", TREE)
    assert page == f"[a]({REPOSITORY}/blob/v1.2.3/docs/a.md)"


def shown(wheel: str, wheels: Path) -> str:
    """The description as HTML, as PyPI shows it."""
    with zipfile.ZipFile(built.file_of(wheel, wheels)) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(name).decode())
    rendered = markdown.render(str(metadata.get_payload()))
    assert rendered is not None
    return rendered


@pytest.mark.long
@pytest.mark.parametrize("wheel", WHEELS)
def test_every_link_of_a_description_names_a_file_of_the_release(wheel: str, wheels: Path) -> None:
    targets = re.findall(r'(?:href|src)="([^"]+)"', shown(wheel, wheels))
    tree = re.compile(rf"{REPOSITORY}/(?:blob|raw)/v{__version__}/([^#]+)")
    other = re.compile(r"https://(docs\.astral\.sh|github\.com/getmoto)/")
    ours = [target for target in targets if not other.match(target)]
    paths = [match and match[1] for match in map(tree.match, ours)]
    assert paths
    assert [path for path in paths if not path or not (ROOT / path).exists()] == []


@pytest.mark.long
def test_twine_finds_nothing_wrong_with_the_wheels(wheels: Path) -> None:
    command = [sys.executable, "-m", "twine", "check", "--strict", *map(str, wheels.iterdir())]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
