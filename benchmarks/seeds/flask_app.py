"""The baseline of S0 and S1: Flask, with the Keras model inside the web worker.

Gunicorn runs it. MODEL is the .keras file; HOW is "predict" (Model.predict, as in most
tutorials) or "call" (the model called directly, without predict's own machinery).
"""

import io
import os
from typing import Any

import keras
import numpy as np
from flask import Flask, Response, request

app = Flask(__name__)
model = keras.models.load_model(os.environ["MODEL"], compile=False)
HOW = os.environ["HOW"]
NPY = "application/x-npy"


@app.get("/ping")
def ping() -> Response:
    return Response(status=200)


@app.post("/invocations")
def invocations() -> Any:
    if request.mimetype == NPY:
        return Response(_npy(_found(np.load(io.BytesIO(request.get_data())))), mimetype=NPY)
    found = _found(np.asarray(request.get_json()["instances"], np.float32))
    return {"predictions": found.tolist()}


def _found(rows: Any) -> Any:
    return model.predict(rows, verbose=0) if HOW == "predict" else model(rows).numpy()


def _npy(found: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, found)
    return file.getvalue()
