"""`servable golden ENV --from-captured PLACE`: write a few captured requests as golden requests.

They cover every content type, JSON format, signature, set of inputs, and shape and type of an input
(without its rows); the fewest and the most rows; the largest body; and each input's least and greatest
number, shortest and longest string, NaN, and infinities. The requests are read once, and only candidates
stay in memory.
"""

import contextlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import tomlkit

from infra.parameters.model import Golden
from infra.parameters.rollout import CONTENT_TYPES
from infra.parameters.table import ProjectPath
from model_packaging.beside import write_atomically
from servable.answers.outputs import read_outputs
from servable.captured.lines import CapturedRequest
from servable.console.terminal import escape_name
from servable.measured.options import AS_JSON, LOCAL
from servable.project.account import open_account
from servable.project.completion import ENVIRONMENT
from servable.project.environment_edit import format_diff
from servable.project.environment_edit import write as write_file
from servable.project.environments import Project, pass_project
from servable.replay.index import CaptureIndex
from servable.replay.places import PlaceError, open_place
from servable.verdict import Verdict
from servable_tensors import wire
from servable_tensors.codecs import CODECS, JSON, PROTOBUF
from servable_tensors.records import parse_media_type
from servable_tensors.tensors import Array

# Clients may send endlessly many names and shapes.
MOST_KINDS = 200
_MOST_INPUTS = 50
# Keys of the two request formats of TensorFlow Serving's JSON -> keys of their responses.
_FORMS = {"instances": "predictions", "inputs": "outputs"}

Facet = tuple[str, ...]


class GoldenSelection:
    """A selection of requests: call `add` for every request, then `select`."""

    def __init__(self) -> None:
        self._candidates: dict[Facet, tuple[float, CapturedRequest]] = {}
        """The extreme, the smaller the better (for kinds the body's size), and its request."""

    def add(self, request: CapturedRequest) -> None:
        """Take a request into account. Raises nothing: a body in any format has facets."""
        for facet, extreme in find_facets(request).items():
            best, value = self._candidates.get(facet), extreme
            if value is None:
                value = float(len(request.body))
                if best is None and len(self._candidates) >= MOST_KINDS:
                    continue
            if best is None or value < best[0]:
                self._candidates[facet] = value, request

    def select(self, most: int) -> list[tuple[CapturedRequest, list[Facet]]]:
        """Return at most `most` requests, the widest first, each with the facets it adds."""
        several = {request.event_id: request for _, request in self._candidates.values()}
        covers = {event: self._find_covered(request) for event, request in several.items()}
        rest = set(self._candidates)
        selected: list[tuple[CapturedRequest, list[Facet]]] = []
        while rest and len(selected) < most:
            # Of several that cover as much, the smallest body comes first.
            event = min(covers, key=lambda e: (-len(covers[e] & rest), len(several[e].body), e))
            selected.append((several[event], sorted(covers[event] & rest)))
            rest -= covers[event]
        return selected

    def _find_covered(self, request: CapturedRequest) -> set[Facet]:
        facets, best = find_facets(request), self._candidates
        return {key for key, value in facets.items() if value is None or value <= best[key][0]}


def find_facets(request: CapturedRequest) -> dict[Facet, float | None]:
    """Return a request's kinds, each with None, and its extremes: the smaller, the more extreme."""
    media = parse_media_type(request.content_type)
    form, signature, inputs, rows = _read_request(request, media)
    facets: dict[Facet, float | None] = {
        ("content type", media): None,
        ("form", media, form): None,
        ("signature", signature): None,
        ("inputs", *sorted(inputs)): None,
        ("body", "largest"): -float(len(request.body)),
        ("rows", "fewest"): float(rows),
        ("rows", "most"): -float(rows),
    }
    for name, array in list(inputs.items())[:_MOST_INPUTS]:
        rest = array.shape[1:] if array.ndim and len(array) == rows else array.shape
        facets["shape", name, str(list(rest)), array.dtype.kind] = None
        facets |= {(name, what): value for what, value in _find_extremes(array)}
    return facets


