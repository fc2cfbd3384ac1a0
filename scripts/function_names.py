"""Decide whether a function's name and docstring begin with a verb; words.toml has the words."""

import ast
import tomllib
from pathlib import Path

Function = ast.FunctionDef | ast.AsyncFunctionDef

_TEXT = Path(__file__).with_name("words.toml").read_text(encoding="utf-8")
WORDS = {key: frozenset(words.split()) for key, words in tomllib.loads(_TEXT).items()}


def is_participle(word: str) -> bool:
    """Return whether `word` is a past participle, or one of the present participles in words.toml."""
    ends = word.endswith("ed") and len(word) > 3 and word not in WORDS["not_participles"]
    return ends or word in WORDS["irregular_participles"] | WORDS["present_participles"]


def is_property(node: Function) -> bool:
    """Return whether a decorator makes `node` a property, whose name is a noun."""
    names = {getattr(each, "attr", getattr(each, "id", "")) for each in node.decorator_list}
    return any(name.endswith("property") or name == "setter" for name in names)


def is_badly_named(node: Function) -> bool:
    """Return whether the name begins with a preposition or a participle.

    A property may begin with a participle that a noun follows (`allowed_names`).
    """
    first, *rest = node.name.strip("_").split("_")
    if first in WORDS["prepositions"]:
        return True
    return is_participle(first) and not (is_property(node) and rest)


def has_bad_docstring(node: Function) -> bool:
    """Return whether there is a docstring whose first word isn't a verb in the imperative."""
    docstring = ast.get_docstring(node)
    if docstring is None:
        return False
    return docstring.split(maxsplit=1)[0].strip("`.,:;()").lower() not in WORDS["verbs"]
