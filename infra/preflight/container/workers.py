"""Rules about Gunicorn workers, computing threads, settings without effect, and the time to start."""

from collections.abc import Iterator

from infra.catalog.limits import find_documented_limit, find_maximum
from infra.parameters.finding import Severity
from infra.parameters.placement import Placement
from infra.policy import sizing
from infra.policy.container import ContainerSettings, find_worker_class, has_upstream_tensorflow
from infra.policy.sizing import DOWNLOAD, STARTUP
from infra.preflight.rule import ContainerRule, Findings, VariantRule
from model_packaging.inputs import needs_our_handler
from model_packaging.python_code import CodeFolder

OF_GUNICORN = [name for name in ContainerSettings.model_fields if name.startswith("gunicorn_")]
# Keys of infra/policy/container.py that the image does not know.
OF_OUR_HANDLER = ("transport", "grpc_from_bytes", "request_timeout_seconds", "timing_header")


class WorkersWithoutCode(ContainerRule, severity=Severity.WARNING):
    """Without code the image starts no Gunicorn: settings of Gunicorn have no effect.

    Source: serve.py of the images, 2.20 and before,
    https://github.com/aws/sagemaker-tensorflow-serving-container
    """

    example = "variants.primary.container.gunicorn_workers = 4"
    key = "container.{name}"
    problem = "{name} {value} has no effect: models.{placement.variant.model} has no code for Gunicorn to run"
    remedy = "remove it, or add code"
    reads = ("models.{placement.variant.model}",)

    def find_problems(self, placement: Placement) -> Findings:
        for name in OF_GUNICORN if placement.served.has_code is False else ():
            value = getattr(placement.variant.container, name)
            if value is not None:
                yield self.build_finding(name=name, value=value)


class WorkersMissing(ContainerRule, acknowledgeable=True):
    """Without a worker the container never answers /ping, and the endpoint fails.

    Source: observed with the code of image 2.20; the image's packages,
    https://github.com/aws/deep-learning-containers, docker/tensorflow/inference/2.20/cpu/uv.lock (2026-11-22)
    """

    key = "container.{name}"
    problem = "with {name} {value} no worker starts, and the container never responds"
    remedy = "remove it: Servable then chooses it"
    reads = ("models.{placement.variant.model}",)

    def find_problems(self, placement: Placement) -> Findings:
        container, served = placement.variant.container, placement.served
        if served.has_code is False or placement.model.image is not None:
            return
        if container.gunicorn_workers == 0:
            yield self.build_finding(name="gunicorn_workers", value=0, allowed="1 or more")
        kind = find_worker_class(container, placement.tensorflow, multi_model=served.multi_model)
        if kind in ("eventlet", "tornado"):
            folder = self.candidate.code_folders.get(placement.variant.model)
            code = None if folder is None else CodeFolder(folder)
            if not code or not (code.has_vendored_module(kind) or code.has_requirement_for(kind)):
                allowed = "sync, gevent, gthread: the image has no package for others"
                yield self.build_finding(name="gunicorn_worker_class", value=kind, allowed=allowed)


class ThreadsWithGevent(ContainerRule, severity=Severity.WARNING):
    """A gevent worker has one thread whatever is configured; only gthread starts more.

    Source: https://docs.gunicorn.org/en/stable/settings.html#threads
    """

    key = "container.gunicorn_threads"
    remedy = 'remove it, or set gunicorn_worker_class = "gthread"'
    reads = ("container.gunicorn_worker_class",)

    def find_problems(self, placement: Placement) -> Findings:
        container, multi_model = placement.variant.container, placement.served.multi_model
        kind = find_worker_class(container, placement.tensorflow, multi_model=multi_model)
        threads = container.gunicorn_threads or 1
        if threads > 1 and kind not in ("gthread", "sync"):
            problem = f"gunicorn_threads {threads} has no effect with worker class {kind}"
            yield self.build_finding(problem=problem)


