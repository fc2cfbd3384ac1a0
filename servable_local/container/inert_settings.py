"""The container's variables that change nothing on this endpoint."""

from collections.abc import Mapping

from servable_local.container.settings import read_settings

# No GPU here; NGINX's own log, and a variable that the image itself ignores.
_WITHOUT_EFFECT = {
    "SAGEMAKER_TFS_FRACTIONAL_GPU_MEM_MARGIN",
    "SAGEMAKER_TFS_NGINX_LOGLEVEL",
    "SAGEMAKER_TFS_VERSION",
}
_OF_GUNICORN = "SAGEMAKER_GUNICORN_"
_THREADS = "SAGEMAKER_GUNICORN_THREADS"


def without_effect(variables: Mapping[str, str], *, gunicorn: bool) -> list[str]:
    """The container's variables that are set here and change nothing, sorted."""
    settings = read_settings(variables)
    inert = set(_WITHOUT_EFFECT)
    if settings.batching is None:
        inert |= {
            "SAGEMAKER_TFS_MAX_BATCH_SIZE",
            "SAGEMAKER_TFS_BATCH_TIMEOUT_MICROS",
            "SAGEMAKER_TFS_NUM_BATCH_THREADS",
            "SAGEMAKER_TFS_MAX_ENQUEUED_BATCHES",
        }
    if not gunicorn:
        inert |= {name for name in variables if name.startswith(_OF_GUNICORN)}
    elif settings.worker_class == "gevent":
        inert.add(_THREADS)
    return sorted(inert & variables.keys())
