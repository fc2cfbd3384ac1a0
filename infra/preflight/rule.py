"""Define the environment that rules check, the base classes of rules, and the discovery of all rules."""

import contextlib
import functools
import importlib
import inspect
import pkgutil
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Final

from pydantic import BaseModel

from infra.catalog.images import OpTable
from infra.catalog.instances import Instance, load_instances
from infra.packing import build_servable, list_packed_models
from infra.parameters.batch.job import BatchJob, list_batch_jobs
from infra.parameters.environment import Environment
from infra.parameters.finding import Finding, Severity
from infra.parameters.loading import Loaded
from infra.parameters.placement import Placement, list_placements
from infra.preflight.graph_faults import GraphFault, find_graph_faults
from model_packaging.inputs import needs_our_handler
from model_packaging.refusal import PackagingError
from model_packaging.saved_model.graph_file import GraphOperations
from model_packaging.saved_model.operations import read_operations
from model_packaging.saved_model.reading import SavedModelInfo, read


@dataclass(frozen=True)
class Candidate:
    """An environment to deploy. Values that several rules derive from it are computed once."""

    loaded: Loaded
    environment: Environment
    """The environment, or the draft: the valid rest of a file with invalid keys."""

    def find_value(self, key: str) -> Any:
        """Return the file's value of a dotted key, or None for a table and for a missing key."""
        value: Any = self.environment
        for part in key.split("."):
            value = value.get(part) if isinstance(value, dict) else getattr(value, part, None)
        return None if isinstance(value, BaseModel | dict) else value

    @property
    def needs_redundancy(self) -> bool:
        """Return whether redundancy rules apply. They don't for queues and serverless."""
        stated = self.environment.production
        production = self.loaded.name.lower().startswith("prod") if stated is None else stated
        return production and not self.environment.kind.can_be_empty

    @property
    def model_names(self) -> list[str]:
        """Return the names of the file's models, including those with a problem."""
        written = self.loaded.source.values.get("models", {})
        return sorted(written) if isinstance(written, dict) else []

    @cached_property
    def placements(self) -> tuple[Placement, ...]:
        """Return the variants whose instance type and model are known."""
        return list_placements(self.environment)

    @cached_property
    def batch_jobs(self) -> tuple[BatchJob, ...]:
        """Return the batches whose instance type and model are known."""
        return list_batch_jobs(self.environment)

    @cached_property
    def containers(self) -> tuple[Placement, ...]:
        """Return the variants and the batches whose instance type and model are known."""
        return (*self.placements, *(job.deployed_placement for job in self.batch_jobs))

    @cached_property
    def instance_keys(self) -> Mapping[str, tuple[str, str]]:
        """Return a dict from the dotted key of every instance type to variant and type."""
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
        """Return a dict from the dotted key of every known instance type to variant and type."""
        return {
            key: (name, load_instances()[kind])
            for key, (name, kind) in self.instance_keys.items()
            if kind in load_instances()
        }

    @cached_property
    def code_folders(self) -> Mapping[str, Path]:
        """Return a dict from model to code folder, for folders with a handler or with hooks.

        The hooks are for Servable's handler. The rule Artefact reports a folder that has neither,
        or that can't be read.
        """
        folders = {}
        for name, model in self.environment.models.items():
            if model.code:
                folder = model.code.path
                with contextlib.suppress(OSError):
                    if (folder / "inference.py").is_file() or needs_our_handler(folder):
                        folders[name] = folder
        return folders

    def find_version_folders(self, model: str) -> tuple[Path, ...]:
        """Return a packed model's version folders; none if unreadable, which Artefact reports."""
        if self.environment.models[model].saved_model is None:
            return ()
        packed = build_servable(model, self.environment.models[model])
        try:
            return tuple(packed.find_versions().values())
        except (PackagingError, OSError, RuntimeError):
            return ()

    def find_max_batch_size(self, model: str) -> int | None:
        """Return the smallest max_batch_size of the variants that serve the model, or None."""
        sizes = [
            placement.variant.container.batching.max_batch_size
            for placement in self.placements
            if placement.variant.container.batching is not None
            and model in self.list_served_models(placement)
        ]
        return min(sizes, default=None)

    def list_served_models(self, placement: Placement) -> list[str]:
        """Return the models that the variant's model servers load, the default one first."""
        members = placement.model.multi_model
        if members is not None:
            return [member for member in members if member in self.environment.models]
        return list_packed_models(self.environment, placement.variant.model)

    @cached_property
    def read_saved_model(self) -> Callable[[Path], SavedModelInfo]:
        """Return the cached reader of SavedModel folders. It raises `PackagingError`, OSError."""
        return functools.cache(read)

    def read_saved_models(self, model: str) -> Iterator[tuple[Path, SavedModelInfo]]:
        """Yield (version folder, SavedModel) of every readable version that is packed here."""
        for folder in self.find_version_folders(model):
            try:
                info = self.read_saved_model(folder)
            except (PackagingError, OSError):
                continue  # the rule SavedModel reports it
            yield folder, info

    @cached_property
    def read_graph(self) -> Callable[[Path], GraphOperations]:
        """Return the cached reader of folders' graphs. It raises `PackagingError`, OSError."""
        return functools.cache(partial(read_operations, cache=self.loaded.root / ".servable"))

    @cached_property
    def find_graph_faults(self) -> Callable[[Path, OpTable, bool], tuple[GraphFault, ...]]:
        """Return the cached finder of the faults of a folder's graph, with or without a GPU."""
        return functools.cache(
            lambda folder, table, cpu: tuple(
                find_graph_faults(self.read_graph(folder), table, cpu=cpu)
            )
        )


