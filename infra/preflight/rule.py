"""Define the environment that rules check, the base classes of rules, and the discovery of all rules."""

import contextlib
import functools
import importlib
import inspect
import pkgutil
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Final

from pydantic import BaseModel

from infra.catalog.images import OpTable
from infra.catalog.instances import Instance, instances
from infra.packing import packed_together, servable
from infra.parameters.batch.job import BatchJob, batch_jobs
from infra.parameters.environment import Environment
from infra.parameters.finding import Finding, Severity
from infra.parameters.loading import Loaded
from infra.parameters.placement import Placement, placements
from infra.preflight.graph_faults import GraphFault, graph_faults
from model_packaging.inputs import wants_ours
from model_packaging.refusal import PackagingError
from model_packaging.saved_model import SavedModelInfo, read
from model_packaging.saved_model.graph_file import GraphOperations
from model_packaging.saved_model.operations import operations


@dataclass(frozen=True)
class Candidate:
    """An environment that is to be deployed. What several rules derive from it is computed once."""

    loaded: Loaded
    environment: Environment
    """The environment, or the draft: the valid rest of a file with invalid keys."""
    _graph_faults: dict[tuple[Path, str, bool], tuple[GraphFault, ...]] = field(
        default_factory=dict
    )

    def value_of(self, key: str) -> Any:
        """The file's value of a dotted key; None for a table and for a key that is not there."""
        value: Any = self.environment
        for part in key.split("."):
            value = value.get(part) if isinstance(value, dict) else getattr(value, part, None)
        return None if isinstance(value, BaseModel | dict) else value

    @property
    def in_production(self) -> bool:
        """Whether rules about redundancy apply. They do not to queues and serverless variants."""
        stated = self.environment.production
        production = self.loaded.name.lower().startswith("prod") if stated is None else stated
        return production and not self.environment.kind.may_be_empty

    @cached_property
    def placements(self) -> tuple[Placement, ...]:
        """The variants whose instance type and model are known."""
        return placements(self.environment)

    @cached_property
    def batch_jobs(self) -> tuple[BatchJob, ...]:
        """The batches whose instance type and model are known."""
        return batch_jobs(self.environment)

    @cached_property
    def containers(self) -> tuple[Placement, ...]:
        """The variants and the batches whose instance type and model are known."""
        return (*self.placements, *(job.deployed for job in self.batch_jobs))

    @cached_property
    def instance_keys(self) -> Mapping[str, tuple[str, str]]:
        """Dotted key of every instance type of the file, to its variant's name and the type."""
        keys = {}
        for name, variant in self.environment.variants.items():
            if variant.instance_type is not None:
                keys[f"variants.{name}.instance_type"] = name, variant.instance_type
            for number, pool in enumerate(variant.instance_pools or ()):
                key = f"variants.{name}.instance_pools.{number}.instance_type"
                keys[key] = name, pool.instance_type
        return keys

    @cached_property
    def instances(self) -> Mapping[str, tuple[str, Instance]]:
        """Dotted key of every known instance type, to its variant's name and the type."""
        return {
            key: (name, instances()[kind])
            for key, (name, kind) in self.instance_keys.items()
            if kind in instances()
        }

    @cached_property
    def code_folders(self) -> Mapping[str, Path]:
        """Model name to code folder, for folders with a handler or with hooks for Servable's.

        A folder that has neither, or cannot be read, is a finding of Artefact.
        """
        folders = {}
        for name, model in self.environment.models.items():
            if model.code:
                folder = model.code.path
                with contextlib.suppress(OSError):
                    if (folder / "inference.py").is_file() or wants_ours(folder):
                        folders[name] = folder
        return folders

    def version_folders(self, model: str) -> tuple[Path, ...]:
        """Version folders of a model that is packed here; empty if unreadable, which Artefact reports."""
        if self.environment.models[model].saved_model is None:
            return ()
        packed = servable(model, self.environment.models[model])
        try:
            return tuple(packed.versions().values())
        except (PackagingError, OSError, RuntimeError):
            return ()

    def max_batch_size(self, model: str) -> int | None:
        """The smallest max_batch_size of the variants that serve the model; None if none batches."""
        sizes = [
            placement.variant.container.batching.max_batch_size
            for placement in self.placements
            if placement.variant.container.batching is not None
            and model in self.served_by(placement)
        ]
        return min(sizes, default=None)

    def served_by(self, placement: Placement) -> list[str]:
        """The models that the variant's model servers load; the default one is first."""
        members = placement.model.multi_model
        if members is not None:
            return [member for member in members if member in self.environment.models]
        return packed_together(self.environment, placement.variant.model)

    @cached_property
    def saved_model(self) -> Callable[[Path], SavedModelInfo]:
        """Reads the SavedModel of a version folder. Raises `PackagingError`, OSError."""
        return functools.cache(read)

    def saved_models(self, model: str) -> Iterator[tuple[Path, SavedModelInfo]]:
        """(version folder, SavedModel) of every version that is packed here and can be read."""
        for folder in self.version_folders(model):
            try:
                info = self.saved_model(folder)
            except (PackagingError, OSError):
                continue  # the rule SavedModel reports it
            yield folder, info

    @cached_property
    def graph(self) -> Callable[[Path], GraphOperations]:
        """Reads the operations of a version folder's graph. Raises `PackagingError`, OSError."""
        return functools.cache(partial(operations, cache=self.loaded.root / ".servable"))

    def graph_faults(self, folder: Path, table: OpTable, *, cpu: bool) -> tuple[GraphFault, ...]:
        """Faults of that graph under the TensorFlow of `table`, computed once for all rules."""
        key = (folder, table.version, cpu)
        if key not in self._graph_faults:
            self._graph_faults[key] = tuple(graph_faults(self.graph(folder), table, cpu=cpu))
        return self._graph_faults[key]


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
