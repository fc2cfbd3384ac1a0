"""Model server processes: TensorFlow Serving's REST and gRPC interfaces on TensorFlow's own runtime.

One parent imports TensorFlow and forks a process for each model server, so that N of them
cost one import, and one that died is back in less than a second.
"""
