"""Rules about the code folder: imports, installed packages, and secrets that must not be packed.

The models of a multi-model endpoint share packages.
"""

import contextlib
import math
from dataclasses import replace
from pathlib import Path

from infra.catalog import images
from infra.catalog.images import find_modules
from infra.packing import find_running_variants
from infra.parameters.environment import Environment
from infra.parameters.finding import Severity
from infra.parameters.model import ModelTable
from infra.parameters.sources import format_path
from infra.parameters.variant import find_variant_machine
from infra.policy.container import build_variables
from infra.policy.hosting import find_newest_version
from infra.policy.sizing import SERVERLESS_START_SECONDS
from infra.policy.update import SECONDS_PER_MINUTE
from infra.preflight.rule import Findings, ModelRule, Parts, Rule
from model_packaging import dependencies
from model_packaging.beside import WHEELS
from model_packaging.dependencies import list_vendored_versions, requirements_file
from model_packaging.inputs import find_needed_modules, needs_our_handler
from model_packaging.python_code import CodeFolder, check_code
from model_packaging.python_source import PythonSyntaxError, find_imports, parse
from model_packaging.refusal import PackagingError
from model_packaging.secret_files import find_secret_files
from model_packaging.tree import list_tree

# https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-inference-code.html (2026-11-24)
ANSWER_SECONDS = 60
# Clients of AWS's services; requests and urllib also ask the model server beside the code.
_CLIENTS = frozenset({"aiobotocore", "boto3", "botocore", "s3fs", "sagemaker"})


def _list_versions(environment: Environment, model_name: str) -> list[str]:
    """Return each TensorFlow version, such as 2.20, that runs the model; "" for own images."""
    versions = set()
    for variant in find_running_variants(environment, model_name):
        if environment.models[variant.model].image is not None:
            versions.add("")
            continue
        stated = environment.models[variant.model].tensorflow
        for instance in filter(None, map(find_variant_machine, variant.variants_per_type)):
            version = stated if stated in images.list_versions() else find_newest_version(instance)
            versions.add(".".join((version or "").split(".")[:2]))
    return sorted(versions)


def find_response_limit(environment: Environment) -> float:
    """Return how long the code may take for a response, in seconds."""
    return math.inf if environment.asynchronous else ANSWER_SECONDS


class CodeFolderRule(Rule):
    """A rule about each code folder: `check_part` takes its model's name and the folder."""

    def list_parts(self) -> Parts:
        return self.candidate.code_folders.items()


class Code(CodeFolderRule):
    """Code that cannot be imported kills the container minutes after the deployment began.

    The rule reads the code and never runs it. Imports are not checked for an image of your own.
    Source: infra/catalog/image_facts.json (modules), and the image's public source,
    https://github.com/aws/deep-learning-containers (read 2026-11-24)
    """

    # The rule reads the code and never runs it: the image's Python syntax, handlers and their
    # answers, every import, undefined names, files that hide the container's modules, and paths,
    # ports and variables that the container does not have. Imports are not checked for an image of
    # your own.

    acknowledgeable = True
    example = "# inference.py with import tensorflow"

    def check_part(self, name: str, folder: Path) -> Findings:
        variants = find_running_variants(self.environment, name)
        given = [
            v.environment.keys() | build_variables(v.container, default_model=None)
            for v in variants
        ]
        for version in _list_versions(self.environment, name):
            image = find_modules(version)
            for fault in check_code(
                folder,
                python=image.python if image else None,
                provided=image.modules if image else None,
                variables=set.intersection(*given) if image else None,
                seconds=find_response_limit(self.environment),
            ):
                place = f"{fault.file.relative_to(self.loaded.root)}:{fault.line}"
                key = f"models.{name}.code"
                if fault.severity == "not checked":
                    needs = f"AWS's image, whose modules are known: {place} {fault.problem}"
                    question = "whether the image has what the code imports"
                    yield self.build_unchecked(key, needs, question)
                    continue
                remedy = fault.remedy.replace("ENV", self.loaded.name)
                finding = self.build_finding(key, f"{place}: {fault.problem}", remedy=remedy)
                yield replace(finding, severity=Severity(fault.severity))


