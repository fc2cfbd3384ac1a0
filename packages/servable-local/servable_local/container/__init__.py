"""The local container: the SageMaker TensorFlow Serving container, emulated on this computer.

Its processes are those of the container: a supervisor (serve.py there), a stand-in for NGINX,
Gunicorn with the archive's code, and model servers (TensorFlow Serving's interfaces on
TensorFlow's own runtime). It was written from the public contract; its responses are meant to be
the container's, with its pitfalls. docs/local.md lists the remaining differences.
"""
