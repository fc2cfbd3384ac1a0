"""What counts as a badly named function, and as a docstring that doesn't begin with a verb."""

import ast

import pytest

from scripts.function_names import Function, has_bad_docstring, is_badly_named


def parse(source: str) -> Function:
    node = ast.parse(source).body[0]
    assert isinstance(node, Function)
    return node


@pytest.mark.parametrize(
    ("source", "bad"),
    [
        ("def judged(): ...", True),
        ("def _shown_rows(): ...", True),
        ("def of_rows(): ...", True),
        ("def missing(): ...", True),
        ("def judge(): ...", False),
        ("def from_rows(): ...", False),
        ("def as_text(): ...", False),
        ("def to_json(): ...", False),
        ("def need_rows(): ...", False),
        ("def embed(): ...", False),
        ("def __enter__(): ...", False),
        ("@property\ndef allowed_names(): ...", False),
        ("@cached_property\ndef allowed(): ...", True),
        ("@property\ndef in_words(): ...", True),
        ("@functools.cached_property\ndef shown_rows(): ...", False),
        ("@staticmethod\ndef shown_rows(): ...", True),
    ],
)
def test_participles_and_prepositions_are_no_names(source: str, bad: bool) -> None:
    assert is_badly_named(parse(source)) is bad


@pytest.mark.parametrize(
    ("docstring", "bad"),
    [
        ("Return the rows.", False),
        ("`Return` the rows.", False),
        ("Returns the rows.", True),
        ("The rows.", True),
        ("None for what is no row.", True),
    ],
)
def test_a_docstring_begins_with_a_verb(docstring: str, bad: bool) -> None:
    assert has_bad_docstring(parse(f'def read():\n    """{docstring}"""')) is bad
    assert not has_bad_docstring(parse("def read():\n    return None"))
