"""What a page tells its reader to type: each line is held to the program that would read it."""

import ast
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from infra.parameters.loading import load
from infra.parameters.overrides import from_options, strangers
from scripts.documentation.pages import Command, Page, Unclear
from scripts.documentation.servable_lines import ServableLines

CDK_COMMANDS = ("bootstrap", "deploy", "destroy", "diff", "list", "synth")
# (option, takes a value): those of the CDK CLI that our pages use. https://docs.aws.amazon.com/cdk/v2/guide/cli.html
CDK_OPTIONS = {
    "-c": True,
    "--require-approval": True,
    "--profile": True,
    "--cloudformation-execution-policies": True,
    "--force": False,
}
CONTEXT = ("environments", "nag", "oidc-provider", "pipeline")  # the keys that app.py asks for
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
        self._checks: dict[str, Callable[[Command, Page], Problems]] = {
            "servable": lambda one, page: self._servable.problems(one, page.made),
            "make": lambda one, page: self._make(one),
            "cdk": lambda one, page: self._cdk(one, page.made),
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
        except Unclear as unclear:
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

    def _cdk(self, command: Command, made: set[str]) -> Problems:
        words = list(command.words[1:])
        if words.pop(0) not in CDK_COMMANDS:
            yield f"not one of cdk's {', '.join(CDK_COMMANDS)}"
        folder, context, stacks = "environments", [], []
        while words:
            word = words.pop(0)
            if not word.startswith("-"):
                stacks.append(word.strip("'"))
            elif word not in CDK_OPTIONS:
                yield f"{word} is no option of cdk that these pages use"
            elif CDK_OPTIONS[word]:
                value = words.pop(0) if words else ""
                if word == "-c":
                    key, _, given = value.partition("=")
                    context.append((key, given))
                    folder = given if key == "environments" else folder
        for key, given in context:
            yield from self._context(key, given, folder)
        names = self._servable.names(folder) | made
        for stack in stacks:
            name = stack.removeprefix("pipeline-").partition("/")[0]
            if not re.fullmatch(r"\*\*|aws:|[A-Z]+", name) and name not in names:
                yield f"there is no environment {name!r}"

    def _context(self, key: str, given: str, folder: str) -> Problems:
        if key in CONTEXT or "KEY" in key or key.startswith("ENV."):
            return []
        if "." not in key:
            return [f"-c {key}: app.py does not ask for it"]
        overrides = from_options({key: given})
        loaded = load(self._root, self._root / folder, overrides)
        lost = strangers(overrides, [one.name for one in loaded], "-c")
        return [*map(str, lost), *(str(found) for one in loaded for found in one.findings)]

    def _python(self, command: Command) -> Problems:
        words = command.words[1:]
        if words[:1] == ("-c",):
            try:
                ast.parse(words[1])
            except SyntaxError as wrong:
                return [f"is no Python: {wrong}"]
        elif words[:1] == ("-m",):
            module = self._root / words[1].replace(".", "/")
            ours = (self._root / words[1].partition(".")[0]).is_dir()
            if (
                ours
                and not module.with_suffix(".py").is_file()
                and not (module / "__main__.py").is_file()
            ):
                return [f"there is no module {words[1]}"]
        elif words and not (self._root / words[0]).is_file():
            return [f"there is no {words[0]}"]
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
