"""`scripts/check_words.py` finds words of ours and sentences that lack their beginning, and nothing else."""

from pathlib import Path

import pytest

from scripts import check_words

# (file, its content, what the check says; None: nothing)
CASES = {
    "a docstring": ("app.py", '"""Of the model."""', "app.py:1: 'Of the model.'"),
    "a package's docstring": ("new/__init__.py", '"""Of it."""', "new/__init__.py:1: 'Of it.'"),
    "a help": ("app.py", 'x = option(help="Of it.")', "app.py:1: 'Of it.'"),
    "what an attribute holds": ("app.py", 'class A:\n    x: int\n    """That."""', "app.py:3: 'That"),
    "after a colon": ("app.py", 'x = f"{1}: is wrong; allowed: Of {2}"', "app.py:1: 'Of …'"),
    "a second paragraph": ("app.py", '"""A.\n\n    As it was.\n    """', "app.py:3: 'As it was.'"),
    "a sentence that goes on": ("app.py", '"""A.\n\n    It is\n    That which\n    """', None),
    "a comment": ("app.py", "x = 1\n# Of it", "app.py:2: 'Of it'"),
    "a comment that goes on": ("app.py", "x = 1\n# It is\n# That", None),
    "a paragraph of a page": ("README.md", "# A\n\nOf it.", "README.md:3: 'Of it.'"),
    "an item of a page": ("README.md", "# A\n\n- a\n- Of it.", "README.md:4: 'Of it.'"),
    "a cell of a page": ("docs/a.md", "| a |\n|---|\n| Of it |", "docs/a.md:3: 'Of it'"),
    "a comment of the Makefile": ("Makefile", "all:  ## Of all", "Makefile:1: 'Of all'"),
    "a word in a string": ("app.py", 'x = (\n"on"\n" the double")', "app.py:3: 'the double'"),
    "a word over two lines": ("app.py", '"""An embedded\n    AWS."""', "app.py:1: 'embedded AWS'"),
    "a word in a comment": ("app.py", "x = 1  # the lifeline", "app.py:1: 'lifeline'"),
    "a word in a block": ("README.md", "```sh\nmake x  # trouble\n```", "README.md:2: 'trouble'"),
    "a test's docstring": ("tests/__init__.py", '"""This machine."""', "tests/__init__.py:1: 'machine'"),
    "a test's string": ("tests/__init__.py", 'x = "this machine"', None),
    "a name of code": ("app.py", '"""`machine` and `a.gateway`."""', None),
    "a method in a block": ("README.md", "```python\naws.trouble(1)\n```", None),
    "a number's type": ("app.py", '"""It rounds to a double."""', None),
    "AWS's services": ("app.py", '"""A NAT gateway, and API Gateway."""', None),
    "HTTP's words": ("app.py", 'x = "502 Bad Gateway", "504 Gateway Timeout"', None),
    "a decision": ("docs/decisions/1.md", "the double", None),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_word_or_beginning_is_found_with_its_line(case: str, tmp_path: Path) -> None:
    name, content, said = CASES[case]
    for folder in ("docs/decisions", "new", "tests"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "app.py").touch()
    (tmp_path / name).write_text(content)
    found = list(check_words.found_in(tmp_path))
    assert [line[: len(said or "")] for line in found] == [said] * (said is not None)
