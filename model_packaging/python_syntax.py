"""Parses code under the grammar of the image's Python, which may be newer than ours."""

import ast
import re
import sys

# Type aliases and type parameters, of which Python 3.11 says no more than "invalid syntax".
_NEWER = re.compile(rb"\s*(type\s+\w|class\s+\w+\s*\[|(async\s+)?def\s+\w+\s*\[)")


class PythonSyntaxError(ValueError):
    """The code is not Python of that version; `str()` says why, `line` counts from 1."""

    def __init__(self, problem: str, line: int) -> None:
        super().__init__(problem)
        self.line = line


def parse(source: bytes, *, python: str) -> ast.Module:
    """The code as a tree; `python` is the image's, "3.12". Raises `PythonSyntaxError`.

    Our own Python's parser judges first. What it refuses and the image's newer Python
    might not (3.12 nests quotes in f-strings) LibCST judges, which knows Python up to 3.14.
    """
    version = _minor_version(python)
    try:
        return ast.parse(source, feature_version=version)
    except (SyntaxError, ValueError) as error:
        ours = _bad(error)
        if version <= sys.version_info[:2]:
            raise ours from None
    except (RecursionError, MemoryError):
        raise PythonSyntaxError("is nested too deeply to be parsed", 1) from None
    return _parse_newer(source, ours)


def _parse_newer(source: bytes, ours: PythonSyntaxError) -> ast.Module:
    # Imported late: 0.2 s, and most code never comes here.
    import libcst

    from model_packaging.newer_syntax import without_newer_syntax

    try:
        module = libcst.parse_module(source)
    except libcst.ParserSyntaxError as error:
        raise _both_refuse(error.message, ours, source) from None
    except (SyntaxError, UnicodeError, LookupError) as error:
        # Its bytes are no text in the encoding that it declares.
        raise PythonSyntaxError(str(error), 1) from None
    try:
        return ast.parse(without_newer_syntax(module))
    except (SyntaxError, ValueError) as error:
        raise _bad(error) from None
    except (RecursionError, MemoryError):
        raise PythonSyntaxError("is nested too deeply to be parsed", 1) from None


def _bad(error: Exception) -> PythonSyntaxError:
    return PythonSyntaxError(getattr(error, "msg", str(error)), getattr(error, "lineno", None) or 1)


def _both_refuse(message: str, ours: PythonSyntaxError, source: bytes) -> PythonSyntaxError:
    """What our parser says, which says more; unless it stopped at what is right in a newer Python."""
    line = source.split(b"\n")[ours.line - 1 : ours.line]
    if not str(ours).startswith("f-string") and not (line and _NEWER.match(line[0])):
        return ours
    found = re.search(r"error at (\d+):", message)
    return (
        PythonSyntaxError("invalid syntax", int(found[1]))
        if found
        else PythonSyntaxError(message, ours.line)
    )


def _minor_version(python: str) -> tuple[int, int]:
    major, minor = python.split(".")[:2]
    return int(major), int(minor)
