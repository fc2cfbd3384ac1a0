"""Multi-model mode: a request names its model, which is fetched and loaded when it is first asked.

Source: https://docs.aws.amazon.com/sagemaker/latest/dg/multi-model-endpoints.html
"""

import hashlib
import http.client
import json
import threading
from pathlib import Path

from servable_local.aws.errors import ValidationError
from servable_local.aws.loopback import Loopback
from servable_local.aws.sagemaker.container import Container, VariantStartError
from servable_local.aws.sagemaker.model_data import fetch_model_data, s3_location

_LOAD_TIMEOUT_SECONDS = 300.0
_ALREADY_LOADED = 409


def _name(target: str) -> str:
    # SageMaker too names it by a hash: a target may hold slashes.
    return hashlib.sha256(target.encode()).hexdigest()[:32]


class TargetModels:
    """The models of one container, from archives under one S3 prefix. None is unloaded to make room."""

    def __init__(self, container: Container, prefix: str, *, aws: Loopback, folder: Path) -> None:
        self._container = container
        self._prefix = prefix
        self._aws = aws
        self._folder = folder
        # A container that was started again has nothing loaded, and another address.
        self._loaded: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    def path(self, target: str) -> str:
        """Path of a target model in the container; loads it if need be. Raises `ValidationError`."""
        name = _name(target)
        with self._lock:
            key = (self._container.url, name)
            if key not in self._loaded:
                self._load(target, name)
                self._loaded.add(key)
        return f"/models/{name}/invoke"

    def forget(self, target: str) -> None:
        """It is loaded again when it is next asked for: the container says that it is not (404).

        Since 2.20 the image unloads a model whose model server has ended.
        """
        with self._lock:
            self._loaded.discard((self._container.url, _name(target)))

    def _load(self, target: str, name: str) -> None:
        # Imported here, as the local container itself: the server starts without it.
        from servable_tensors.archive import ArchiveError, unpack

        self._folder.mkdir(parents=True, exist_ok=True)
        model = self._folder / name / "model"
        if not model.exists():
            url = f"{self._prefix.rstrip('/')}/{target.lstrip('/')}"
            fetched = self._folder / f"{name}.tar.gz"
            try:
                fetch_model_data(url, self._aws, fetched)
                unpack(fetched, model)
            except VariantStartError:
                bucket, object_key = s3_location(url)
                raise ValidationError(
                    f"Failed to download model data(bucket: {bucket}, key: {object_key}). Please "
                    "ensure that there is an object located at the URL and that the role passed "
                    "to CreateModel has permissions to download the model."
                ) from None
            except ArchiveError as error:
                raise ValidationError(f"Failed to unpack {target}: {error}") from None
        body = json.dumps({"model_name": name, "url": str(model)}).encode()
        try:
            status, _, answer = self._container.post(
                "/models",
                body,
                {"Content-Type": "application/json"},
                timeout_seconds=_LOAD_TIMEOUT_SECONDS,
            )
        except (OSError, http.client.HTTPException) as error:
            raise ValidationError(f"{target} could not be loaded: {error}") from None
        if not 200 <= status < 300 and status != _ALREADY_LOADED:
            raise ValidationError(
                f"{target} could not be loaded: {answer.decode(errors='replace')}"
            )
