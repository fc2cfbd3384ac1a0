"""Search space over instance types: each type's settings, in one space."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from infra.parameters.loading import ValidFile
from infra.parameters.placement import Placement, placements
from infra.preflight.check import check, errors
from servable.load.load_target import Body
from servable.tune.container_space import current, grid, settings_at, space
from servable.tune.search.space import INSTANCE_TYPE, Point, Space, Value
from servable.tune.search.start import rules_of_thumb


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The environment with its variant on one instance type."""

    loaded: ValidFile
    placement: Placement

    def at(self, point: Point) -> ValidFile:
        """Return the environment with a point's settings in the place of the variant's own."""
        return _changed(
            self.loaded, self.placement.name, container=settings_at(point, self.placement)
        )


@dataclass(frozen=True, kw_only=True)
class Machines:
    """`kinds`: instance type -> its vCPUs and memory, today's first."""

    today: str
    kinds: Mapping[str, Machine]
    space: Space
    left_out: Mapping[str, str] = field(default_factory=dict)
    """setting -> why it is not tried on today's."""

    def of(self, point: Point) -> Machine:
        return self.kinds[self.kind_of(point)]

    def kind_of(self, point: Point) -> str:
        return str(point.get(INSTANCE_TYPE, self.today))

    def larger(self, point: Point) -> float:
        """Return the point's vCPUs as a multiple of today's."""
        today = self.kinds[self.today].placement.instance.vcpus
        return self.of(point).placement.instance.vcpus / today

    @property
    def wanted(self) -> list[Point]:
        """Points to try first: today's settings, then rules of thumb, each for every type in turn."""
        by_kind = [
            [
                {**point, INSTANCE_TYPE: kind}
                for point in rules_of_thumb(self.space, vcpus=machine.placement.instance.vcpus)
            ]
            for kind, machine in self.kinds.items()
        ]
        inherited = {**current(self.kinds[self.today].placement), INSTANCE_TYPE: self.today}
        return [inherited, *(point for several in zip(*by_kind, strict=True) for point in several)]


def machines(
    loaded: ValidFile,
    placement: Placement,
    *,
    only: tuple[str, ...] = (),
    instance_types: Sequence[str] = (),
    bodies: Sequence[Body] = (),
) -> Machines:
    """Raises ValueError for a type that does not exist, or that `servable check` would refuse."""
    today = str(placement.variant.instance_type)
    kinds = {today: Machine(loaded=loaded, placement=placement)}
    allowed = {finding.rule for finding in errors(check(loaded))}
    for kind in instance_types:
        if kind not in kinds:
            kinds[kind] = _on(loaded, placement, kind, allowed)
    spaces = {kind: space(one.loaded, one.placement, only, bodies) for kind, one in kinds.items()}
    left_out = grid(loaded, placement, bodies).left_out
    together = _together(spaces, kinds) if instance_types else spaces[today]
    return Machines(today=today, kinds=kinds, space=together, left_out=left_out)


def _on(loaded: ValidFile, placement: Placement, kind: str, allowed: set[str]) -> Machine:
    name, today = placement.name, placement.instance
    other = _changed(loaded, name, instance_type=kind)
    wrong = [finding for finding in errors(check(other)) if finding.rule not in allowed]
    placed = [place for place in placements(other.environment) if place.name == name]
    if wrong or not placed:
        why = "; ".join(map(str, wrong)) or "no instance type of SageMaker's that is known"
        raise ValueError(f"{kind}: {why}")
    if placed[0].instance.device != today.device:
        raise ValueError(
            f"{kind}: is of another kind ({placed[0].instance.device}) than {today.name} "
            f"({today.device}), whose image is copied; deploy it on {kind} first, then tune that"
        )
    return Machine(loaded=other, placement=placed[0])


def _together(spaces: Mapping[str, Space], kinds: Mapping[str, Machine]) -> Space:
    """Every type's own points; a value that only another type has is no choice on this one."""
    names = {part.names for part in spaces.values()}
    if len(names) > 1:
        raise ValueError(f"{', '.join(spaces)}: their containers have different settings")
    by_size = sorted(kinds, key=lambda kind: kinds[kind].placement.instance.vcpus)
    grid: dict[str, tuple[Value, ...]] = {INSTANCE_TYPE: tuple(by_size)}
    for name in names.pop():
        values = {
            (type(value).__name__, value): value
            for part in spaces.values()
            for value in part.grid[name]
        }
        # None is off, and comes first.
        grid[name] = tuple(sorted(values.values(), key=lambda v: (v is not None, v or 0)))
    points: list[Point] = [
        {INSTANCE_TYPE: kind, **part.point(number)}
        for kind, part in spaces.items()
        for number in range(len(part))
    ]
    return Space(grid, points)


def _changed(loaded: ValidFile, name: str, **what: object) -> ValidFile:
    environment = loaded.environment
    variants = {**environment.variants, name: environment.variants[name].model_copy(update=what)}
    changed = environment.model_copy(update={"variants": variants})
    return dataclasses.replace(loaded, draft=changed)
