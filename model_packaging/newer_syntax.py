"""Removes syntax that only Python 3.12 and later can parse, and keeps every line number."""

import libcst


def remove_newer_syntax(module: libcst.Module) -> str:
    """Return code that Python 3.11 parses, with the same lines. Imports and definitions stay the same."""
    return module.visit(_Older(module)).code


class _Older(libcst.CSTTransformer):
    """A transformer that replaces syntax newer than Python 3.11.

    f-strings become strings (PEP 701), a type alias becomes an assignment, and type parameters (PEP 695)
    are removed.
    """

    def __init__(self, module: libcst.Module) -> None:
        super().__init__()
        self._module = module

    def leave_FormattedString(  # noqa: N802  # LibCST's name
        self, original_node: libcst.FormattedString, updated_node: libcst.FormattedString
    ) -> libcst.BaseExpression:
        return self._build_blank_string(original_node)

    def leave_TypeAlias(  # noqa: N802  # LibCST's name
        self, original_node: libcst.TypeAlias, updated_node: libcst.TypeAlias
    ) -> libcst.BaseSmallStatement:
        name = updated_node.name
        return libcst.Assign([libcst.AssignTarget(name)], self._build_blank_string(original_node))

    def leave_FunctionDef(  # noqa: N802  # LibCST's name
        self, original_node: libcst.FunctionDef, updated_node: libcst.FunctionDef
    ) -> libcst.FunctionDef:
        return updated_node.with_changes(type_parameters=None)

    def leave_ClassDef(  # noqa: N802  # LibCST's name
        self, original_node: libcst.ClassDef, updated_node: libcst.ClassDef
    ) -> libcst.ClassDef:
        return updated_node.with_changes(type_parameters=None)

    def _build_blank_string(self, node: libcst.CSTNode) -> libcst.SimpleString:
        """Return a string literal with as many lines as the node."""
        newlines = self._module.code_for_node(node).count("\n")
        return libcst.SimpleString('"""' + "\n" * newlines + '"""')
