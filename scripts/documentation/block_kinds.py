"""What a block of a page is: a shell's, another grammar's, or somebody's words."""

import ast
import tomllib

SHELLS = ("sh", "console")
# What no command of ours stands in.
OTHERS = ("python", "toml", "json", "yaml", "text")
KINDS = SHELLS + OTHERS


def is_toml(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


def is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


# A block that is marked as one of these is read as such.
GRAMMAR = {"toml": is_toml, "python": is_python}
