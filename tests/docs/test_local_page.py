"""What docs/local.md shows of code whose packages are for another Python is what is printed."""

import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

from model_packaging.dependencies.wheels import unpack
from tests.checkouts import ROOT
from tests.docs.test_replay_page import form
from tests.packaging.wheelhouse import installed_wheel

_PAGE = (
    (ROOT / "docs" / "local.md").read_text(encoding="utf-8").partition("### The image's Python")[2]
)
BLOCK = re.findall(r"```text\n(.*?)```", _PAGE, re.DOTALL)[0]
# As the container does: code/ and code/lib before what is installed, problems beside the error.
STARTED = """
import sys
from pathlib import Path
from servable_local.container.compiled_packages import provide_compiled_packages
from servable_local.container.gunicorn.user_code import CodeError, load_handler
from servable_local.container.image_code import find_image_code
code = Path("code").resolve()
problems = provide_compiled_packages(code).problems
sys.path[:0] = [str(code), str(code / "lib")]
try:
    load_handler(code / "inference.py", find_image_code("2.20"), problems)
except CodeError as error:
    print(error)
"""


@pytest.mark.long
@pytest.mark.skipif(sys.version_info[:2] == (3, 12), reason="code/lib is for this Python")
def test_code_that_needs_a_package_of_another_python_ends_as_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "made").mkdir()
    vendored = installed_wheel(tmp_path / "made", "pillow", "3.12", platform.machine())
    unpack([vendored], tmp_path / "code" / "lib")
    (tmp_path / "code" / "transforms.py").write_text("\n" * 5 + "from PIL import _imaging\n")
    (tmp_path / "code" / "inference.py").write_text("import transforms\n")
    for name, value in {"PIP_NO_INDEX": "1", "XDG_CACHE_HOME": str(tmp_path / "cache")}.items():
        monkeypatch.setenv(name, value)
    ran = subprocess.run(
        [sys.executable, "-c", STARTED], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    shown = " ".join(BLOCK.split())
    pattern = re.escape(form(shown)).replace("…", ".*")
    assert re.match(pattern, form(" ".join(ran.stdout.split()))), ran.stdout + ran.stderr
