"""PredictRequests read and PredictResponses written, as a model server does it."""

from collections.abc import Mapping

from servable_tensors import tensors, wire
from tests.servable_client.runtime_server import Received, Reply

PROTOBUF = "application/x-protobuf"


def inputs_of(body: bytes) -> dict[str, tensors.Array]:
    request = wire.PredictRequest.FromString(body)
    return {name: tensors.to_array(one) for name, one in request.inputs.items()}


def answering(outputs: Mapping[str, tensors.Array], **more: str) -> Reply:
    response = wire.PredictResponse()
    for name, array in outputs.items():
        response.outputs[name].CopyFrom(tensors.to_proto(array))
    return Reply(200, response.SerializeToString(), {"Content-Type": PROTOBUF} | more)


def doubled(received: Received) -> Reply:
    """y = 2 x."""
    return answering({"y": inputs_of(received.body)["x"] * 2})
