"""The baseline of the articles: Flask with the Keras model inside the web worker, behind Gunicorn."""

import io
import os
from typing import Any

import keras
import numpy as np
from flask import Flask, Response, request

app = Flask(__name__)
NPY = "application/x-npy"
model = keras.models.load_model(os.environ["MODEL"], compile=False)


def post_worker_init(worker: Any) -> None:
    """Log that a worker can answer. Gunicorn calls it when the worker has loaded the model."""
    worker.log.info("worker is ready")


@app.post("/invocations")
def invocations() -> Any:
    if request.mimetype != NPY:
        rows = np.asarray(request.get_json()["instances"], np.float32)
        return {"predictions": model(rows).numpy().tolist()}
    file = io.BytesIO()
    np.save(file, model(np.load(io.BytesIO(request.get_data()))).numpy())
    return Response(file.getvalue(), mimetype=NPY)