class MultiModelOneWorker(VariantRule, severity=Severity.WARNING):
    """In multi-model mode a worker that takes one request at a time cannot answer while it loads a model.

    Up to 2.19 that is a worker of one thread; since 2.20 it is sync, or gthread with one thread.
    Source: serve.py, python_service.py and multi_model_utils.py of the image,
    https://github.com/aws/deep-learning-containers, read 2026-11-22: since 2.20 in
    scripts/docker/tensorflow/inference/sagemaker, before in
    tensorflow/inference/docker/build_artifacts/sagemaker
    """

    # Up to 2.19 threads don't help: two loads in threads of one worker may get the same ports.
    key = "container.gunicorn_workers"
    problem = (
        "gunicorn_workers {placement.workers} of one thread ({kind}, TensorFlow {placement.tensorflow}): no "
        "request is answered while a model loads"
    )
    allowed = "2 or more, or gevent with TensorFlow 2.20"
    remedy = "set 2, or choose an instance type on which 2 fit"
    reads = ("instance_type", "container.gunicorn_worker_class")

    def find_problems(self, placement: Placement) -> Findings:
        threads = placement.settings.gunicorn_threads or 1
        kind = find_worker_class(placement.settings, placement.tensorflow, multi_model=True)
        blocks = kind in ("sync", "gthread") and placement.workers == threads == 1
        if blocks and placement.served.multi_model:
            yield self.build_finding(given=placement.workers, kind=kind)


class WorkerTimeout(VariantRule, severity=Severity.WARNING):
    """SageMaker gives up after 60 s: a worker that is busy for longer is unavailable to other requests.

    Source: infra/catalog/documented_limits.json (answer_seconds)
    """

    key = "container.gunicorn_timeout_seconds"
    problem = "gunicorn_timeout_seconds {seconds} is longer than InvokeEndpoint waits"

    def find_problems(self, placement: Placement) -> Findings:
        given = placement.variant.container.gunicorn_timeout_seconds
        most = int(find_documented_limit("answer_seconds"))
        # A request to a queue may take up to an hour.
        if given is not None and given > most and not self.environment.kind.queued:
            yield self.build_finding(seconds=given, remedy=f"set {most}, or remove it")


class ThreadsOversubscribed(ContainerRule, severity=Severity.WARNING):
    """More computing threads than vCPUs compete for them: throughput falls and latency rises.

    Source: https://aws.amazon.com/blogs/machine-learning/maximize-tensorflow-performance-on-amazon-sagemaker-endpoints-for-real-time-inference/
    """

    problem = "{processes} processes x {name} {threads} are {product} threads on {vcpus} vCPUs"
    reads = ("container.tfs_processes", "instance_type")

    def find_problems(self, placement: Placement) -> Findings:
        vcpus, processes = placement.instance.vcpus, placement.processes
        for name in ("inter_op_threads", "intra_op_threads"):
            threads = getattr(placement.settings, name) or 0
            if processes * threads <= vcpus:
                continue
            # The key in the file is the cause; values that were chosen follow from it.
            chosen = getattr(placement.variant.container, name) is None
            lower = "lower it" if chosen else "lower it or tfs_processes"
            yield self.build_finding(
                f"container.{'tfs_processes' if chosen else name}",
                given=processes if chosen else threads,
                allowed=f"1 to {max(1, vcpus // (threads if chosen else processes))}",
                remedy=f"{lower}, or remove it: Servable then chooses it",
                processes=processes,
                name=name,
                threads=threads,
                product=processes * threads,
                vcpus=vcpus,
            )
            if chosen:
                return  # the other key would give the same finding


class SettingInert(ContainerRule, severity=Severity.WARNING):
    """A setting that nothing reads has no effect.

    Source: serve.py of the images, 2.20 and before,
    https://github.com/aws/sagemaker-tensorflow-serving-container;
    libtensorflow as Google builds it does not use OpenMP
    """

    example = "variants.primary.container.omp_threads = 4"
    remedy = "remove it"
    reads = ("instance_type", "models.{placement.variant.model}.tensorflow")

    def find_problems(self, placement: Placement) -> Findings:
        for name, reason in self._list_reasons(placement):
            given = getattr(placement.variant.container, name)
            if given is not None:
                problem = f"{name} {given} has no effect: {reason}"
                yield self.build_finding(f"container.{name}", problem)

    def _list_reasons(self, placement: Placement) -> Iterator[tuple[str, str]]:
        """Yield each setting that has no effect here, given or not, and why."""
        container, tensorflow = placement.variant.container, placement.tensorflow
        if has_upstream_tensorflow(tensorflow):
            yield "omp_threads", f"TensorFlow {tensorflow} has no OpenMP"
        default = sizing.find_default_wait(tensorflow, processes=placement.processes)
        wait = placement.settings.wait_time_seconds or default
        if not self._has_servable_handler(placement):
            why = f'models.{placement.variant.model} has no handler = "servable", which reads it'
            yield from ((name, why) for name in OF_OUR_HANDLER)
        elif (container.request_timeout_seconds or 0) > wait:
            yield "request_timeout_seconds", f"wait_time_seconds {wait} ends requests earlier"
        elif container.transport in ("rest", "grpc"):
            way = f"with transport {container.transport} every request is sent the same way"
            yield "grpc_from_bytes", way
        if not placement.instance.gpus:
            yield "gpu_memory_margin", f"{placement.instance.name} has no GPU"
        elif placement.processes == 1:
            yield "gpu_memory_margin", "it is read only with several processes"

    def _has_servable_handler(self, placement: Placement) -> bool:
        """Return whether the model has Servable's handler. An archive in S3 may have it."""
        for name in placement.model.multi_model or [placement.variant.model]:
            model, code = self.environment.models.get(name), self.candidate.code_folders.get(name)
            elsewhere = model is None or model.artifact or model.handler
            if elsewhere or (code and needs_our_handler(code)):
                return True
        return False