def _find_extremes(array: Array) -> Iterator[tuple[str, float | None]]:
    if not array.size:
        yield "empty", None
    elif array.dtype.kind == "O":
        lengths = [len(value) for value in array.ravel().tolist()]
        yield "shortest", float(min(lengths))
        yield "longest", -float(max(lengths))
    elif array.dtype.kind in "fiu":
        finite = array[np.isfinite(array)]
        if finite.size:
            yield "least", float(finite.min())
            yield "greatest", -float(finite.max())
        if np.isnan(array).any():
            yield "NaN", None
        if np.isinf(array).any():
            yield "infinite", None


def _read_request(request: CapturedRequest, media: str) -> tuple[str, str, dict[str, Array], int]:
    """Return (format, signature, inputs, rows) of a request."""
    body, form, signature = request.body, "", ""
    if media == PROTOBUF:
        try:
            inputs = CODECS[PROTOBUF].read_inputs(body)
            signature = wire.PredictRequest.FromString(body).model_spec.signature_name
        except Exception:  # protobuf's errors have no common class
            inputs = {}
        sizes = {array.shape[:1] for array in inputs.values()}
        ((rows, *_),) = sizes if len(sizes) == 1 and () not in sizes else ((1,),)
        return form, signature, inputs, rows
    if media == JSON:
        body, form, signature = _convert_to_response(body)
    outputs = read_outputs(body, request.content_type)
    return form, signature, dict(outputs.arrays), outputs.rows


def _convert_to_response(body: bytes) -> tuple[bytes, str, str]:
    """Return a request's JSON as a response's JSON, its format, and the signature that it names.

    The format and signature are empty, and the body is unchanged, if it isn't TensorFlow
    Serving's JSON.
    """
    with contextlib.suppress(ValueError, RecursionError):
        parsed = json.loads(body)
        form = next((form for form in _FORMS if isinstance(parsed, dict) and form in parsed), "")
        if form:
            answer = json.dumps({_FORMS[form]: parsed[form]}).encode()
            return answer, form, str(parsed.get("signature_name", ""))
    return body, "", ""


_EXTENSIONS = {content_type: extension for extension, content_type in CONTENT_TYPES.items()}


def explain_unsuitable(request: CapturedRequest) -> str | None:
    """Return why a request can't be golden, sent with its content type alone; None if it can."""
    media = parse_media_type(request.content_type)
    if request.answer is None or request.answer.has_failed:
        return "without a successful response"
    if media not in _EXTENSIONS:
        return f"of content type {media}"
    if request.custom_attributes or request.target_model:
        return "with custom attributes or a target model"
    codec = CODECS.get(media)
    usual = (codec.own_answer or media) if codec else JSON
    answered = parse_media_type(request.answer.content_type)
    if answered not in (usual, media):
        return f"with a response in {answered} that its Accept header requested"
    return None


def build_golden_files(
    requests: Sequence[CapturedRequest], model: str, tolerance: float
) -> tuple[list[Golden], dict[str, bytes]]:
    """Return a table of each suitable request, and captured-N's and captured-N-answer's content."""
    tables, files = [], dict[str, bytes]()
    for number, request in enumerate(requests, start=1):
        assert request.answer is not None  # `explain_unsuitable` has checked it
        stem = f"golden/{model}/captured-{number}"
        extension = _EXTENSIONS[parse_media_type(request.content_type)]
        answered = _EXTENSIONS.get(parse_media_type(request.answer.content_type), ".bin")
        name, answer = ProjectPath(f"{stem}{extension}"), ProjectPath(f"{stem}-answer{answered}")
        tables.append(Golden(request=name, answer=answer, tolerance=tolerance))
        files |= {name: request.body, answer: request.answer.body}
    return tables, files


def set_golden_tables(text: str, model: str, tables: Sequence[Golden]) -> str:
    """Return an environment file's text with `tables` in place of models.MODEL.also_golden."""
    document: Any = tomlkit.parse(text)
    several = tomlkit.aot()
    for table in tables:
        several.append(tomlkit.item(table.model_dump()))
    if tables:  # tomlkit writes no empty line between the last one and the table that follows
        several[-1].add(tomlkit.nl())
    models = document.setdefault("models", tomlkit.table(is_super_table=True))
    models.setdefault(model, tomlkit.table(is_super_table=True))["also_golden"] = several
    return f"{tomlkit.dumps(document).rstrip()}\n"


