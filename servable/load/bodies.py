"""The request bodies of a load test: golden, captured, or from any file, with weights."""

import dataclasses
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from infra.parameters.loading import ValidFile
from infra.parameters.rollout import CONTENT_TYPES
from model_packaging.refusal import PackagingError
from servable.captured.lines import AnswerAloneError, CaptureLineError, read_line
from servable.measured.measurement import Body, LoadError
from servable_tensors.trace_context import split_trace

# Golden requests have no named arrays: their responses are compared as JSON, .npy, or protobuf.
_CONTENT_TYPES = {**CONTENT_TYPES, ".npz": "application/x-npz"}
STDIN = Path("-")
# A line of data capture has this key.
# Source: https://docs.aws.amazon.com/sagemaker/latest/dg/model-monitor-data-capture-endpoint.html
_CAPTURED = b'"captureData"'


def load_bodies(
    files: Sequence[str],
    *,
    content_type: str | None,
    loaded: ValidFile | None,
    variant: str | None = None,
) -> tuple[list[Body], tuple[str, ...]]:
    """Return (bodies, descriptions of where they come from). Raises LoadError, PackagingError.

    `files`: each is FILE or FILE=WEIGHT; by default, the warm_up requests of the model of
    `variant`, or of the first variant, and without them its golden request.
    """
    bodies: list[Body] = []
    names = []
    for option in files or _list_model_requests(loaded, variant):
        file, weight = _parse_weight(option)
        read_bodies = load_body_file(file, content_type=content_type, weight=weight)
        bodies += read_bodies
        share = f", weight {weight:g}" if weight != 1 else ""
        names.append(f"{len(read_bodies)} of {file.name} ({read_bodies[0].content_type}{share})")
    return bodies, tuple(names)


def _parse_weight(option: str) -> tuple[Path, float]:
    name, equals, weight = option.rpartition("=")
    if equals and not Path(option).exists():
        with suppress(ValueError):
            if 0 < float(weight) < float("inf"):
                return Path(name), float(weight)
        raise LoadError(
            f"--body {option}: {weight!r} isn't a weight; write a number above 0, as FILE=3"
        )
    return Path(option), 1.0


def _list_model_requests(loaded: ValidFile | None, variant: str | None) -> list[str]:
    if loaded is None:
        raise LoadError("no request to send; pass --body FILE")
    environment = loaded.environment
    served = environment.serving_variants
    first = served.get(variant or "", next(iter(served.values())))
    model = environment.models[first.model]
    files = [str(request.path) for request in model.warm_up if request.path.suffix == ".json"]
    if not files and model.golden:
        files = [str(model.golden.request.path)]
    if not files:
        problem = f"models.{first.model} has no request to send: it has neither warm_up nor golden"
        remedy = f"pass --body FILE, or set models.{first.model}.golden"
        raise PackagingError(Path(loaded.file), problem, remedy)
    return files


def load_body_file(
    file: Path, *, content_type: str | None = None, weight: float = 1.0
) -> list[Body]:
    """Read the bodies of one file; their weights add up to `weight`. Raises LoadError.

    A SageMaker data-capture file contains one body per line; any other file is one body.
    """
    try:
        content = file.read_bytes() if file != STDIN else sys.stdin.buffer.read()
    except OSError as error:
        raise LoadError(f"{file}: cannot be read: {error.strerror}") from None
    if content_type is None and _CAPTURED in content[:65536]:
        captured = list(_read_captured_bodies(file, content))
        if not captured:
            raise LoadError(
                f"{file}: the records contain no captured input; capture Input, not only Output"
            )
        return [dataclasses.replace(body, weight=weight / len(captured)) for body in captured]
    kind = content_type or _CONTENT_TYPES.get(".json" if file == STDIN else file.suffix)
    if kind is None:
        known = ", ".join(_CONTENT_TYPES)
        raise LoadError(f"{file}: pass --content-type, or a file that ends in {known}")
    if not content:
        raise LoadError(f"{file}: the file is empty; pass a request that the model accepts")
    return [Body(content=content, content_type=kind, weight=weight)]


def _read_captured_bodies(file: Path, content: bytes) -> Iterator[Body]:
    for number, line in enumerate(content.splitlines(keepends=True), start=1):
        if not line.strip():
            continue
        try:
            request = read_line(line, file=str(file), number=number)
        except AnswerAloneError:
            continue  # only responses were captured there
        except CaptureLineError as error:
            raise LoadError(f"{file}, line {number}: {error}") from None
        # A request sent again isn't part of the trace in which it was captured.
        attributes = split_trace(request.custom_attributes or "")[0]
        yield Body(
            content=request.body,
            content_type=request.content_type,
            custom_attributes=attributes or None,
            accept=request.accept,
            target_model=request.target_model,
        )
