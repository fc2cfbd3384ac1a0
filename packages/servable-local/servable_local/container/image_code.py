"""The image's own code, where its versions differ: it was rewritten for TensorFlow 2.20.

Source: tensorflowServing.js, python_service.py, tfs_utils.py and serve.py in
https://github.com/aws/deep-learning-containers, since 2.20 in scripts/docker/tensorflow/inference,
before in tensorflow/inference/docker/build_artifacts.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

VERSION = "SAGEMAKER_TFS_VERSION"
"""The image's TensorFlow, as 2.20. The image sets it for itself, and reads it nowhere since 2.20."""
NEWEST = "2.20"
HEADER = "X-Amzn-SageMaker-Custom-Attributes"


@dataclass(frozen=True)
class ImageCode:
    """The behavior of one image's code: how it treats requests, and how long it waits."""

    rewritten: bool
    """Since 2.20. What hangs on it:

    NGINX compares a content type in lower case and without its parameters, converts every field
    of a CSV body, looks for JSON anywhere in an Accept header; attributes of the header are
    checked (400); input_handler and output_handler, and a container without either, let an answer
    of the model server that isn't a success through as an error; a falcon.HTTPError of the user's
    code keeps its status; a handler's context has a timeout; names of models are checked.
    """

    def compute_wait_seconds(self, processes: int) -> int:
        """Return how long the start script waits for a model by default."""
        return 60 if self.rewritten else 55 // processes

    def compute_real_wait_seconds(self, configured_seconds: int) -> float:
        """Return the actual duration of the configured wait for a closed model server port.

        The configured time becomes a number of retries. The pauses before them double from 0.2 s,
        after an immediate first retry, and stay at 120 s (urllib3's Retry, backoff_factor 0.1).
        Source: wait_for_model and retry_from_timeout in tfs_utils.py
        """
        if self.rewritten:
            retries = (10 * configured_seconds + 1).bit_length() - 1
        else:
            retries, waited = 1, 0.0
            while waited < configured_seconds:
                retries += 1
                waited += 0.1 * (1 << retries + 1)
        return round(sum(min(0.1 * (1 << n), 120.0) for n in range(1, retries)), 1)

    def parse_nginx_attributes(self, header: str | None) -> dict[str, str]:
        """Parse `tfs-model-name=a,tfs-method=predict`, without others and values with a further "="."""
        matches = re.findall(r"(tfs-[a-z\-]+)=([^,]+)", header or "")
        return {name: value for name, value in matches if "=" not in value}

    def parse_python_attributes(self, header: str | None) -> dict[str, str]:
        """Parse the same for Gunicorn. Up to 2.19, raises `ValueError` for a further "=": a 500."""
        matches = re.findall(r"tfs-[a-z\-]+=[^,]+", header or "")
        most = 1 if self.rewritten else -1
        return dict(attribute.split("=", most) for attribute in matches)

    def build_model_path(
        self, attributes: Mapping[str, str], default_model: str, *, model: str | None = None
    ) -> str:
        """Return the model server's path for these attributes; `model` overrides the header's.

        Raises `AttributesError` for invalid attributes that are checked.
        """
        if self.rewritten:
            for name, pattern in _FORMS.items():
                if name in attributes and not re.fullmatch(pattern, attributes[name], re.ASCII):
                    raise AttributesError(name)
        path = f"/v1/models/{model or attributes.get('tfs-model-name') or default_model}"
        if attributes.get("tfs-model-version"):
            path += f"/versions/{attributes['tfs-model-version']}"
        return f"{path}:{attributes.get('tfs-method') or 'predict'}"


class AttributesError(Exception):
    """An invalid attribute of the header: 400. `attribute`: its name."""

    def __init__(self, attribute: str) -> None:
        super().__init__(f"invalid {attribute}{_TEXTS_OF_PYTHON.get(attribute, '')}")
        self.attribute = attribute


MODEL_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}"
_FORMS = {
    "tfs-model-name": MODEL_NAME,
    "tfs-model-version": r"[0-9]+",
    "tfs-method": r"predict|classify|regress",
}
# NGINX's texts end after the name.
_TEXTS_OF_PYTHON = {
    "tfs-model-version": ": must be a positive integer",
    "tfs-method": ": must be one of predict|classify|regress",
}


def parse_image_version(address: str) -> dict[str, str]:
    """Return the variable with the version of an image of AWS's; empty for other images."""
    match = re.search(r"/tensorflow-inference:([0-9]+\.[0-9]+)", address)
    return {VERSION: match[1]} if match else {}


def find_image_code(tensorflow: str) -> ImageCode:
    """Return the code of the image of a version such as 2.20 or 2.20.0. Raises `ValueError`."""
    version = tuple(int(part) for part in tensorflow.split(".")[:2])
    return ImageCode(rewritten=version >= (2, 20))
