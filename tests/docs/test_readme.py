"""README.md: how long it is, and its commands, typed as they stand into a fresh copy of the project."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checkouts import ROOT
from tests.docs.test_tutorial import copied, run, typed

PAGE = (ROOT / "README.md").read_text(encoding="utf-8")
README = typed(PAGE)
ENVIRONMENT = PAGE.partition("```toml\n")[2].partition("```")[0]
# What the first command installs is there: it would fetch 2.3 GB. `make test` is what runs this file.
INSTEAD = {"make demo": "make -o .venv/.local demo", "make test": ":"}
MODEL = """
import numpy, tensorflow as tf
model = tf.Module()
spec = tf.TensorSpec([None, 4], tf.float32, name="features")
model.total = tf.function(lambda features: {"total": tf.reduce_sum(features, 1)}, input_signature=[spec])
tf.saved_model.save(model, "my_model/model/1", signatures=model.total)
numpy.save("features.npy", numpy.array([[1, 2, 3, 4]], numpy.float32))
"""
HANDLERS = """
def input_handler(data, context):
    return data.read().decode()


def output_handler(response, context):
    return response.content, context.accept_header
"""


def test_the_readme_reaches_a_prediction_on_its_first_screens() -> None:
    lines = PAGE.splitlines()
    first = "\n".join(lines[:65])
    assert len(lines) <= 88  # 78, and the constructs in ten lines
    assert len(first.split()) <= 600
    assert "servable invoke my-model" in first
    assert len(re.findall(r"\]\(", PAGE)) <= 10
    assert not re.search(r"\b(uv|wheels?|UV_FIND_LINKS)\b", PAGE)


def type_in_terminal(folder: Path, text: str, variables: dict[str, str]) -> tuple[int, str]:
    """Return the exit code and output of a script in a terminal whose user confirms every question."""
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        ["timeout", "--foreground", "--kill-after=10", "540", "bash", "-c", text], cwd=folder,
        env=variables, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True,
    )  # fmt: skip
    os.close(terminal)
    printed, confirmed = b"", 0
    while True:
        try:
            printed += os.read(controller, 65_536)
        except OSError:  # Linux's end of a terminal that nobody has open
            break
        if printed.count(b"(y/n)") > confirmed:
            confirmed += 1
            os.write(controller, b"y\n")
    os.close(controller)
    return process.wait(), printed.decode(errors="replace")


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.skipif(sys.platform != "linux", reason="README names Linux")
def test_every_command_of_the_readme_works_in_a_fresh_clone(tmp_path: Path) -> None:
    lines = [
        next((there for command, there in INSTEAD.items() if line.startswith(command)), line)
        for line in README
    ]
    # Without this environment on PATH: `source .venv/bin/activate` must provide cdk and servable.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    folders = kept["PATH"].split(os.pathsep)
    path = os.pathsep.join(one for one in folders if not Path(one, "servable").exists())
    with copied(tmp_path) as copy:
        variables = {**kept, "PATH": path, "PYTHONPATH": str(copy), "HOME": str(tmp_path)}
        code = copy / "my_model" / "code"
        code.mkdir(parents=True)
        (code / "inference.py").write_text(HANDLERS)
        subprocess.run([sys.executable, "-c", MODEL], cwd=copy, check=True, capture_output=True)
        (copy / "environments" / "my-model.toml").write_text(ENVIRONMENT)
        typed_lines = "\n".join(["set -ex -o pipefail", *lines])
        try:
            ended, printed = type_in_terminal(copy, typed_lines, variables)
        finally:
            run(copy, "servable local down", timeout_seconds=60)
    assert ended == 0, printed[-6000:]
    assert "10.0" in printed.partition("+ servable invoke")[2].partition("+ servable plan")[0]
    assert "local AWS: stopped" in printed