MOST = 12
# Above the differences of float32 between instance types: Golden.tolerance.
_LEAST_TOLERANCE = 1e-4


@click.command(context_settings={"show_default": True})
@ENVIRONMENT
@pass_project
@click.option(
    "--from-captured",
    "place",
    required=True,
    metavar="PLACE",
    help="Captured requests: s3://BUCKET/PREFIX, or a folder or file of data capture.",
)
@click.option(
    "--variant",
    "--component",
    "variant",
    help="Variant or component of the model that receives them (default: the first).",
)
@click.option("--most", type=click.IntRange(1, 100), default=MOST, help="Maximum requests.")
@click.option("--write", is_flag=True, help="Write the request files and add them to ENV's file.")
@LOCAL
@AS_JSON
def golden(
    project: Project,
    environment: str,
    place: str,
    variant: str | None,
    most: int,
    write: bool,
    local: bool,
    as_json: bool,
) -> int:
    """Choose a few captured requests that cover content types, signatures, shapes and extremes of the inputs.

    Each becomes a golden request with its captured answer, which `servable verify` compares. Their bodies are
    then project files: check them for personal data before you commit them."""
    loaded = project.load_endpoint(environment)
    account = open_account(loaded.environment, local=local)
    selection, left_out = GoldenSelection(), Counter[str]()
    try:
        index = CaptureIndex(open_place(place, lambda: account.client("s3")))
        for request in index:
            if (reason := explain_unsuitable(request)) is None:
                selection.add(request)
            else:
                left_out[reason] += 1
    except PlaceError as error:
        click.echo(f"servable golden: {error}", err=True)
        return 2
    for skipped in index.skip_counts:
        click.echo(str(skipped), err=True)
    chosen = selection.select(most)
    for reason, count in left_out.most_common():
        click.echo(f"left out: {count:,} {reason}", err=True)
    if not chosen:
        click.echo(f"servable golden: {place}: no request is suitable", err=True)
        _print_selection([], [], as_json)
        return 1
    variants = loaded.environment.serving_variants
    if variant is not None and variant not in variants:
        allowed = ", ".join(variants)
        raise click.UsageError(f"--variant {variant}: no such variant; allowed: {allowed}")
    model = variants[variant or next(iter(variants))].model
    limits = loaded.environment.replay
    relative = [output.relative or 0.0 for output in limits.outputs.values()]
    tolerance = max(_LEAST_TOLERANCE, limits.by_type.float32, *relative)
    tables, contents = build_golden_files([request for request, _ in chosen], model, tolerance)
    file = project.files / f"{loaded.name}.toml"
    before = file.read_text(encoding="utf-8")
    after = set_golden_tables(before, model, tables)
    if write:
        for name, content in contents.items():
            (loaded.root / name).parent.mkdir(parents=True, exist_ok=True)
            write_atomically(loaded.root / name, content)
        write_file(file, after)
    _print_selection(chosen, [table.request for table in tables], as_json)
    if not as_json:
        click.echo(format_diff(loaded.file, before, after), nl=False)
        done = "written" if write else "not written; pass --write to write them"
        click.echo(f"{len(tables)} golden request{'s' * (len(tables) != 1)}: {done}")
    return 0


def _print_selection(
    chosen: Sequence[tuple[CapturedRequest, list[Facet]]], names: Sequence[str], as_json: bool
) -> None:
    rows = [
        {"file": name, "captured": request.location, "covers": [*map(" ".join, facets)]}
        for name, (request, facets) in zip(names, chosen, strict=True)
    ]
    if as_json:
        verdict: Verdict = "holds" if rows else "does not hold"
        click.echo(json.dumps({"verdict": verdict, "golden": rows}, indent=2))
        return
    for name, (request, facets) in zip(names, chosen, strict=True):
        more = f" and {len(facets) - 6} more" if len(facets) > 6 else ""
        shown = escape_name(", ".join(map(" ".join, facets[:6])))
        click.echo(f"{Path(name).name}: {request.location}: {shown}{more}")