WHAT_THE_KEY_HOLDS: Final = object()

Findings = Iterator[Finding]
Parts = Iterable[tuple[Any, ...]]


class Rule(ABC):
    """One kind of mistake that would fail, or do harm, only minutes into a deployment.

    The docstring gives the reason and the source. The ID is the class's name in CamelCase:
    GpuIdle is gpu-idle. A rule states its severity, and whether an error is acknowledgeable, in its
    class statement: `class GpuIdle(GpuRule, acknowledgeable=True)`.
    """

    id: ClassVar[str] = ""
    severity: ClassVar[Severity] = Severity.ERROR
    acknowledgeable: ClassVar[bool] = False
    """Whether `[acknowledge]` may accept a finding: every warning, and errors that AWS wouldn't reject."""
    example: ClassVar[str] = ""
    """A line that violates the rule, for the reference; empty if its text names the key already."""

    # The texts of the rule's findings, as far as they are always the same: templates of `str.format` for
    # `self`, the parameters of `find_problems`, and the values that are given to `build_finding`.
    key: ClassVar[str] = ""
    problem: ClassVar[str] = ""
    allowed: ClassVar[str] = ""
    remedy: ClassVar[str] = ""
    reads: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(
        cls, *, severity: Severity | None = None, acknowledgeable: bool = False
    ) -> None:
        super().__init_subclass__()
        cls.id = re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower()
        cls.severity = severity or cls.severity
        cls.acknowledgeable |= acknowledgeable or cls.severity is Severity.WARNING

    def __init__(self, candidate: Candidate) -> None:
        self.candidate = candidate
        self.loaded, self.environment = candidate.loaded, candidate.environment
        self.part: dict[str, Any] = {}
        """The arguments of `find_problems` for the part of the file that is checked now, by name."""

    def check(self) -> Findings:
        """Yield a finding for every key that violates the rule."""
        names = self.find_problems.__code__.co_varnames[1:]  # inspect.signature is slow
        for part in self.list_parts():
            self.part = dict(zip(names, part, strict=False))
            yield from self.find_problems(*part)

    def list_parts(self) -> Parts:
        """Return the arguments of `find_problems` for each part of the file to check."""
        return [()]

    @abstractmethod
    def find_problems(self, *part: Any, **_: Any) -> Findings:
        """Yield a finding for each violation of the rule in this part of the file."""

    def build_finding(
        self,
        key: str | None = None,
        problem: str | None = None,
        *,
        given: Any = WHAT_THE_KEY_HOLDS,
        allowed: str | None = None,
        remedy: str | None = None,
        reads: tuple[str, ...] | None = None,
        severity: Severity | None = None,
        subject: str = "",
        **values: Any,
    ) -> Finding:
        """Build a finding of this rule. An omitted text is taken from the class.

        `given` is needed only if it differs from the key's value: chosen, counted, or one of a
        list. In a rule about a placement, a key that begins with no table of the file is a key of
        the placement's table.
        """
        values = {**self.part, **values, "self": self}
        key = self._resolve_key(self.key.format(**values) if key is None else key)
        if reads is None:
            reads = tuple(other.format(**values) for other in self.reads)
        return Finding(
            rule=self.id,
            subject=subject,
            severity=severity or self.severity,
            file=self.loaded.find_origin(key),
            key=key,
            given=self.candidate.find_value(key) if given is WHAT_THE_KEY_HOLDS else given,
            problem=self.problem.format(**values) if problem is None else problem,
            allowed=self.allowed.format(**values) if allowed is None else allowed,
            remedy=self.remedy.format(**values) if remedy is None else remedy,
            acknowledgeable=self.acknowledgeable,
            reads=tuple(map(self._resolve_key, reads)),
        )

    def _resolve_key(self, key: str) -> str:
        placement: Placement | None = self.part.get("placement")
        if placement is None or key.partition(".")[0] in Environment.model_fields:
            return key
        return placement.build_key(key)

    def build_unchecked(self, key: str, needs: str, question: str) -> Finding:
        """Build the finding that an input is missing. `question` begins with "whether"."""
        remedy = f"give {needs}"
        finding = self.build_finding(key, question, given=None, allowed="", remedy=remedy, reads=())
        return replace(finding, severity=Severity.NOT_CHECKED, acknowledgeable=False)

    @classmethod
    def read_reason(cls) -> str:
        """Return the docstring without its source, on one line."""
        return " ".join(inspect.cleandoc(cls.__doc__ or "").split("Source:")[0].split())

    @classmethod
    def read_source(cls) -> str:
        """Return the docstring's source, or "" if the rule is about the file itself."""
        match = re.search(r"Source:(.*)", inspect.cleandoc(cls.__doc__ or ""), re.DOTALL)
        return " ".join(match[1].split()) if match else ""


