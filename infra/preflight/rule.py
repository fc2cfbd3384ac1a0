"""The base classes of preflight rules, and the discovery of all rules."""

import importlib
import inspect
import pkgutil
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, ClassVar, Final

from infra.parameters.finding import Finding, Severity
from infra.parameters.placement import Placement
from infra.preflight.candidate import Candidate

# Words of a class's name that make an id: GpuIdle gives gpu-idle, but GPUIdle would give g-p-u-idle.
NAME_OF_A_RULE = re.compile(r"(?!.*[A-Z]{3})([A-Z][a-z0-9]*)+")
WHAT_THE_KEY_HOLDS: Final = object()

Findings = Iterator[Finding]
Parts = Iterable[tuple[Any, ...]]


class RuleNameError(TypeError):
    """A rule's name gives no id, or the id of another rule."""


class Rule(ABC):
    """One kind of mistake that would fail, or do harm, only after minutes of deploying.

    The docstring gives the reason and the source. The id is the class's name: GpuIdle is gpu-idle.
    """

    id: ClassVar[str] = ""
    severity: ClassVar[Severity] = Severity.ERROR
    acknowledgeable: ClassVar[bool] = False
    """Whether `[acknowledge]` may accept a finding: every warning, and errors that AWS would not refuse."""
    example: ClassVar[str] = ""
    """Lines of an environment file that violate the rule; a comment if it needs files."""

    # The texts of the rule's findings, as far as they are always the same: templates of `str.format`
    # for `self`, `key` and the values that are given to `finding`.
    key: ClassVar[str] = ""
    problem: ClassVar[str] = ""
    allowed: ClassVar[str] = ""
    remedy: ClassVar[str] = ""
    reads: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if NAME_OF_A_RULE.fullmatch(cls.__name__) is None:
            raise RuleNameError(
                f"{cls.__module__}.{cls.__name__}: a rule's id is derived from its class's name; write "
                "the name in CamelCase, such as GpuIdle"
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
        self.loaded, self.environment = candidate.loaded, candidate.environment

    def check(self) -> Findings:
        """Yields a finding for every key that violates the rule."""
        for part in self.parts():
            yield from self.look(*part)

    def parts(self) -> Parts:
        """The arguments of `look`, for each part of the file that the rule is about."""
        return [()]

    @abstractmethod
    def look(self, *part: Any, **_: Any) -> Findings:
        """Yields a finding for everything about this part that violates the rule."""

    def finding(
        self,
        key: str | None = None,
        problem: str | None = None,
        *,
        given: Any = WHAT_THE_KEY_HOLDS,
        allowed: str | None = None,
        remedy: str | None = None,
        reads: tuple[str, ...] | None = None,
        **values: Any,
    ) -> Finding:
        """A finding of this rule; a text that is left out is the class's.

        `given` is needed only if it differs from the key's value: chosen, counted, or one of a list.
        """
        key = self.key.format(**values) if key is None else key
        values |= {"self": self, "key": key}
        if reads is None:
            reads = tuple(other.format(**values) for other in self.reads)
        return Finding(
            rule=self.id,
            severity=self.severity,
            file=self.loaded.origin(key),
            key=key,
            given=self.candidate.value_of(key) if given is WHAT_THE_KEY_HOLDS else given,
            problem=self.problem.format(**values) if problem is None else problem,
            allowed=self.allowed.format(**values) if allowed is None else allowed,
            remedy=self.remedy.format(**values) if remedy is None else remedy,
            acknowledgeable=self.acknowledgeable,
            reads=reads,
        )

    def not_checked(self, key: str, needs: str, question: str) -> Finding:
        """Return the finding that the rule lacks an input. `question`: what stays open, "whether …"."""
        remedy = f"give {needs}"
        finding = self.finding(key, question, given=None, allowed="", remedy=remedy, reads=())
        return replace(finding, severity=Severity.NOT_CHECKED, acknowledgeable=False)

    @classmethod
    def why(cls) -> str:
        """The docstring without its source, on one line."""
        return " ".join(inspect.cleandoc(cls.__doc__ or "").split("Source:")[0].split())

    @classmethod
    def source(cls) -> str:
        """The docstring's source; empty if the rule is about the file itself."""
        match = re.search(r"Source:(.*)", inspect.cleandoc(cls.__doc__ or ""), re.DOTALL)
        return " ".join(match[1].split()) if match else ""


class ModelRule(Rule):
    """A rule about each model: `look` takes its name and the model."""

    def parts(self) -> Parts:
        return self.environment.models.items()


class EachVariantRule(Rule):
    """A rule about each variant: `look` takes its name and the variant."""

    def parts(self) -> Parts:
        return self.environment.variants.items()


class InstanceRule(Rule):
    """A rule about each known instance type: `look` takes its key, its variant's name and the type."""

    def parts(self) -> Parts:
        return ((key, *named) for key, named in self.candidate.instances.items())


class VariantTableRule(Rule):
    """A rule about the variants and components that have a table or key: `look` takes names, them and it.

    The name of a component is that of its table: VARIANT.components.NAME.
    """

    table: ClassVar[str]
    """Key in [variants.NAME]."""

    def parts(self) -> Parts:
        for name, variant in self.environment.tables.items():
            if (table := getattr(variant, self.table)) is not None:
                yield name, variant, table


class VariantRule(Rule):
    """A rule about one variant on its instance type."""

    def parts(self) -> Parts:
        return ((placement,) for placement in self.candidate.placements)

    def size_unknown(self, placement: Placement) -> Findings:
        """Yields "not checked" if the file does not give the model's size; bad folders are reported
        by other rules."""
        key = f"models.{placement.variant.model}"
        question = "whether the model fits in memory and on disk"
        if placement.model.artifact is not None:
            yield self.not_checked(f"{key}.artifact", f"{key}.artifact.size_gib", question)
        elif placement.model.multi_model is not None:
            needs = "a load test: which of the models are loaded together is not known"
            yield self.not_checked(f"{key}.multi_model", needs, question)


class ContainerRule(VariantRule):
    """A rule about one container on its instance type: that of a variant, or of a batch."""

    def parts(self) -> Parts:
        return ((placement,) for placement in self.candidate.containers)


def discovered(package: str = "infra.preflight") -> tuple[type[Rule], ...]:
    """Every rule of the modules in the package's folders, sorted by id. Raises RuleNameError.

    They are sorted so that the output does not depend on the file in which a rule is.
    """
    rules: dict[str, type[Rule]] = {}
    folder = importlib.import_module(package).__path__
    for module in pkgutil.walk_packages(folder, f"{package}."):
        if module.ispkg or module.name.count(".") == package.count(".") + 1:
            continue  # the package's own modules, which are about rules
        for rule in vars(importlib.import_module(module.name)).values():
            if not (isinstance(rule, type) and issubclass(rule, Rule)):
                continue
            # Base classes of rules are not rules themselves, abstract or not.
            if inspect.isabstract(rule) or rule.__subclasses__():
                continue
            other = rules.setdefault(rule.id, rule)
            if other is not rule:
                raise RuleNameError(
                    f"{rule.id} is the id of two rules, in {other.__module__} and "
                    f"{rule.__module__}; rename one of them"
                )
    return tuple(rules[name] for name in sorted(rules))


def artifact_example(*lines: str, size_gib: int | None = None, folder: str = "run-17") -> str:
    """An example with an archive in S3 and a placeholder as its hash; `lines` follow it."""
    size = "" if size_gib is None else f", size_gib = {size_gib}"
    uri = f"s3://models/{folder}/model.tar.gz"
    artifact = f'models.ranker.artifact = {{ uri = "{uri}", sha256 = "{"a" * 64}"{size} }}'
    return "\n".join((artifact, *lines))
