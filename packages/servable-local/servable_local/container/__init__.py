"""The local container: what the SageMaker TensorFlow Serving container is, on this computer.

Its processes are the container's: a supervisor (serve.py there), a stand-in for NGINX, Gunicorn
with the archive's code, and model servers (TensorFlow Serving's interfaces on TensorFlow's
own runtime). Written from the public contract; its answers are meant to be the container's,
traps included. docs/local.md lists what remains different.
"""
