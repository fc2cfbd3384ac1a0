"""The articles' baseline: Flask with the Keras model inside the web worker, behind Gunicorn."""

import io
import logging
import os
from typing import Any

import keras
import numpy as np
from flask import Flask, Response, request

app = Flask(__name__)
NPY = "application/x-npy"
model = keras.models.load_model(os.environ["MODEL"], compile=False)
# Gunicorn loads this module in each worker, after the fork.
logging.getLogger("gunicorn.error").info("worker is ready")


@app.post("/invocations")
def predict() -> Any:
    if request.mimetype != NPY:
        rows = np.asarray(request.get_json()["instances"], np.float32)
        return {"predictions": model(rows).numpy().tolist()}
    file = io.BytesIO()
    np.save(file, model(np.load(io.BytesIO(request.get_data()))).numpy())
    return Response(file.getvalue(), mimetype=NPY)