class ModelRule(Rule):
    """A rule about each model: `find_problems` takes its name and the model."""

    def list_parts(self) -> Parts:
        return self.environment.models.items()


class EachVariantRule(Rule):
    """A rule about each variant: `find_problems` takes its name and the variant."""

    def list_parts(self) -> Parts:
        return self.environment.variants.items()


class InstanceRule(Rule):
    """A rule about each known instance type.

    `find_problems` takes its key, its variant's name, and the type.
    """

    def list_parts(self) -> Parts:
        return ((key, *named) for key, named in self.candidate.instances.items())


class VariantTableRule(Rule):
    """A rule about the variants and components that have a certain table or key.

    `find_problems` takes the name, the variant, and the table. The name of a component is that of
    its table: VARIANT.components.NAME.
    """

    table: ClassVar[str]
    """Key in [variants.NAME]."""

    def list_parts(self) -> Parts:
        for name, variant in self.environment.variants_by_table.items():
            if (table := getattr(variant, self.table)) is not None:
                yield name, variant, table


class VariantRule(Rule):
    """A rule about one variant on its instance type."""

    def list_parts(self) -> Parts:
        return ((placement,) for placement in self.candidate.placements)

    def report_unknown_size(self, placement: Placement) -> Findings:
        """Yield "not checked" if the file doesn't give the model's size. Other rules report bad folders."""
        key = f"models.{placement.variant.model}"
        question = "whether the model fits in memory and on disk"
        if placement.model.artifact is not None:
            yield self.build_unchecked(f"{key}.artifact", f"{key}.artifact.size_gib", question)
        elif placement.model.multi_model is not None:
            needs = "the results of a load test; it is unknown which models are loaded together"
            yield self.build_unchecked(f"{key}.multi_model", needs, question)


class ContainerRule(VariantRule):
    """A rule about each container on its instance type, of a variant or of a batch."""

    def list_parts(self) -> Parts:
        return ((placement,) for placement in self.candidate.containers)


def discover_rules(package: str = "infra.preflight") -> tuple[type[Rule], ...]:
    """Return every rule of the modules in the package's folders, sorted by ID.

    Raises ValueError for two rules with one ID.
    """
    rules: dict[str, type[Rule]] = {}
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        if module.ispkg or module.name.count(".") == package.count(".") + 1:
            continue  # the package's own modules, which are about rules
        for rule in vars(importlib.import_module(module.name)).values():
            is_kind = isinstance(rule, type) and issubclass(rule, Rule)
            # Base classes of rules are not rules themselves, abstract or not.
            if not is_kind or inspect.isabstract(rule) or rule.__subclasses__():
                continue
            other = rules.setdefault(rule.id, rule)
            if other is not rule:
                modules = f"{other.__module__} and {rule.__module__}"
                raise ValueError(f"two rules have the id {rule.id}, in {modules}; rename one")
    return tuple(rules[name] for name in sorted(rules))
