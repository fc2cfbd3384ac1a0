"""`cdk …` as pages show it, held to what app.py and the environments take."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from infra.parameters.loading import load
from infra.parameters.overrides import from_options, strangers
from scripts.documentation.pages import Command

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


class CdkLines:
    """`names`: the environments of a folder."""

    def __init__(self, root: Path, names: Callable[[str], set[str]]) -> None:
        self._root, self._names = root, names

    def problems(self, command: Command, made: set[str]) -> Iterable[str]:
        words = list(command.words[1:])
        if (words.pop(0) if words else "") not in CDK_COMMANDS:
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
        if not (self._root / folder).is_dir():
            yield f"-c environments={folder}: there is no such folder"
        for key, given in context:
            yield from self._context(key, given, folder)
        names = self._names(folder) | made
        for stack in stacks:
            name = stack.removeprefix("pipeline-").partition("/")[0]
            if not re.fullmatch(r"\*\*|aws:|[A-Z]+", name) and name not in names:
                yield f"there is no environment {name!r}"

    def _context(self, key: str, given: str, folder: str) -> Iterable[str]:
        if key in CONTEXT or "KEY" in key or key.startswith("ENV."):
            return []
        if "." not in key:
            return [f"-c {key}: app.py does not ask for it"]
        overrides = from_options({key: given})
        loaded = load(self._root, self._root / folder, overrides)
        lost = strangers(overrides, [one.name for one in loaded], "-c")
        return [*map(str, lost), *(str(found) for one in loaded for found in one.findings)]
