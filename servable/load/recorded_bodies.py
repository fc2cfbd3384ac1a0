"""What `servable load` sends: the files that are given, or what warms the model up."""

from collections.abc import Sequence
from pathlib import Path

from infra.parameters.loading import Loaded
from model_packaging.refusal import PackagingError
from servable.load.bodies import Body, BodyError, read


def bodies_of(
    files: Sequence[str], *, content_type: str | None, loaded: Loaded | None
) -> tuple[list[Body], list[str]]:
    """(bodies, what they are called). `files`: FILE, or FILE=WEIGHT. Raises BodyError, Refusal.

    Left out: the requests with which the environment's model is warmed up.
    """
    if not files:
        files = _warm_up(loaded)
    bodies: list[Body] = []
    names = []
    for one in files:
        file, weight = _weighed(one)
        found = read(file, content_type=content_type, weight=weight)
        bodies += found
        share = f", weight {weight:g}" if weight != 1 else ""
        names.append(f"{len(found)} of {file.name} ({found[0].content_type}{share})")
    return bodies, names


def _weighed(one: str) -> tuple[Path, float]:
    name, equals, weight = one.rpartition("=")
    if equals and not Path(one).exists():
        try:
            number = float(weight)
        except ValueError:
            raise BodyError(f"--body {one}: {weight!r} is no weight; write FILE=3") from None
        if not 0 < number < float("inf"):
            raise BodyError(f"--body {one}: a weight is a number above 0")
        return Path(name), number
    return Path(one), 1.0


def _warm_up(loaded: Loaded | None) -> list[str]:
    environment = loaded.environment if loaded else None
    if loaded is None or environment is None:
        raise BodyError("there is nothing to send; give --body FILE")
    first = next(iter(environment.variants.values()))
    found = environment.models[first.model].warm_up
    files = [str(loaded.root / one) for one in found or [] if Path(one).suffix == ".json"]
    if not files:
        problem = f"models.{first.model} has no warm_up requests to send"
        raise PackagingError(Path(loaded.file), problem, "give --body FILE, or write warm_up")
    return files
