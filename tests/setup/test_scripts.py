"""What scripts/ make of names, docstrings, templates, and links."""

import ast

import pytest

from scripts.build_wheels import expand_links
from scripts.check_structure import Function, has_bad_docstring, is_badly_named
from scripts.compare_templates import mask_text


def test_another_property_is_shown_and_what_hangs_on_our_own_sources_is_masked() -> None:
    key, other_key = "ab" * 32, "cd" * 32
    assert mask_text(f"s3://assets/{key}.tar.gz") == "s3://assets/<SHA-256>.tar.gz"
    for old, new in [
        ('"Threshold": 1', '"Threshold": 2'),
        ("Rollbackprimary5xx4d2f12d8B5EB0BE2", "Rollbacknext5xx4d2f12d8B5EB0BE2"),
        ("Alarmsprimary5xx1D5CE55E", "Alarmsprimary5xx1D5CE55F"),
    ]:
        assert mask_text(old) != mask_text(new)
    for old, new in [
        (f"s3://assets/{key}.tar.gz", f"s3://assets/{other_key}.tar.gz"),
        ("RolloutRollbackprimary5xx4d2f12d8B5EB0BE2", "RolloutRollbackprimary5xx00aa11bb01234567"),
        ("ranker-prod-rollback-primary-5xx-4d2f12d8", "ranker-prod-rollback-primary-5xx-00aa11bb"),
        ("VariantaModelRolePolicy553eca7e964F3248", "VariantaModelRolePolicyb8a66fa522E8F579"),
    ]:
        assert mask_text(old) == mask_text(new)


def test_a_relative_link_becomes_an_address_of_the_release() -> None:
    address = "https://github.com/OWNER/NAME"
    for written, part, folder in [
        ("[a](docs/a.md#b)", f"[a]({address}/blob/v1.2.3/docs/a.md#b)", "."),
        ("[`a`](LICENSE)", f"[`a`]({address}/blob/v1.2.3/LICENSE)", "."),
        ("![a](docs/a.svg)", f"![a]({address}/raw/v1.2.3/docs/a.svg)", "."),
        ("[a](#b)", "[a](#b)", "."),
        ("[a](https://b.c)", "[a](https://b.c)", "."),
        ("[a](mailto:b@c.d)", "[a](mailto:b@c.d)", "."),
        (
            "[a](../../docs/a.md)",
            f"[a]({address}/blob/v1.2.3/docs/a.md)",
            "packages/servable-client",
        ),
    ]:
        assert expand_links(written, folder, f"{address}/{{}}/v1.2.3") == part


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
