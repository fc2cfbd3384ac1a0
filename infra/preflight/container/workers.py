"""Rules about Gunicorn workers, computing threads, settings without effect, and the time to start."""

from infra.catalog.limits import find_documented_limit, find_maximum
from infra.parameters.finding import Finding, Severity
from infra.parameters.placement import Placement
from infra.policy.container import find_worker_class, is_upstream
from infra.policy.sizing import (
    DOWNLOAD,
    STARTUP,
    estimate_download_seconds,
    estimate_load_seconds,
    find_default_wait,
    find_real_wait,
    find_wait_setting,
)
from infra.preflight.rule import ContainerRule, Findings, VariantRule
from model_packaging.inputs import needs_our_handler
from model_packaging.python_code import CodeFolder

OF_GUNICORN = (
    "gunicorn_workers",
    "gunicorn_threads",
    "gunicorn_worker_class",
    "gunicorn_timeout_seconds",
    "gunicorn_log_level",
)
# Keys of infra/policy/container.py that the image does not know.
OF_OUR_HANDLER = ("transport", "grpc_from_bytes", "request_timeout_seconds", "timing_header")


class WorkersWithoutCode(ContainerRule):
    """Without code the image starts no Gunicorn: settings of Gunicorn have no effect.

    Source: serve.py of the images, 2.20 and before,
    https://github.com/aws/sagemaker-tensorflow-serving-container
    """

    severity = Severity.WARNING
    example = "variants.primary.container.gunicorn_workers = 4"
    allowed = "no such key, or code for the model"
    remedy = "remove it, or add code"

    def check_part(self, placement: Placement) -> Findings:
        if placement.served.has_code is not False:
            return
        for name in OF_GUNICORN:
            given = getattr(placement.variant.container, name)
            if given is not None:
                yield self.build_finding(
                    placement.build_key(f"container.{name}"),
                    f"{name} {given} has no effect: models.{placement.variant.model} has no code, so no "
                    "Gunicorn runs",
                    reads=(f"models.{placement.variant.model}",),
                )


class WorkersMissing(ContainerRule):
    """Without a worker the container never answers /ping, and the endpoint fails.

    Source: observed with the code of image 2.20; the image's packages,
    https://github.com/aws/deep-learning-containers, docker/tensorflow/inference/2.20/cpu/uv.lock (2026-11-22)
    """

    acknowledgeable = True
    remedy = "remove it: Servable then chooses it"

    def check_part(self, placement: Placement) -> Findings:
        container, served = placement.variant.container, placement.served
        if served.has_code is False or placement.model.image is not None:
            return
        kind = find_worker_class(container, placement.tensorflow, multi_model=served.multi_model)
        folder = self.candidate.code_folders.get(placement.variant.model)
        code = None if folder is None else CodeFolder(folder)
        brought = code is not None and (
            code.has_vendored_module(kind) or code.has_requirement_for(kind)
        )
        wrong = {
            "gunicorn_workers": (container.gunicorn_workers == 0, "1 or more"),
            "gunicorn_worker_class": (
                kind in ("eventlet", "tornado") and not brought,
                "sync, gevent, gthread: the image has no package for others",
            ),
        }
        for name, (is_wrong, allowed) in wrong.items():
            if is_wrong:
                given = getattr(container, name)
                yield self.build_finding(
                    placement.build_key(f"container.{name}"),
                    f"with {name} {given} no worker starts, and the container never answers",
                    allowed=allowed,
                    reads=(f"models.{placement.variant.model}",),
                )


class ThreadsWithGevent(ContainerRule):
    """A gevent worker has one thread whatever is configured; only gthread starts more.

    Source: https://docs.gunicorn.org/en/stable/settings.html#threads
    """

    severity = Severity.WARNING
    allowed = "1, or gunicorn_worker_class = gthread"
    remedy = "remove it, or change the class"

    def check_part(self, placement: Placement) -> Findings:
        container, multi_model = placement.variant.container, placement.served.multi_model
        kind = find_worker_class(container, placement.tensorflow, multi_model=multi_model)
        if (container.gunicorn_threads or 1) > 1 and kind not in ("gthread", "sync"):
            yield self.build_finding(
                placement.build_key("container.gunicorn_threads"),
                f"gunicorn_threads {container.gunicorn_threads} has no effect with worker class {kind}",
                reads=(placement.build_key("container.gunicorn_worker_class"),),
            )


