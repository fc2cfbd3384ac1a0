"""Credentials that lie in a code folder, before an archive carries them away."""

from collections.abc import Iterator
from dataclasses import replace

from infra.parameters.environment import Environment
from infra.parameters.finding import Finding
from infra.parameters.loading import Loaded
from infra.preflight.rule import Rule
from model_packaging.refusal import PackagingError
from model_packaging.secret_files import secret_files
from model_packaging.tree import tree


class CodeHoldsSecrets(Rule):
    """A secret in the code folder is packed: whoever may read the archive, and the container, has it.

    Found by name (`.env`, `*.key`, `*.pem` with more than certificates, `id_ed25519`,
    `credentials`, `.netrc`, `*.tfvars` and their like), and in texts of at most 256 KiB as a
    private key, an AWS secret access key or access key id. Accepted for one file at a time:
    `"code-holds-secrets:FILE" = "the reason"`.
    Source: https://docs.aws.amazon.com/secretsmanager/latest/userguide/best-practices.html
    """

    id = "code-holds-secrets"
    acknowledgeable = True
    example = "# code/.env"

    def check(self, loaded: Loaded, environment: Environment) -> Iterator[Finding]:
        for name, model in environment.models.items():
            if model.code is None:
                continue
            root = loaded.root / model.code
            try:
                found = list(secret_files(tree(root, name="code")))
            except (PackagingError, OSError, RuntimeError):
                continue  # ModelCanBePacked says so
            for one in found:
                file = f"{model.code.rstrip('/')}/{one.path.relative_to(root).as_posix()}"
                finding = self.finding(
                    loaded,
                    f"models.{name}.code",
                    model.code,
                    f"{file}: looks like {one.looks_like}, and would be packed: everybody who may read "
                    "the archive, and the code in the container, could read it",
                    remedy="move it out of the folder, and read the secret at run time from AWS Secrets "
                    f'Manager; or accept this file in [acknowledge]: "{self.id}:{file}" = "the reason"',
                )
                yield replace(finding, subject=file)