class HandlerModules(ModelRule):
    """Servable's handler needs NumPy and gRPC, which not every image has.

    Source: infra/catalog/image_facts.json (modules)
    """

    example = """\
models.ranker.handler = "servable"
models.ranker.tensorflow = "2.19\""""

    def check_part(self, name: str, model: ModelTable) -> Findings:
        folder = self.candidate.code_folders.get(name)
        if model.handler is None and not (folder and needs_our_handler(folder)):
            return
        if model.code and model.handler:
            folder = model.code.path  # also with nothing but requirements.txt
        for version in _list_versions(self.environment, name):
            image = find_modules(version)
            if image is None:
                needs = "AWS's image: the modules of other images are unknown"
                question = "whether the image has what the handler imports"
                yield self.build_unchecked(f"models.{name}.image", needs, question)
                continue
            missing = find_needed_modules() - image.modules
            if folder is not None and folder.is_dir():
                code = CodeFolder(folder)
                missing -= {
                    module
                    for module in missing
                    if code.has_vendored_module(module) or code.has_requirement_for(module)
                }
            if missing:
                yield self.build_finding(
                    f"models.{name}.tensorflow",
                    f"Servable's handler needs {', '.join(sorted(missing))}, which the image of "
                    f"TensorFlow {version} does not have",
                    allowed=f"{images.list_versions()[-1]}, whose image has all of them",
                    remedy="set that version, or write the packages into requirements.txt of the "
                    f"folder models.{name}.code, and run `servable package {self.loaded.name}`",
                )


class CodeNotVendored(CodeFolderRule):
    """Publishing uses the lock file and the wheels on this computer, and never the network."""

    example = "# code/requirements.txt without a requirements.lock"

    def check_part(self, name: str, folder: Path) -> Findings:
        model = self.environment.models[name]
        if model.install != "vendored":
            return
        versions = _list_versions(self.environment, name)
        # Two variants on images with two Python versions cannot share one lock: one is refused.
        pythons = {images.find_python(version) for version in versions} or {None}
        try:
            for python in sorted(pythons, key=str):
                dependencies.require_wheels(folder, wheels=self.loaded.root / WHEELS, python=python)
        except PackagingError as refusal:
            yield self.build_finding(
                f"models.{name}.code",
                f"{refusal.path.relative_to(self.loaded.root)}: {refusal.problem}",
                remedy=refusal.remedy.replace("ENV", self.loaded.name),
            )


class CodeInstalledAtStart(CodeFolderRule):
    """If pip runs in every container that starts, every scale-out depends on the internet.

    Source: requirements.txt in https://github.com/aws/sagemaker-tensorflow-serving-container, as
    serve.py of 2.20 and before installs it
    """

    severity = Severity.WARNING
    example = '# code/requirements.txt and models.ranker.install = "at start"'
    key = "models.{name}.install"
    problem = (
        "every container installs requirements.txt with pip before it answers: scaling is "
        "slower, and fails without the internet or when a package is gone"
    )
    allowed = "vendored"
    remedy = 'set install = "vendored" and run `servable package {self.loaded.name}`'

    def check_part(self, name: str, folder: Path) -> Findings:
        model = self.environment.models[name]
        if model.install == "at start" and dependencies.has_requirements(folder):
            finding = self.build_finding(name=name)
            running = find_running_variants(self.environment, name)
            if any(variant.serverless is not None for variant in running):
                minutes = SERVERLESS_START_SECONDS / SECONDS_PER_MINUTE
                limit = (
                    f"on Serverless Inference, pip and the model's load share {minutes:.0f} minutes"
                )
                finding = replace(finding, problem=f"{finding.problem}; {limit}")
            yield finding
            if (folder / "lib").is_dir():
                problem = f"{model.code}/lib exists, so the image never installs requirements.txt"
                yield self.build_finding(f"models.{name}.code", problem, allowed="one of both")


class CodeFailsAtStart(CodeFolderRule):
    """A line of requirements.txt that works here but not in a container, or that exposes a password.

    Source: https://pip.pypa.io/en/stable/reference/requirements-file-format/ (paths are relative to the
    working folder), and serve.py of 2.20 and before, which runs pip in another folder than code/
    """

    example = '# code/requirements.txt with ./wheels/a.whl, and models.ranker.install = "at start"'

    def check_part(self, name: str, folder: Path) -> Findings:
        if self.environment.models[name].install != "at start":
            return
        with contextlib.suppress(OSError):  # the rule Code reports it
            for file, line, problem, remedy in requirements_file.find_start_faults(folder):
                place = f"{format_path(file, self.loaded.root)}:{line}"
                yield self.build_finding(
                    f"models.{name}.code", f"{place}: {problem}", remedy=remedy
                )


