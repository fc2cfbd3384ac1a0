"""The environment that rules look at, with what several of them derive from it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from infra.catalog.instances import Instance, instances
from infra.catalog.ops import OpTable
from infra.packing import packed_together, servable
from infra.parameters.environment import Environment
from infra.parameters.loading import Loaded
from infra.parameters.placement import Placement, placements
from infra.preflight.graph_faults import GraphFault, graph_faults
from model_packaging.refusal import PackagingError
from model_packaging.request_path import wants_ours
from model_packaging.saved_model import SavedModelInfo, read
from model_packaging.saved_model.operations import GraphOperations, operations


@dataclass(frozen=True)
class Candidate:
    """An environment that shall be deployed, with what several rules derive from it, once."""

    loaded: Loaded
    environment: Environment
    """The draft: the rest of a file with problems of shape."""
    _saved_models: dict[Path, SavedModelInfo] = field(default_factory=dict)
    _graphs: dict[Path, GraphOperations] = field(default_factory=dict)
    _graph_faults: dict[tuple[Path, str, bool], tuple[GraphFault, ...]] = field(
        default_factory=dict
    )

    def value_of(self, key: str) -> Any:
        """What the file has under a dotted key; None for a table, and for what is not there."""
        value: Any = self.environment
        for part in key.split("."):
            value = value.get(part) if isinstance(value, dict) else getattr(value, part, None)
        return None if isinstance(value, BaseModel | dict) else value

    @property
    def in_production(self) -> bool:
        """Whether redundancy is asked for: a queue waits, and a serverless container has no zone."""
        stated = self.environment.production
        production = self.loaded.name.lower().startswith("prod") if stated is None else stated
        return production and not self.environment.kind.may_be_empty

    @cached_property
    def placements(self) -> tuple[Placement, ...]:
        """The variants whose instance type and model are known."""
        return placements(self.loaded, self.environment)

    @cached_property
    def instances(self) -> Mapping[str, Instance]:
        """By variant: instance types that are named and known."""
        named = {name: one.instance_type or "" for name, one in self.environment.variants.items()}
        return {name: instances()[kind] for name, kind in named.items() if kind in instances()}

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

    def max_batch_size(self, model: str) -> int | None:
        """The smallest of the variants whose archive holds the model; None: none of them batches."""
        sizes = [
            one.variant.container.batching.max_batch_size
            for one in self.placements
            if one.variant.container.batching is not None and model in self.served_by(one)
        ]
        return min(sizes, default=None)

    def served_by(self, placement: Placement) -> list[str]:
        """The models that the variant's model servers load, the one that answers by default first."""
        members = placement.model.multi_model
        if members is not None:
            return [one for one in members if one in self.environment.models]
        return packed_together(self.environment, placement.variant.model)

    def saved_model(self, folder: Path) -> SavedModelInfo:
        """What a version folder holds. Raises `PackagingError`, OSError."""
        if folder not in self._saved_models:
            self._saved_models[folder] = read(folder)
        return self._saved_models[folder]

    def graph(self, folder: Path) -> GraphOperations:
        """What a version folder's graph is made of. Raises `PackagingError`, OSError."""
        if folder not in self._graphs:
            self._graphs[folder] = operations(folder, cache=self.loaded.root / ".servable")
        return self._graphs[folder]

    def graph_faults(self, folder: Path, table: OpTable, *, cpu: bool) -> tuple[GraphFault, ...]:
        """What the TensorFlow of `table` makes of that graph: looked for once, for all rules."""
        key = (folder, table.version, cpu)
        if key not in self._graph_faults:
            self._graph_faults[key] = tuple(graph_faults(self.graph(folder), table, cpu=cpu))
        return self._graph_faults[key]


def _has_code(folder: Path) -> bool:
    try:
        return (folder / "inference.py").is_file() or wants_ours(folder)
    except OSError:
        return False
