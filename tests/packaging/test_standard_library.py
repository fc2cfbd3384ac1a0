"""The standard library of the image's Python, whatever Python packs."""

import subprocess
import sys

import pytest

from model_packaging.python_source import list_standard_library


def test_our_own_is_what_python_says() -> None:
    ours = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert list_standard_library(ours) == sys.stdlib_module_names


@pytest.mark.long
@pytest.mark.parametrize("python", ["3.10", "3.12", "3.13"])
def test_another_python_says_the_same_of_itself(python: str) -> None:
    code = "import sys; print(*sorted(n for n in sys.stdlib_module_names if n[0] != '_'))"
    try:
        ran = subprocess.run([f"python{python}", "-c", code], capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip(f"no python{python} here")
    if ran.returncode:
        pytest.skip(f"python{python} does not run")
    assert sorted(n for n in list_standard_library(python) if n[0] != "_") == ran.stdout.split()