class IsolationInstalls(ModelRule):
    """In a container without network access pip fails, and the container with it.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/mkt-algo-model-internet-free.html
    """

    example = """\
models.ranker.code = "code"
models.ranker.install = "at start"
models.ranker.network_isolation = true"""
    key = "models.{name}.install"
    problem = 'install = "at start" needs the internet, which network_isolation blocks'
    allowed = "vendored"
    remedy = 'set install = "vendored", or remove network_isolation'
    reads = ("models.{name}.network_isolation",)

    def check_part(self, name: str, model: ModelTable) -> Findings:
        isolated = model.network_isolation or self.environment.security.network_isolation
        if isolated and model.code and model.install == "at start":
            yield self.build_finding(name=name)


class IsolationCalls(CodeFolderRule):
    """Without network access, calls to AWS services time out, and the code fails.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/mkt-algo-model-internet-free.html
    """

    severity = Severity.WARNING
    example = "# inference.py with import boto3, and models.ranker.network_isolation = true"
    key = "models.{name}.code"
    problem = "{place} imports {module}, whose calls network_isolation blocks"
    allowed = "code that needs no network"
    remedy = "pack what it reads, or remove network_isolation"
    reads = ("models.{name}.network_isolation", "security.network_isolation")

    def check_part(self, name: str, folder: Path) -> Findings:
        model = self.environment.models[name]
        if not (model.network_isolation or self.environment.security.network_isolation):
            return
        for file in sorted(folder.glob("*.py")):
            with contextlib.suppress(OSError, PythonSyntaxError):  # the rule Code reports it
                for found in find_imports(parse(file.read_bytes(), python=None)):
                    module = found.module.partition(".")[0]
                    if module in _CLIENTS and not found.level:
                        place = f"{file.relative_to(self.loaded.root)}:{found.line}"
                        yield self.build_finding(name=name, place=place, module=module)


class CodeHoldsSecrets(ModelRule):
    """A secret in the code folder is packed: anyone who may read the archive can read it.

    Secrets are recognized by file name (`.env`, `*.key`, `credentials` and similar) and, in text files
    of at most 256 KiB, by content (private keys, tokens, passwords in URLs).
    Source: https://docs.aws.amazon.com/secretsmanager/latest/userguide/best-practices.html
    """

    acknowledgeable = True
    example = "# code/.env"
    key = "models.{name}.code"
    problem = (
        "{file}: looks like {looks_like}, and would be packed: anyone who may read "
        "the archive, and the code in the container, could read it"
    )
    remedy = (
        "move it out of the folder, and read the secret at run time from AWS Secrets "
        'Manager; or accept this file in [acknowledge]: "{self.id}:{file}" = "the reason"'
    )

    def check_part(self, name: str, model: ModelTable) -> Findings:
        if model.code is None:
            return
        try:
            secrets = list(find_secret_files(list_tree(model.code.path, name="code")))
        except (PackagingError, OSError, RuntimeError):
            return  # the rule Artefact reports it
        for path, looks_like in secrets:
            file = f"{model.code.rstrip('/')}/{path.relative_to(model.code.path).as_posix()}"
            finding = self.build_finding(file=file, name=name, looks_like=looks_like)
            yield replace(finding, subject=file)


class MultiModelPackages(ModelRule):
    """The models share one process, which imports the package of whichever model is loaded first.

    Source: python_service.py of the images, 2.20 and before (_import_custom_modules appends each
    model's code/lib to sys.path), https://github.com/aws/deep-learning-containers
    """

    # The order depends on the requests, so that the same model may answer differently on two
    # instances.

    acknowledgeable = True
    example = "# multi_model of two models whose requirements.lock files name two versions"
    allowed = "one version of a package in all models of the endpoint"

    def check_part(self, name: str, model: ModelTable) -> Findings:
        first: dict[str, tuple[str, str]] = {}
        for member in model.multi_model or ():
            for package, version in self._find_versions(member).items():
                other, others_version = first.setdefault(package, (member, version))
                if version != others_version:
                    yield self.build_finding(
                        f"models.{name}.multi_model",
                        f"{package} is {version} in the code of {member!r}, and "
                        f"{others_version} in that of {other!r}; they share one process",
                        given=member,
                        remedy=f"name one version in the requirements.txt of both, and run "
                        f"`servable package {self.loaded.name}`",
                    )

    def _find_versions(self, member: str) -> dict[str, str]:
        """Return the locked package versions of the model's code; none for an unknown model."""
        folder = self.candidate.code_folders.get(member)
        if folder is None or self.environment.models[member].install != "vendored":
            return {}
        try:
            return list_vendored_versions(folder)
        except PackagingError:
            return {}  # CodeNotVendored reports an invalid lock
