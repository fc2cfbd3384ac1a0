"""What a page tells its reader to type: each line is held to the program that would read it."""

import ast
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from scripts.documentation.cdk_lines import CdkLines
from scripts.documentation.pages import Command, Page, UnclearPageError
from scripts.documentation.servable_lines import ServableLines

# Programs that are not ours, and why a page may name them: nothing of ours can make them stale.
OTHERS = {
    "aws": "the AWS CLI, as any client of what is deployed",
    "cd": "of the shell",
    "eval": "of the shell; what stands in $(…) is looked at by itself",
    "git": "gets the repository",
    "npm": "installs package-lock.json",
    "npx": "starts the CDK CLI that npm installed",
    "source": "of the shell",
}

Problems = Iterable[str]


class Lines:
    """Holds the commands of pages to the project at `root`."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._targets = set(
            re.findall(r"^([a-z][a-z-]*):", (root / "Makefile").read_text(), re.MULTILINE)
        )
        self._servable = ServableLines(root)
        self._cdk = CdkLines(root, self._servable.names)
        self._checks: dict[str, Callable[[Command, Page], Problems]] = {
            "servable": lambda one, page: self._servable.problems(one, page.made),
            "make": lambda one, page: self._make(one),
            "cdk": lambda one, page: self._cdk.problems(one, page.made),
            "python": lambda one, page: self._python(one),
            "python3": lambda one, page: self._python(one),
            "pip": lambda one, page: self._files(one),
            "pytest": lambda one, page: self._files(one),
        }

    def problems(self, found: Sequence[Page]) -> list[str]:
        return [one for page in found for one in self._of(page)]

    def _of(self, page: Page) -> Problems:
        try:
            commands = page.commands()
        except UnclearPageError as unclear:
            return [str(unclear)]
        return [
            f"{one.page}:{one.line}: `{' '.join(one.words)}`: {problem}"
            for one in commands
            for problem in self._one(one, page)
        ]

    def _one(self, command: Command, page: Page) -> Problems:
        if command.program in OTHERS:
            return ()
        check = self._checks.get(command.program)
        if check is None:
            return [
                f"{command.program} is not known; scripts/documentation says which are, and why"
            ]
        return check(command, page)

    def _make(self, command: Command) -> Problems:
        named = [one for one in command.words[1:] if "=" not in one]
        return [f"make has no target {one}" for one in named if one not in self._targets]

    def _python(self, command: Command) -> Problems:
        option, *words = [*command.words[1:], ""]  # each option of ours takes one word
        if option == "-c":
            try:
                ast.parse(words[0])
            except SyntaxError as wrong:
                return [f"is no Python: {wrong}"]
        elif option == "-m":
            module = self._root / words[0].replace(".", "/")
            ours = (self._root / words[0].partition(".")[0]).is_dir()
            if (
                ours
                and not module.with_suffix(".py").is_file()
                and not (module / "__main__.py").is_file()
            ):
                return [f"there is no module {words[0]}"]
        elif not (self._root / option).is_file():
            return [f"there is no {option}"]
        return []

    def _files(self, command: Command) -> Problems:
        """Paths in the project: requirements and folders."""
        named = [
            one
            for one in command.words[1:]
            if one.startswith("./") or one.endswith(".txt") or one.startswith("tests/")
        ]
        return [f"there is no {one}" for one in named if not (self._root / one).exists()]


def programs() -> frozenset[str]:
    """Every program that a page may name."""
    return frozenset({*OTHERS, "servable", "make", "cdk", "python", "python3", "pip", "pytest"})
