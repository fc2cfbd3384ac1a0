"""The environment that rules check, with values that several rules derive from it."""

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from infra.catalog.images import OpTable
from infra.catalog.instances import Instance, instances
from infra.packing import packed_together, servable
from infra.parameters.batch.job import BatchJob, batch_jobs
from infra.parameters.environment import Environment
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
