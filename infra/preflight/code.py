"""inference.py and what it needs, before a container tries to import it."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from infra.catalog import images
from infra.packing import variants_running
from infra.parameters.environment import Environment
from infra.parameters.finding import Finding, Severity
from infra.parameters.loading import Loaded
from infra.parameters.variant import machine_of
from infra.policy.hosting import newest_version
from infra.preflight.rule import Rule
from model_packaging import dependencies
from model_packaging.code_folder import CodeFolder
from model_packaging.image_modules import image_modules
from model_packaging.places import WHEELS
from model_packaging.python_code import check_code
from model_packaging.refusal import PackagingError
from model_packaging.request_path import needed_modules, wants_ours
from model_packaging.requirements_file import WANTED


def _versions(environment: Environment, model_name: str) -> list[str]:
    """TensorFlow versions whose images run the model, as 2.20; each once."""
    found = []
    for variant in variants_running(environment, model_name):
        stated = environment.models[variant.model].tensorflow
        instance = machine_of(variant)
        if instance is not None:
            version = stated if stated in images.versions() else newest_version(instance)
            found.append(".".join((version or "").split(".")[:2]))
    return sorted(set(found))


def _folder(loaded: Loaded, code: str | None) -> Path | None:
    """The code folder, where it has a handler or hooks for ours: that it lacks them is another
    rule's finding."""
    folder = loaded.root / code if code else None
    try:
        known = folder and ((folder / "inference.py").is_file() or wants_ours(folder))
    except OSError:
        return None  # that it cannot be entered too
    return folder if known else None


class Code(Rule):
    """Code that does not import kills the container minutes after the deployment began.

    Read, never run: handlers, the grammar of the image's Python, and every import.
    Source: model_packaging/image_modules.json
    """

    id = "code"
    acknowledgeable = True
    example = "# inference.py with import tensorflow"

    def check(self, loaded: Loaded, environment: Environment) -> Iterator[Finding]:
        for name, model in environment.models.items():
            folder = _folder(loaded, model.code)
            if folder is None:
                continue
            for version in _versions(environment, name):
                image = image_modules(version)
                if image is None:
                    continue
                for one in check_code(folder, python=image.python, provided=image.modules):
                    found = self.finding(
                        loaded,
                        f"models.{name}.code",
                        model.code,
                        f"{one.file.relative_to(loaded.root)}:{one.line}: {one.problem}",
                        remedy=one.remedy,
                    )
                    yield replace(found, severity=Severity(one.severity))


class HandlerModules(Rule):
    """Servable's handler needs NumPy and gRPC beside Python, which not every image holds.

    Source: model_packaging/image_modules.json
    """

    id = "handler-modules"
    example = """\
models.ranker.handler = "servable"
models.ranker.tensorflow = "2.19\""""

    def check(self, loaded: Loaded, environment: Environment) -> Iterator[Finding]:
        for name, model in environment.models.items():
            folder = _folder(loaded, model.code)
            if model.handler is None and not (folder and wants_ours(folder)):
                continue
            for version in _versions(environment, name):
                image = image_modules(version)
                missing = needed_modules() - image.modules if image else frozenset()
                if folder is not None:
                    code = CodeFolder(folder)
                    missing -= {one for one in missing if code.vendors(one) or code.requires(one)}
                if missing:
                    yield self.finding(
                        loaded,
                        f"models.{name}.tensorflow",
                        model.tensorflow,
                        f"Servable's handler needs {', '.join(sorted(missing))}, which the image of "
                        f"TensorFlow {version} does not hold",
                        allowed=f"{images.versions()[-1]}, whose image holds everything",
                        remedy="name that version, or add the packages to code/requirements.txt",
                    )


class CodeNotVendored(Rule):
    """Publishing uses the lock and the wheels on this machine, and never the network."""

    id = "code-not-vendored"
    example = "# code/requirements.txt without a requirements.lock"

    def check(self, loaded: Loaded, environment: Environment) -> Iterator[Finding]:
        for name, model in environment.models.items():
            folder = _folder(loaded, model.code)
            if folder is None or model.install != "vendored":
                continue
            versions = _versions(environment, name)
            # Two variants on images with two Pythons cannot share one lock: one of them is refused.
            pythons = {images.python(version) for version in versions} or {None}
            try:
                for python in sorted(pythons, key=str):
                    dependencies.require(folder, wheels=loaded.root / WHEELS, python=python)
            except PackagingError as refusal:
                yield self.finding(
                    loaded,
                    f"models.{name}.code",
                    model.code,
                    f"{refusal.path.relative_to(loaded.root)}: {refusal.problem}",
                    remedy=refusal.remedy.replace("ENV", loaded.name),
                )


class CodeInstalledAtStart(Rule):
    """pip in every container that starts: the internet in the way of every scale-out.

    Source: https://github.com/aws/sagemaker-tensorflow-serving-container (requirements.txt)
    """

    id = "code-installed-at-start"
    severity = Severity.WARNING
    acknowledgeable = True
    example = '# code/requirements.txt and models.ranker.install = "at start"'

    def check(self, loaded: Loaded, environment: Environment) -> Iterator[Finding]:
        for name, model in environment.models.items():
            folder = _folder(loaded, model.code)
            if folder and model.install == "at start" and (folder / WANTED).is_file():
                yield self.finding(
                    loaded,
                    f"models.{name}.install",
                    model.install,
                    "every container pip-installs requirements.txt before it answers: slower to scale, "
                    "dead without the internet or when a package is gone",
                    allowed="vendored",
                    remedy=f'set install = "vendored" and run: servable package {loaded.name}',
                )
