"""The snippets of docs/own-app.md have the imports of what they use."""

import re
import subprocess
import sys

from tests.checkouts import ROOT

SNIPPETS = re.findall(r"```python\n(.*?)```", (ROOT / "docs/own-app.md").read_text(), re.DOTALL)
# What the page calls the reader's own.
YOURS = "vpc = key = topic = SiteStack = object()\n"


def test_every_name_of_a_snippet_is_imported_by_it_or_by_one_above() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--isolated", "--select=F821", "-"],
        input=YOURS + "".join(SNIPPETS),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
