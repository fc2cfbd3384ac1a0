"""A program that repairs a project: it knows exit codes, `--json`, and what remedies literally say.

It has no knowledge of a rule or a problem. Of a remedy it does what comes first: a command in backticks, a
key and its value, a word to write instead, or a key to take out.
"""

import json
import os
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.items import Table

from infra.parameters.environment import Environment
from infra.parameters.overrides import split_key

Finding = Mapping[str, Any]
MOST_STEPS = 6
# A command, and those that follow it.
_COMMAND = re.compile(r"(`(?:servable|cdk|aws) [^`]+`(?:, then `[^`]+`)*)")
_QUOTED_LINE = re.compile(r'quote it: ([\w.-]+) = ("[^"]*")')
_WORD = re.compile(r"did you mean (\S+)\?")
_VALUE = re.compile(r"(?:put it in quotes|put it in brackets|leave out the quotes): (.+)$")
_BOUND = re.compile(r"^set (-?[\d.]+)(?=,|$)")
_KEY_AND_VALUE = re.compile(r'(?:set|write) ([a-z_.]+) = ("[^"]*"|[^\s,;]+)')
_OUT = re.compile(r"^remove it(?=,|$)")
_TABLE = re.compile(r"^write \[([^\]]+)\]$")


class NotLiteralError(AssertionError):
    """The remedy leaves something to think about."""


class Repairs:
    """Repairs of one project. `environment`: the variables of what it runs."""

    def __init__(self, root: Path, environment: Mapping[str, str] = os.environ) -> None:
        self.root = root
        self._environment = environment
        self.followed: list[str] = []
        """The remedies that were followed."""

    def run(self, command: str) -> tuple[int, str]:
        """Run a command as a shell does; return (exit code, standard output)."""
        ran = subprocess.run(
            command, shell=True, cwd=self.root, env={**self._environment}, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        self.errors = ran.stderr
        return ran.returncode, ran.stdout

    def repair(self, command: str, findings: Callable[[Any], list[Finding]]) -> Any:
        """Run a command with --json, and follow its first finding, until there is none; return the JSON.

        Raises AssertionError if a step changes nothing, or many leave a finding.
        """
        for _ in range(MOST_STEPS):
            code, output = self.run(f"{command} --json")
            parsed = json.loads(output)
            found = findings(parsed)
            if not found:
                assert code == 0, output
                return parsed
            self.follow(found[0])
        raise AssertionError(f"still {found[0]} after {self.followed}")

    def follow(self, finding: Finding) -> None:
        """Do what the remedy says first. Raises NotLiteralError for one that can't be followed."""
        remedy: str = finding["remedy"]
        ways: list[tuple[re.Pattern[str], Callable[..., None]]] = [
            (_COMMAND, self._run_commands),
            (_QUOTED_LINE, self._quote_line),
            (_WORD, self._write_word),
            (_VALUE, lambda each, value: self._set(each, each["key"], value)),
            (_BOUND, lambda each, value: self._set(each, each["key"], value)),
            (_KEY_AND_VALUE, self._set),
            (_OUT, lambda each: self._rename(each, None)),
            (_TABLE, self._rename),
        ]
        matches = [(found, way) for pattern, way in ways if (found := pattern.search(remedy))]
        if not matches:
            raise NotLiteralError(f"{finding}")
        found, way = min(matches, key=lambda pair: pair[0].start())
        way(finding, *found.groups())
        self.followed.append(remedy)

    def _run_commands(self, _: Finding, commands: str) -> None:
        for command in commands.strip("`").split("`, then `"):
            code, output = self.run(command)
            assert code == 0, (command, output, self.errors)

    def _quote_line(self, finding: Finding, key: str, value: str) -> None:
        file = self.root / finding["file"]
        text, count = re.subn(rf"(?m)^(\s*{key}\s*=\s*).*$", rf"\g<1>{value}", file.read_text())
        assert count == 1
        file.write_text(text)

    def _write_word(self, finding: Finding, word: str) -> None:
        """Write a name instead of the key's own, if the problem quotes that; else as the key's value."""
        if repr(self._path(finding["key"])[-1]) in finding["problem"]:
            self._rename(finding, ".".join((*self._path(finding["key"])[:-1], word)))
        else:
            self._set(finding, finding["key"], json.dumps(word))

    def _set(self, finding: Finding, key: str, value: str) -> None:
        path = self._path(key)
        if path[0] not in (*Environment.model_fields, "extends"):  # it is next to the finding's key
            path = (*self._path(finding["key"])[:-1], *path)
        document = self._document(finding)
        table: Any = document
        for name in path[:-1]:
            table = (
                table.setdefault(name, tomlkit.table()) if isinstance(table, Table) else table[name]
            )
        table[path[-1]] = tomlkit.parse(f"value = {value}")["value"]
        self._write(finding, document)

    def _rename(self, finding: Finding, key: str | None) -> None:
        """Move a value to another key, or remove it."""
        document = self._document(finding)
        *above, name = self._path(finding["key"])
        table: Any = document
        for each in above:
            table = table[each]
        value = table.pop(name)
        if key is not None:
            table[self._path(key)[-1]] = value
        self._write(finding, document)

    def _path(self, key: str) -> tuple[str, ...]:
        return split_key(key)

    def _document(self, finding: Finding) -> tomlkit.TOMLDocument:
        return tomlkit.parse((self.root / finding["file"]).read_text())

    def _write(self, finding: Finding, document: tomlkit.TOMLDocument) -> None:
        (self.root / finding["file"]).write_text(tomlkit.dumps(document))
