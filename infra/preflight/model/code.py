"""Rules about the code folder: imports, installed packages, and secrets that must not be packed.

The models of a multi-model endpoint share packages.
"""

import contextlib
import math
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
from infra.preflight.rule import Findings, ModelRule, Parts, Rule
from model_packaging.beside import WHEELS
from model_packaging.dependencies import requirements_file
from model_packaging.dependencies.wheels import list_vendored_versions, require_wheels
from model_packaging.inputs import find_needed_modules, needs_our_handler
from model_packaging.python_code import CodeFolder, check_code
from model_packaging.python_source import PythonSyntaxError, find_imports, parse
from model_packaging.refusal import PackagingError
from model_packaging.secret_files import find_secret_files
from model_packaging.tree import list_tree

# https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-inference-code.html (2026-11-24)
ANSWER_SECONDS = 60
# Clients of AWS's services; requests and urllib also ask the model server next to the code.
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
    """A rule about each code folder: `find_problems` takes its model's name and the folder."""

    def list_parts(self) -> Parts:
        return self.candidate.code_folders.items()


class Code(CodeFolderRule, acknowledgeable=True):
    """Code that cannot be imported kills the container minutes after the deployment began.

    The rule reads the code and never runs it. Imports are not checked for an image of your own.
    Source: infra/catalog/image_facts.json (modules), and the image's public source,
    https://github.com/aws/deep-learning-containers (read 2026-11-24)
    """

    def find_problems(self, name: str, folder: Path) -> Findings:
        variants, key = find_running_variants(self.environment, name), f"models.{name}.code"
        given = [
            variant.environment.keys() | build_variables(variant.container, default_model=None)
            for variant in variants
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
                if fault.severity == "not checked":
                    needs = f"AWS's image, whose modules are known: {place} {fault.problem}"
                    question = "whether the image has what the code imports"
                    yield self.build_unchecked(key, needs, question)
                    continue
                problem, severity = f"{place}: {fault.problem}", Severity(fault.severity)
                remedy = fault.remedy.replace("ENV", self.loaded.name)
                yield self.build_finding(key, problem, remedy=remedy, severity=severity)


class HandlerModules(ModelRule):
    """Servable's handler needs NumPy and gRPC, which not every image has.

    Source: infra/catalog/image_facts.json (modules)
    """

    key = "models.{name}.tensorflow"
    problem = (
        "Servable's handler needs {modules}, which the image of TensorFlow {version} does not have"
    )

    def find_problems(self, name: str, model: ModelTable) -> Findings:
        folder, newest = self.candidate.code_folders.get(name), images.list_versions()[-1]
        remedy = (
            f"set tensorflow to {newest}, whose image has all of them, or write the packages into "
            f"requirements.txt of the folder models.{name}.code, and run "
            f"`servable package {self.loaded.name}`"
        )
        if model.handler is None and not (folder and needs_our_handler(folder)):
            return
        if model.code and model.handler:
            folder = model.code.path  # also with nothing but requirements.txt
        code = CodeFolder(folder) if folder is not None and folder.is_dir() else None
        for version in _list_versions(self.environment, name):
            image = find_modules(version)
            if image is None:
                needs = "AWS's image: the modules of other images are unknown"
                question = "whether the image has what the handler imports"
                yield self.build_unchecked(f"models.{name}.image", needs, question)
                continue
            modules = ", ".join(
                module
                for module in sorted(find_needed_modules() - image.modules)
                if not code
                or not (code.has_vendored_module(module) or code.has_requirement_for(module))
            )
            if modules:
                yield self.build_finding(remedy=remedy, modules=modules, version=version)


class CodeNotVendored(CodeFolderRule):
    """Publishing uses the lock file and the wheels on this computer, and never the network."""

    def find_problems(self, name: str, folder: Path) -> Findings:
        if self.environment.models[name].install != "vendored":
            return
        versions = _list_versions(self.environment, name)
        # Two variants on images with two Python versions cannot share one lock: one is rejected.
        pythons = {images.find_python(version) for version in versions} or {None}
        try:
            for python in sorted(pythons, key=str):
                require_wheels(folder, wheels=self.loaded.root / WHEELS, python=python)
        except PackagingError as refusal:
            problem = f"{refusal.path.relative_to(self.loaded.root)}: {refusal.problem}"
            remedy = refusal.remedy.replace("ENV", self.loaded.name)
            yield self.build_finding(f"models.{name}.code", problem, remedy=remedy)


class CodeInstalledAtStart(CodeFolderRule, severity=Severity.WARNING):
    """If pip runs in every container that starts, every scale-out depends on the internet.

    Source: requirements.txt in https://github.com/aws/sagemaker-tensorflow-serving-container, as
    serve.py of 2.20 and before installs it
    """

    key = "models.{name}.install"
    problem = (
        "every container installs requirements.txt with pip before it responds: scaling is "
        "slower, and fails without the internet or when a package is gone"
    )
    remedy = 'set install = "vendored" and run `servable package {self.loaded.name}`'

    def find_problems(self, name: str, folder: Path) -> Findings:
        model = self.environment.models[name]
        if model.install == "at start" and requirements_file.has_requirements(folder):
            problem, running = self.problem, find_running_variants(self.environment, name)
            if any(variant.serverless is not None for variant in running):
                problem += "; on Serverless Inference, pip and the model's load share 3 minutes"
            yield self.build_finding(problem=problem)
            if (folder / "lib").is_dir():
                problem = f"{model.code}/lib exists, so the image never installs requirements.txt"
                yield self.build_finding(f"models.{name}.code", problem)


class CodeFailsAtStart(CodeFolderRule):
    """A line of requirements.txt that works here but not in a container, or that exposes a password.

    Source: https://pip.pypa.io/en/stable/reference/requirements-file-format/ (paths are relative to the
    working folder), and serve.py of 2.20 and before, which runs pip in another folder than code/
    """

    def find_problems(self, name: str, folder: Path) -> Findings:
        if self.environment.models[name].install != "at start":
            return
        with contextlib.suppress(OSError):  # the rule Code reports it
            for file, line, problem, remedy in requirements_file.find_start_faults(folder):
                problem = f"{format_path(file, self.loaded.root)}:{line}: {problem}"
                yield self.build_finding(f"models.{name}.code", problem, remedy=remedy)


class IsolationInstalls(ModelRule):
    """In a container without network access pip fails, and the container with it.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/mkt-algo-model-internet-free.html
    """

    key = "models.{name}.install"
    problem = 'install = "at start" needs the internet, which network_isolation blocks'
    remedy = 'set install = "vendored", or remove network_isolation'
    reads = ("models.{name}.network_isolation",)

    def find_problems(self, name: str, model: ModelTable) -> Findings:
        isolated = model.network_isolation or self.environment.security.network_isolation
        if isolated and model.code and model.install == "at start":
            yield self.build_finding()


class IsolationCalls(CodeFolderRule, severity=Severity.WARNING):
    """Without network access, calls to AWS services time out, and the code fails.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/mkt-algo-model-internet-free.html
    """

    key = "models.{name}.code"
    problem = "{place} imports {module}, whose calls network_isolation blocks"
    remedy = "pack what it reads, or remove network_isolation"
    reads = ("models.{name}.network_isolation", "security.network_isolation")

    def find_problems(self, name: str, folder: Path) -> Findings:
        model = self.environment.models[name]
        if not (model.network_isolation or self.environment.security.network_isolation):
            return
        for file in sorted(folder.glob("*.py")):
            with contextlib.suppress(OSError, PythonSyntaxError):  # the rule Code reports it
                for found in find_imports(parse(file.read_bytes(), python=None)):
                    module = found.module.partition(".")[0]
                    if module in _CLIENTS and not found.level:
                        place = f"{file.relative_to(self.loaded.root)}:{found.line}"
                        yield self.build_finding(place=place, module=module)


class CodeHoldsSecrets(ModelRule, acknowledgeable=True):
    """A secret in the code folder is packed: anyone who may read the archive can read it.

    Secrets are recognized by file name (`.env`, `*.key`, `credentials` and similar) and, in text files
    of at most 256 KiB, by content (private keys, tokens, passwords in URLs).
    Source: https://docs.aws.amazon.com/secretsmanager/latest/userguide/best-practices.html
    """

    key = "models.{name}.code"
    problem = (
        "{file}: looks like {looks_like}, and would be packed: anyone who may read "
        "the archive, and the code in the container, could read it"
    )
    remedy = (
        "move it out of the folder, and read the secret at run time from AWS Secrets "
        'Manager; or accept this file in [acknowledge]: "{self.id}:{file}" = "the reason"'
    )

    def find_problems(self, name: str, model: ModelTable) -> Findings:
        if model.code is None:
            return
        try:
            secrets = list(find_secret_files(list_tree(model.code.path, name="code")))
        except (PackagingError, OSError, RuntimeError):
            return  # the rule Artefact reports it
        for path, looks_like in secrets:
            file = f"{model.code.rstrip('/')}/{path.relative_to(model.code.path).as_posix()}"
            yield self.build_finding(subject=file, file=file, looks_like=looks_like)


class MultiModelPackages(ModelRule, acknowledgeable=True):
    """The models share one process, which imports the package of whichever model is loaded first.

    Source: python_service.py of the images, 2.20 and before (_import_custom_modules appends each
    model's code/lib to sys.path), https://github.com/aws/deep-learning-containers
    """

    key = "models.{name}.multi_model"
    remedy = "name one version in the requirements.txt of both, and run `servable package {self.loaded.name}`"

    def find_problems(self, name: str, model: ModelTable) -> Findings:
        first: dict[str, tuple[str, str]] = {}
        for member in model.multi_model or ():
            folder = self.candidate.code_folders.get(member)
            if folder is None or self.environment.models[member].install != "vendored":
                continue
            with contextlib.suppress(PackagingError):  # CodeNotVendored reports an invalid lock
                for package, version in list_vendored_versions(folder).items():
                    other, others_version = first.setdefault(package, (member, version))
                    if version != others_version:
                        problem = (
                            f"{package} is {version} in the code of {member!r}, and {others_version} in "
                            f"that of {other!r}; they share one process"
                        )
                        yield self.build_finding(problem=problem, given=member)