class WaitTooShort(VariantRule, acknowledgeable=True):
    """The container polls its models with doubling pauses, so it waits less than is configured.

    Source: wait_for_model in tfs_utils.py of the image, https://github.com/aws/deep-learning-containers,
    read 2026-11-22; infra/policy/sizing.py
    """

    key = "container.wait_time_seconds"
    problem = (
        "with wait_time_seconds {wait} the container waits {real:.0f} s, but loading takes about "
        "{load:.0f} s"
    )
    reads = ("models.{placement.variant.model}", "container")

    def find_problems(self, placement: Placement) -> Findings:
        tensorflow, processes = placement.tensorflow, placement.processes
        load = sizing.estimate_load_seconds(placement.served, processes=processes)
        wait = placement.settings.wait_time_seconds
        if wait is None:
            wait = sizing.find_default_wait(tensorflow, processes=processes)
        real = sizing.find_real_wait(wait, tensorflow)
        if load is None or real >= load:
            return
        enough = sizing.find_wait_setting(load, tensorflow)
        most = sizing.find_real_wait(enough, tensorflow)
        allowed, remedy = f"a load of at most {most:.0f} s", "make the model smaller"
        if most >= load:
            allowed, remedy = f"{enough} or more", "raise it, or remove it"
        yield self.build_finding(
            given=wait, allowed=allowed, remedy=remedy, wait=wait, real=real, load=load
        )


class TimeoutRule(VariantRule):
    """A rule that compares a timeout of a variant with the estimated seconds."""

    reads = ("models.{placement.variant.model}", "container")

    def check_timeout(
        self, placement: Placement, name: str, shape: str, needed: float | None, what: str
    ) -> Findings:
        """Yield a finding if the timeout is too short.

        `shape` names the limit in the catalog whose maximum is SageMaker's own timeout.
        """
        most = find_maximum(shape)
        given = getattr(placement.variant, name) or most
        if needed is not None and needed > given:
            problem = f"{what} takes about {needed:.0f} s, but {name} is {given}"
            allowed, remedy = f"at most {most} s", "make the model smaller"
            if needed <= most:
                allowed, remedy = f"{int(needed) + 1} to {most}", "raise it"
            yield self.build_finding(name, problem, given=given, allowed=allowed, remedy=remedy)


class DownloadTimeout(TimeoutRule, acknowledgeable=True):
    """SageMaker discards an instance that has not unpacked its model in time and starts another.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProductionVariant.html
    (ModelDataDownloadTimeoutInSeconds); docs/decisions/0011 (rates)
    """

    def find_problems(self, placement: Placement) -> Findings:
        needed, what = sizing.estimate_download_seconds(placement.served), "fetching and unpacking"
        yield from self.check_timeout(placement, "download_timeout_seconds", DOWNLOAD, needed, what)


class StartupTimeout(TimeoutRule, acknowledgeable=True):
    """A container that does not answer /ping in time counts as failed, and so does the endpoint.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProductionVariant.html
    (ContainerStartupHealthCheckTimeoutInSeconds); docs/decisions/0011 (rates)
    """

    def find_problems(self, placement: Placement) -> Findings:
        needed = sizing.estimate_load_seconds(placement.served, processes=placement.processes)
        yield from self.check_timeout(
            placement, "startup_timeout_seconds", STARTUP, needed, "loading"
        )
