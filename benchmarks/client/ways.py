"""Ways to get a prediction: plain boto3, as one would write it, and the client."""

import io
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import boto3
import numpy as np

from benchmarks.client import workload
from servable_client import Endpoint
from servable_client.formats import content_type, encode
from servable_client.options import Selection
from servable_tensors import tensors, wire

NAME = "benchmark"
Way = Callable[[], tensors.Array]


def session() -> Any:
    """Its clients ask /invocations, where a container listens, and not SageMaker's path."""
    made = boto3.session.Session(
        aws_access_key_id="123456789012", aws_secret_access_key="x", region_name="us-east-1"
    )
    made.events.register("before-sign.sagemaker-runtime.InvokeEndpoint", _to_the_container)
    return made


def _to_the_container(request: Any, **_: Any) -> None:
    parts = urlsplit(request.url)
    request.url = f"{parts.scheme}://{parts.netloc}/invocations"


def ways(url: str) -> dict[str, Way]:
    """By name. Each starts from the array and ends with the output as an array."""
    made = session()
    # boto3's own defaults, but for the address.
    runtime = made.client("sagemaker-runtime", endpoint_url=url)
    client = Endpoint(NAME, session=made, endpoint_url=url)
    small, large = workload.rows(workload.SMALL_ROWS), workload.rows(workload.LARGE_ROWS)

    def asked(body: bytes | str, form: str) -> bytes:
        answer = runtime.invoke_endpoint(
            EndpointName=NAME,
            ContentType=content_type(form),
            Accept=content_type(form),
            Body=body,
        )
        content: bytes = answer["Body"].read()
        return content

    def as_json(array: tensors.Array) -> Way:
        def way() -> tensors.Array:
            body = json.dumps({"inputs": {"x": array.tolist()}})
            return np.array(json.loads(asked(body, "json"))["outputs"])

        return way

    def ready_protobuf(body: bytes) -> Way:
        def way() -> tensors.Array:
            response = wire.PredictResponse.FromString(asked(body, "protobuf"))
            return tensors.to_array(response.outputs["prob"])

        return way

    def ready_npy(body: bytes) -> Way:
        def way() -> tensors.Array:
            found: tensors.Array = np.load(io.BytesIO(asked(body, "npy")))
            return found

        return way

    def ours(array: tensors.Array, form: str | None) -> Way:
        return lambda: client.predict(x=array, format=form).only

    here = Selection()
    return {
        "boto3, JSON, small": as_json(small),
        "client, small": ours(small, None),
        "client, JSON, small": ours(small, "json"),
        "boto3, JSON, large": as_json(large),
        "client, large": ours(large, None),
        "boto3, npy ready, large": ready_npy(encode("npy", {"x": large}, here)),
        "client, npy, large": ours(large, "npy"),
        "boto3, protobuf ready, large": ready_protobuf(encode("protobuf", {"x": large}, here)),
        "client, protobuf, large": ours(large, "protobuf"),
    }
