"""Chosen requests and their answers as files, and the lines of an environment file that name them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomlkit

from infra.parameters.model import Golden
from infra.parameters.rollout import CONTENT_TYPES
from infra.parameters.table import ProjectPath
from model_packaging.beside import write_beside
from servable.captured.files import CapturedRequest
from servable_tensors.capture_record import media_type
from servable_tensors.codecs import CODECS, JSON

_EXTENSIONS = {content_type: extension for extension, content_type in CONTENT_TYPES.items()}


def why_not(request: CapturedRequest) -> str | None:
    """Why a captured request cannot be golden; None: it can.

    A golden request is sent with its content type alone, and its answer must be one of a success.
    """
    media = media_type(request.content_type)
    if request.answer is None or request.answer.failed:
        return "without an answer of a success"
    if media not in _EXTENSIONS:
        return f"of content type {media}"
    if request.custom_attributes or request.target_model:
        return "with custom attributes or a target model"
    codec = CODECS.get(media)
    usual = (codec.own_answer or media) if codec else JSON
    if media_type(request.answer.content_type) not in (usual, media):
        return f"answered in {media_type(request.answer.content_type)}, which its Accept header asked for"
    return None


@dataclass(frozen=True, kw_only=True)
class GoldenFiles:
    """A golden request to be written: its table, and the content of its two files."""

    table: Golden
    request: bytes
    answer: bytes

    def write(self, root: Path) -> None:
        """Write both files below the project's folder. Raises OSError."""
        assert self.table.answer is not None  # made with one
        for name, content in ((self.table.request, self.request), (self.table.answer, self.answer)):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            write_beside(root / name, content)


def frozen(requests: Sequence[CapturedRequest], model: str, tolerance: float) -> list[GoldenFiles]:
    """The files golden/MODEL/captured-N and captured-N-answer of requests for which `why_not` is None."""
    files = []
    for number, request in enumerate(requests, start=1):
        assert request.answer is not None  # why_not has looked
        stem = f"golden/{model}/captured-{number}"
        answered = _EXTENSIONS.get(media_type(request.answer.content_type), ".bin")
        files.append(
            GoldenFiles(
                table=Golden(
                    request=ProjectPath(f"{stem}{_EXTENSIONS[media_type(request.content_type)]}"),
                    answer=ProjectPath(f"{stem}-answer{answered}"),
                    tolerance=tolerance,
                ),
                request=request.body,
                answer=request.answer.body,
            )
        )
    return files


def with_tables(text: str, model: str, tables: Sequence[Golden]) -> str:
    """An environment file with these as models.MODEL.also_golden, in the place of those that it has."""
    document: Any = tomlkit.parse(text)
    several = tomlkit.aot()
    for table in tables:
        several.append(tomlkit.item(table.model_dump()))
    if tables:  # tomlkit writes an empty line between them, and none before the table that follows
        several[-1].add(tomlkit.nl())
    models = document.setdefault("models", tomlkit.table(is_super_table=True))
    models.setdefault(model, tomlkit.table(is_super_table=True))["also_golden"] = several
    return f"{tomlkit.dumps(document).rstrip()}\n"