class MultiModelOneWorker(VariantRule):
    """In multi-model mode a worker that takes one request at a time cannot answer while it loads a model.

    Up to 2.19 that is a worker of one thread; since 2.20 it is sync, or gthread with one thread.
    Source: serve.py, python_service.py and multi_model_utils.py of the image,
    https://github.com/aws/deep-learning-containers, read 2026-11-22: since 2.20 in
    scripts/docker/tensorflow/inference/sagemaker, before in
    tensorflow/inference/docker/build_artifacts/sagemaker
    """

    severity = Severity.WARNING
    allowed = "2 or more, or gevent with TensorFlow 2.20"
    remedy = "set 2, or choose an instance type on which 2 fit"

    def check_part(self, placement: Placement) -> Findings:
        threads = placement.settings.gunicorn_threads or 1
        kind = find_worker_class(placement.settings, placement.tensorflow, multi_model=True)
        blocks = kind in ("sync", "gthread") and placement.workers == threads == 1
        if blocks and placement.served.multi_model:
            yield self.build_finding(
                placement.build_key("container.gunicorn_workers"),
                f"gunicorn_workers {placement.workers} of one thread ({kind}, TensorFlow "
                f"{placement.tensorflow}): no request is answered while a model loads",
                given=placement.workers,
                reads=(
                    placement.build_key("instance_type"),
                    placement.build_key("container.gunicorn_worker_class"),
                ),
            )


class WorkerTimeout(VariantRule):
    """SageMaker gives up after 60 s: a worker that is busy for longer is unavailable to other requests.

    Source: infra/catalog/documented_limits.json (answer_seconds)
    """

    severity = Severity.WARNING

    def check_part(self, placement: Placement) -> Findings:
        given = placement.variant.container.gunicorn_timeout_seconds
        if self.environment.kind.queued:
            return  # a request may take up to an hour there
        most = int(find_documented_limit("answer_seconds"))
        if given is not None and given > most:
            yield self.build_finding(
                placement.build_key("container.gunicorn_timeout_seconds"),
                f"gunicorn_timeout_seconds {given} is longer than InvokeEndpoint waits",
                allowed=f"1 to {most}",
                remedy=f"set {most}, or remove it",
            )


class ThreadsOversubscribed(ContainerRule):
    """More computing threads than vCPUs compete for them: throughput falls and latency rises.

    Source: https://aws.amazon.com/blogs/machine-learning/maximize-tensorflow-performance-on-amazon-sagemaker-endpoints-for-real-time-inference/
    """

    severity = Severity.WARNING

    def check_part(self, placement: Placement) -> Findings:
        vcpus, processes = placement.instance.vcpus, placement.processes
        for name in ("inter_op_threads", "intra_op_threads"):
            threads = getattr(placement.settings, name) or 0
            if processes * threads <= vcpus:
                continue
            # The key in the file is the cause; values that were chosen follow from it.
            chosen = getattr(placement.variant.container, name) is None
            yield self.build_finding(
                placement.build_key("container.tfs_processes" if chosen else f"container.{name}"),
                f"{processes} processes x {name} {threads} are {processes * threads} threads on "
                f"{vcpus} vCPUs",
                given=processes if chosen else threads,
                allowed=f"1 to {max(1, vcpus // (threads if chosen else processes))}",
                remedy="lower it, or remove it: Servable then chooses it"
                if chosen
                else "lower it or tfs_processes, or remove it: Servable then chooses it",
                reads=(
                    placement.build_key("container.tfs_processes"),
                    placement.build_key("instance_type"),
                ),
            )
            if chosen:
                return  # the other key would give the same finding


