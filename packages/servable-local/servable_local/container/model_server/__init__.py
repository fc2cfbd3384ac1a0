"""Model server processes: TensorFlow Serving's REST and gRPC interfaces on TensorFlow's runtime.

One parent imports TensorFlow and forks a process for each model server, so that N of them
cost one import, and one that died is replaced in less than a second.
"""
