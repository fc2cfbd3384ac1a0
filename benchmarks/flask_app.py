"""The baseline of the articles: Flask with the Keras model inside the web worker, behind Gunicorn.

MODEL is a .keras file; without it, a request waits ROW_MS for each row on so many CORES.
"""

import io
import os
import threading
import time
from typing import Any

import numpy as np
from flask import Flask, Response, request

app = Flask(__name__)
NPY = "application/x-npy"
if path := os.environ.get("MODEL"):
    import keras

    model = keras.models.load_model(path, compile=False)
cores = threading.Semaphore(int(os.environ.get("CORES", "1")))


def post_worker_init(worker: Any) -> None:
    """Log that a worker can answer. Gunicorn calls it when the worker has loaded the model."""
    worker.log.info("worker is ready")


@app.post("/invocations")
def invocations() -> Any:
    if request.mimetype != NPY:
        rows = np.asarray(request.get_json()["instances"], np.float32)
        return {"predictions": predict(rows).tolist()}
    file = io.BytesIO()
    np.save(file, predict(np.load(io.BytesIO(request.get_data()))))
    return Response(file.getvalue(), mimetype=NPY)


def predict(rows: Any) -> Any:
    if path:
        return model(rows).numpy()
    with cores:
        time.sleep(len(rows) * float(os.environ["ROW_MS"]) / 1000)
    return rows.sum(axis=1)
