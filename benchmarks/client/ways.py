"""Ways to get a prediction: plain boto3, as one would write it, and the client; and who answers.

What the model would do is not the client's. The handler reads the body and gives an answer
that lies ready, in the form that was asked for.
"""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import numpy as np

from benchmarks import workload
from benchmarks.command import ROOT
from servable_client import Endpoint
from servable_client.formats import content_type, encode
from servable_client.options import Selection
from servable_tensors import tensors, wire

NAME = "benchmark"
SMALL_ROWS, LARGE_ROWS = 1, 2230
# Between the bodies of one row and those of 2,230, in whatever form.
LARGE_FROM_BYTES = 100_000
Way = Callable[[], tensors.Array]

HANDLER = """
from pathlib import Path

HERE = Path(__file__).parent / "answers"
ANSWERS = {file.name: file.read_bytes() for file in HERE.iterdir()}
FORMS = {"application/x-protobuf": "protobuf", "application/x-npy": "npy"}


def handler(data, context):
    size = "large" if len(data.read()) > %d else "small"
    wanted = (context.accept_header or "").partition(",")[0]
    form = FORMS.get(wanted, "json")
    return ANSWERS[f"{size}.{form}"], wanted if form != "json" else "application/json"
"""


def pack(archive: Path) -> Path:
    """Some model must be there; nobody asks it."""
    code = {f"answers/{name}": content for name, content in _answers().items()}
    code["inference.py"] = (HANDLER % LARGE_FROM_BYTES).encode()
    models = {"ranker": ROOT / "examples" / "ranker" / "model" / "1"}
    return workload.pack(archive, models, code)


def _answers() -> dict[str, bytes]:
    """One float32 for each row, in three forms."""
    found = {}
    for size, count in (("small", SMALL_ROWS), ("large", LARGE_ROWS)):
        output = workload.rows(count)[:, 0]
        response = wire.PredictResponse()
        response.outputs["prob"].CopyFrom(tensors.to_proto(output))
        found[f"{size}.protobuf"] = bytes(response.SerializeToString())
        found[f"{size}.npy"] = workload.npy(output)
        found[f"{size}.json"] = json.dumps({"outputs": output.tolist()}).encode()
    return found


def ways(url: str) -> dict[str, Way]:
    """By name. Each starts from the array and ends with the output as an array."""
    session = boto3.session.Session(
        aws_access_key_id="123456789012", aws_secret_access_key="x", region_name="us-east-1"
    )
    session.events.register("before-sign.sagemaker-runtime.InvokeEndpoint", _to_the_container)
    # boto3's own defaults, but for the address.
    runtime = session.client("sagemaker-runtime", endpoint_url=url)
    client = Endpoint(NAME, session=session, endpoint_url=url)
    small, large = workload.rows(SMALL_ROWS), workload.rows(LARGE_ROWS)

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

    def ready_protobuf() -> tensors.Array:
        response = wire.PredictResponse.FromString(asked(protobuf_body, "protobuf"))
        return tensors.to_array(response.outputs["prob"])

    def ready_npy() -> tensors.Array:
        found: tensors.Array = np.load(io.BytesIO(asked(npy_body, "npy")))
        return found

    def ours(array: tensors.Array, form: str | None) -> Way:
        return lambda: client.predict(x=array, format=form).only

    npy_body, protobuf_body = (
        encode(form, {"x": large}, Selection()) for form in ("npy", "protobuf")
    )
    return {
        "boto3, JSON, small": as_json(small),
        "client, small": ours(small, None),
        "client, JSON, small": ours(small, "json"),
        "boto3, JSON, large": as_json(large),
        "client, large": ours(large, None),
        "boto3, npy ready, large": ready_npy,
        "client, npy, large": ours(large, "npy"),
        "boto3, protobuf ready, large": ready_protobuf,
        "client, protobuf, large": ours(large, "protobuf"),
    }


def _to_the_container(request: Any, **_: Any) -> None:
    """/invocations, where a container listens, and not SageMaker's path."""
    parts = urlsplit(request.url)
    request.url = f"{parts.scheme}://{parts.netloc}/invocations"
