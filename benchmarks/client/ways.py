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
from benchmarks.frame import ROOT
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
    """An archive with some model, which nobody asks, and answers of one float32 a row in three forms."""
    code = {"inference.py": (HANDLER % LARGE_FROM_BYTES).encode()}
    for size, count in (("small", SMALL_ROWS), ("large", LARGE_ROWS)):
        output = workload.rows(count)[:, 0]
        response = wire.PredictResponse()
        response.outputs["prob"].CopyFrom(tensors.to_proto(output))
        code[f"answers/{size}.protobuf"] = bytes(response.SerializeToString())
        code[f"answers/{size}.npy"] = workload.npy(output)
        code[f"answers/{size}.json"] = json.dumps({"outputs": output.tolist()}).encode()
    models = {"ranker": ROOT / "examples" / "ranker" / "model" / "1"}
    return workload.pack(archive, models, code)


def ways(url: str) -> dict[str, Way]:
    """Ways by name. Each starts from the array and ends with the output as an array."""
    session = boto3.session.Session(
        aws_access_key_id="123456789012", aws_secret_access_key="x", region_name="us-east-1"
    )
    session.events.register("before-sign.sagemaker-runtime.InvokeEndpoint", _to_the_container)
    # boto3's own defaults, but for the address.
    runtime = session.client("sagemaker-runtime", endpoint_url=url)
    client = Endpoint(NAME, session=session, endpoint_url=url)
    small, large = workload.rows(SMALL_ROWS), workload.rows(LARGE_ROWS)
    npy, protobuf = (encode(form, {"x": large}, Selection()) for form in ("npy", "protobuf"))

    def answer(body: bytes | str, form: str) -> bytes:
        mime = content_type(form)
        response = runtime.invoke_endpoint(
            EndpointName=NAME, ContentType=mime, Accept=mime, Body=body
        )
        return bytes(response["Body"].read())

    def as_json(array: tensors.Array) -> tensors.Array:
        body = json.dumps({"inputs": {"x": array.tolist()}})
        return np.array(json.loads(answer(body, "json"))["outputs"])

    def ready_protobuf() -> tensors.Array:
        response = wire.PredictResponse.FromString(answer(protobuf, "protobuf"))
        return tensors.to_array(response.outputs["prob"])

    def ready_npy() -> tensors.Array:
        return np.asarray(np.load(io.BytesIO(answer(npy, "npy"))))

    def ours(array: tensors.Array, form: str | None) -> Way:
        return lambda: client.predict(x=array, format=form).only

    return {
        "boto3, JSON, small": lambda: as_json(small),
        "client, small": ours(small, None),
        "client, JSON, small": ours(small, "json"),
        "boto3, JSON, large": lambda: as_json(large),
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
