"""The baseline of S0 and S1: Flask, with the Keras model inside the web worker. Gunicorn runs it.

HOW is "predict" (Model.predict, as in most tutorials) or "call" (the model called directly, without predict's
own machinery), and MODEL the .keras file. For S4 HOW is "wait": ROW_MS for each row on so many CORES.
"""

import io
import os
import threading
import time
from typing import Any

import numpy as np
from flask import Flask, Response, request

app = Flask(__name__)
HOW = os.environ["HOW"]
NPY = "application/x-npy"
if HOW == "wait":
    cores, row_seconds = (
        threading.Semaphore(int(os.environ["CORES"])),
        float(os.environ["ROW_MS"]) / 1000,
    )
else:
    import keras

    model = keras.models.load_model(os.environ["MODEL"], compile=False)


@app.post("/invocations")
def invocations() -> Any:
    if request.mimetype != NPY:
        rows = np.asarray(request.get_json()["instances"], np.float32)
        return {"predictions": predictions(rows).tolist()}
    file = io.BytesIO()
    np.save(file, predictions(np.load(io.BytesIO(request.get_data()))))
    return Response(file.getvalue(), mimetype=NPY)


def predictions(rows: Any) -> Any:
    if HOW == "predict":
        return model.predict(rows, verbose=0)
    if HOW == "call":
        return model(rows).numpy()
    with cores:
        time.sleep(len(rows) * row_seconds)
    return rows.sum(axis=1)
