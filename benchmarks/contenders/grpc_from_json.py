"""A simple gRPC handler: JSON by the json module, arrays by NumPy, and the container's channel.

Published handlers build the messages with TensorFlow, which the image doesn't contain.
"""

import json
from typing import Any

import numpy as np

from servable_tensors import wire


def handler(data: Any, context: Any) -> tuple[str, str]:
    rows = np.array(json.loads(data.read())["instances"], np.float32)
    request = wire.PredictRequest()
    request.model_spec.name = "rows"
    request.model_spec.signature_name = "serving_default"
    tensor = request.inputs["x"]
    tensor.dtype = 1
    for size in rows.shape:
        tensor.tensor_shape.dim.add(size=size)
    tensor.tensor_content = rows.tobytes()
    predict = context.channel.unary_unary(
        "/tensorflow.serving.PredictionService/Predict",
        request_serializer=wire.PredictRequest.SerializeToString,
        response_deserializer=wire.PredictResponse.FromString,
    )
    reply = predict(request, timeout=context.timeout).outputs["y"]
    values = list(reply.float_val) or np.frombuffer(reply.tensor_content, np.float32).tolist()
    return json.dumps({"predictions": values}), "application/json"