class SettingInert(ContainerRule):
    """A setting that nothing reads has no effect.

    Source: serve.py of the images, 2.20 and before,
    https://github.com/aws/sagemaker-tensorflow-serving-container;
    libtensorflow as Google builds it does not use OpenMP
    """

    severity = Severity.WARNING
    example = "variants.primary.container.omp_threads = 4"
    allowed = "nothing"
    remedy = "remove it"

    def check_part(self, placement: Placement) -> Findings:
        container = placement.variant.container
        if container.omp_threads is not None and is_upstream(placement.tensorflow):
            why = f"TensorFlow {placement.tensorflow} has no OpenMP"
            yield self._build_inert_finding(placement, "omp_threads", why)
        if not self._has_servable_handler(placement):
            why = f'models.{placement.variant.model} has no handler = "servable" to read it'
            for name in OF_OUR_HANDLER:
                if getattr(container, name) is not None:
                    yield self._build_inert_finding(placement, name, why)
        elif (asked := container.request_timeout_seconds) is not None and asked > self._find_wait(
            placement
        ):
            why = f"wait_time_seconds {self._find_wait(placement)} ends a request before"
            yield self._build_inert_finding(placement, "request_timeout_seconds", why)
        elif container.grpc_from_bytes is not None and container.transport in ("rest", "grpc"):
            why = f"with transport {container.transport} every request is sent the same way"
            yield self._build_inert_finding(placement, "grpc_from_bytes", why)
        if container.gpu_memory_margin is not None:
            if not placement.instance.gpus:
                why = f"{placement.instance.name} has no GPU"
                yield self._build_inert_finding(placement, "gpu_memory_margin", why)
            elif placement.processes == 1:
                why = "it is read only with several processes"
                yield self._build_inert_finding(placement, "gpu_memory_margin", why)

    def _find_wait(self, placement: Placement) -> int:
        """Return the seconds after which the container ends a request."""
        default = find_default_wait(placement.tensorflow, processes=placement.processes)
        return placement.settings.wait_time_seconds or default

    def _has_servable_handler(self, placement: Placement) -> bool:
        """Return whether the model has Servable's handler. An archive in S3 may have it."""
        for name in placement.model.multi_model or [placement.variant.model]:
            model, code = self.environment.models.get(name), self.candidate.code_folders.get(name)
            if (
                model is None
                or model.artifact
                or model.handler
                or (code and needs_our_handler(code))
            ):
                return True
        return False

    def _build_inert_finding(self, placement: Placement, name: str, why: str) -> Finding:
        given = getattr(placement.variant.container, name)
        return self.build_finding(
            placement.build_key(f"container.{name}"),
            f"{name} {given} has no effect: {why}",
            reads=(
                placement.build_key("instance_type"),
                f"models.{placement.variant.model}.tensorflow",
            ),
        )


class WaitTooShort(VariantRule):
    """The container polls its models with doubling pauses, so it waits less than is configured.

    Source: wait_for_model in tfs_utils.py of the image, https://github.com/aws/deep-learning-containers,
    read 2026-11-22; infra/policy/sizing.py
    """

    acknowledgeable = True

    def check_part(self, placement: Placement) -> Findings:
        load = estimate_load_seconds(placement.served, processes=placement.processes)
        tensorflow = placement.tensorflow
        given = placement.settings.wait_time_seconds
        if given is None:
            given = find_default_wait(tensorflow, processes=placement.processes)
        real = find_real_wait(given, tensorflow)
        if load is None or real >= load:
            return
        enough = find_wait_setting(load, tensorflow)
        most_real = find_real_wait(enough, tensorflow)
        fits = most_real >= load
        yield self.build_finding(
            placement.build_key("container.wait_time_seconds"),
            f"with wait_time_seconds {given} the container waits {real:.0f} s, but loading takes about "
            f"{load:.0f} s",
            given=given,
            allowed=f"{enough} or more" if fits else f"a load of at most {most_real:.0f} s",
            remedy="raise it, or remove it" if fits else "make the model smaller",
            reads=(f"models.{placement.variant.model}", placement.build_key("container")),
        )


class TimeoutRule(VariantRule):
    """A rule that compares a timeout of a variant with the estimated seconds."""

    def check_timeout(
        self, placement: Placement, name: str, shape: str, needed: float | None, what: str
    ) -> Findings:
        """Yield a finding if the timeout is too short.

        `shape` names the limit in the catalog whose maximum is SageMaker's own timeout.
        """
        given = getattr(placement.variant, name) or find_maximum(shape)
        if needed is None or needed <= given:
            return
        fits = needed <= find_maximum(shape)
        yield self.build_finding(
            placement.build_key(name),
            f"{what} takes about {needed:.0f} s, but {name} is {given}",
            given=given,
            allowed=f"{int(needed) + 1} to {find_maximum(shape)}"
            if fits
            else f"at most {find_maximum(shape)} s",
            remedy="raise it" if fits else "make the model smaller",
            reads=(f"models.{placement.variant.model}", placement.build_key("container")),
        )


class DownloadTimeout(TimeoutRule):
    """SageMaker discards an instance that has not unpacked its model in time and starts another.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProductionVariant.html
    (ModelDataDownloadTimeoutInSeconds); docs/decisions/0011 (rates)
    """

    acknowledgeable = True

    def check_part(self, placement: Placement) -> Findings:
        needed, what = estimate_download_seconds(placement.served), "fetching and unpacking"
        yield from self.check_timeout(placement, "download_timeout_seconds", DOWNLOAD, needed, what)


class StartupTimeout(TimeoutRule):
    """A container that does not answer /ping in time counts as failed, and so does the endpoint.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProductionVariant.html
    (ContainerStartupHealthCheckTimeoutInSeconds); docs/decisions/0011 (rates)
    """

    acknowledgeable = True

    def check_part(self, placement: Placement) -> Findings:
        needed = estimate_load_seconds(placement.served, processes=placement.processes)
        yield from self.check_timeout(
            placement, "startup_timeout_seconds", STARTUP, needed, "loading"
        )
