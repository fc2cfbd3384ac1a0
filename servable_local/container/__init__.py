"""The SageMaker TensorFlow Serving container's double, on this machine.

Its processes are the container's: a supervisor (serve.py there), a front (NGINX), Gunicorn
with the archive's code, and model servers (TensorFlow Serving's interfaces on TensorFlow's
own runtime). Written from the public contract; its answers are meant to be the container's,
traps included. docs/local.md lists what remains different.
"""
