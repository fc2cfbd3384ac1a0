"""What a preflight rule is, how all of them are found, and what they derive together."""

import importlib
import inspect
import pkgutil
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import infra.preflight
from infra.packing import servable
from infra.parameters.environment import Environment
from infra.parameters.finding import Finding, Severity
from infra.parameters.loading import Loaded
from infra.parameters.placement import Placement, placements
from model_packaging.refusal import PackagingError
from model_packaging.request_path import wants_ours
from model_packaging.saved_model import read
from model_packaging.saved_model.info import SavedModelInfo

# Words of which an id can be made: GpuIdle is gpu-idle, and GPUIdle would be g-p-u-idle.
NAME_OF_A_RULE = re.compile(r"(?!.*[A-Z]{3})([A-Z][a-z0-9]*)+")


class RuleNameError(TypeError):
    """A rule whose id is not to be told from its name, or is another's already."""


@dataclass(frozen=True)
class Candidate:
    """An environment that shall be deployed, with what several rules derive from it, once."""

    loaded: Loaded
    environment: Environment
    """The draft: the rest of a file with problems of shape."""
    _saved_models: dict[Path, SavedModelInfo] = field(default_factory=dict)

    @cached_property
    def placements(self) -> tuple[Placement, ...]:
        """The variants whose instance type and model are known."""
        return placements(self.loaded, self.environment)

    @cached_property
    def code_folders(self) -> Mapping[str, Path]:
        """By model: code folders with a handler, or hooks for Servable's.

        That a folder lacks them, or cannot be entered, is a finding of Artefact.
        """
        given = {name: one.code for name, one in self.environment.models.items() if one.code}
        folders = {name: self.loaded.root / code for name, code in given.items()}
        return {name: folder for name, folder in folders.items() if _has_code(folder)}

    def version_folders(self, model: str) -> tuple[Path, ...]:
        """Of a model that is packed here; none where they cannot be told, which Artefact finds."""
        if self.environment.models[model].saved_model is None:
            return ()
        packed = servable(model, self.environment.models[model], self.loaded.root)
        try:
            return tuple(packed.versions().values())
        except (PackagingError, OSError, RuntimeError):
            return ()

    def saved_model(self, folder: Path) -> SavedModelInfo:
        """What a version folder holds. Raises `PackagingError`, OSError."""
        if folder not in self._saved_models:
            self._saved_models[folder] = read(folder)
        return self._saved_models[folder]


def _has_code(folder: Path) -> bool:
    try:
        return (folder / "inference.py").is_file() or wants_ours(folder)
    except OSError:
        return False


class Rule(ABC):
    """One thing that would fail or hurt after ten minutes of deploying.

    The docstring says why, and names the source. The id is the class's name: GpuIdle is gpu-idle.
    """

    id: ClassVar[str] = ""
    severity: ClassVar[Severity] = Severity.ERROR
    acknowledgeable: ClassVar[bool] = False
    """Whether `[acknowledge]` may accept it: every warning, and an error where AWS itself would go
    ahead."""
    example: ClassVar[str] = ""
    """Lines of an environment file that break it, for docs/rules.md; a comment where it takes files."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if NAME_OF_A_RULE.fullmatch(cls.__name__) is None:
            raise RuleNameError(
                f"{cls.__module__}.{cls.__name__}: the id of a rule is made of its class's name; write "
                "it as words in CamelCase, as GpuIdle"
            )
        named = re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower()
        if vars(cls).get("id", named) != named:
            raise RuleNameError(
                f"{cls.__module__}.{cls.__name__}: the id of a rule is its class's name, {named!r}, and "
                f"not {cls.id!r}; take id out, or rename the class"
            )
        cls.id = named
        cls.acknowledgeable = cls.acknowledgeable or cls.severity is Severity.WARNING

    def __init__(self, candidate: Candidate) -> None:
        self.candidate = candidate
        self.loaded = candidate.loaded

    @abstractmethod
    def check(self, environment: Environment) -> Iterator[Finding]:
        """Yields a finding for every place that breaks the rule."""

    def finding(
        self,
        key: str,
        given: Any,
        problem: str,
        *,
        allowed: str = "",
        remedy: str,
        reads: tuple[str, ...] = (),
    ) -> Finding:
        return Finding(
            rule=self.id,
            severity=self.severity,
            file=self.loaded.origin(key),
            key=key,
            given=given,
            problem=problem,
            allowed=allowed,
            remedy=remedy,
            acknowledgeable=self.acknowledgeable,
            reads=reads,
        )

    def not_checked(self, key: str, needs: str) -> Finding:
        """What stands in for the rule where it lacks an input: never a pass."""
        return Finding(
            rule=self.id,
            severity=Severity.NOT_CHECKED,
            file=self.loaded.origin(key),
            key=key,
            problem=f"{self.id} is not checked",
            remedy=f"give {needs}",
        )

    @classmethod
    def why(cls) -> str:
        """The docstring without its source, as one paragraph."""
        return " ".join(inspect.cleandoc(cls.__doc__ or "").split("Source:")[0].split())

    @classmethod
    def source(cls) -> str:
        """What the docstring names as its source; empty where the reason is the file itself."""
        found = re.search(r"Source:(.*)", inspect.cleandoc(cls.__doc__ or ""), re.DOTALL)
        return " ".join(found[1].split()) if found else ""


class VariantRule(Rule):
    """A rule about one variant on its machine."""

    def check(self, environment: Environment) -> Iterator[Finding]:
        for placement in self.candidate.placements:
            yield from self.look(environment, placement)

    @abstractmethod
    def look(self, environment: Environment, placement: Placement) -> Iterator[Finding]:
        """Yields a finding for everything about this variant that breaks the rule."""

    def size_unknown(self, placement: Placement) -> Iterator[Finding]:
        """Not checked, where the file does not say it; that a folder is bad is a finding already."""
        key = f"models.{placement.variant.model}"
        if placement.model.artifact is not None:
            yield self.not_checked(f"{key}.artifact", f"{key}.artifact.size_gib")
        elif placement.model.multi_model is not None:
            needs = "a load test: nobody knows which of several models are loaded together"
            yield self.not_checked(f"{key}.multi_model", needs)


def discovered(package: ModuleType = infra.preflight) -> tuple[type[Rule], ...]:
    """Every rule of the modules in the package's folders, by id. Raises RuleNameError.

    By id, so that what is shown does not depend on which file a rule stands in.
    """
    rules: dict[str, type[Rule]] = {}
    for folder in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        if not folder.ispkg:
            continue
        for file in pkgutil.iter_modules(
            importlib.import_module(folder.name).__path__, f"{folder.name}."
        ):
            for rule in _rules_of(importlib.import_module(file.name)):
                other = rules.setdefault(rule.id, rule)
                if other is not rule:
                    raise RuleNameError(
                        f"{rule.id} is the id of two rules, in {other.__module__} and "
                        f"{rule.__module__}; rename one of them"
                    )
    return tuple(rules[name] for name in sorted(rules))


def _rules_of(module: ModuleType) -> list[type[Rule]]:
    named = vars(module).values()
    classes = [one for one in named if isinstance(one, type) and issubclass(one, Rule)]
    return [one for one in classes if not inspect.isabstract(one)]


def artifact_example(*, size_gib: int | None = None, folder: str = "run-17") -> str:
    """A line for examples: an archive in S3 with a hash that is none in particular."""
    size = "" if size_gib is None else f", size_gib = {size_gib}"
    uri = f"s3://models/{folder}/model.tar.gz"
    return f'models.ranker.artifact = {{ uri = "{uri}", sha256 = "{"a" * 64}"{size} }}'
