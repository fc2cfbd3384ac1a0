"""Credentials in a code folder are refused before they are packed, unless that file is accepted."""

import base64
import random
import subprocess
import sys
import tarfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import botocore
import certifi
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from infra.parameters.finding import Severity
from infra.preflight.check import check, select_errors
from model_packaging.secret_files import find_secret_files
from model_packaging.tree import list_tree
from tests.conftest import VALID, Environment
from tests.findings import messages
from tests.packaging.wheelhouse import wheel

WITH_CODE = VALID.replace('tensorflow = "2.20"', 'tensorflow = "2.20"\ncode = "code"')
KEY = ec.generate_private_key(ec.SECP256R1())
PRIVATE = KEY.private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
).decode()
OPENSSH = KEY.private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
).decode()
FORM = serialization.PublicFormat.SubjectPublicKeyInfo
PUBLIC = KEY.public_key().public_bytes(serialization.Encoding.PEM, FORM).decode()
# Random characters of the right shape, joined here so that no scanner takes this file for a leak.
SECRET = "kZ3v9QmT7pLx" + "2RnW8sYb5JcD4hFgA6uE" + "1oKiVtXq"
KEY_ID = "AKIA" + "Q3XKM7WZPLD5TRNB"
SUSPICIOUS = [
    ".env", ".ENV", ".env.local", ".env.production", "prod.env", ".envrc", "id_rsa", "id_ed25519",
    "id_ecdsa", "id_ecdsa_sk", "putty.ppk", "server.key", "Server.KEY", "tls.pem", "key.p8",
    "store.p12", "store.pfx", "store.jks", "app.keystore", "vault.kdbx", "credentials",
    "credentials.json", "credentials.csv", "my-user_accessKeys.csv", "service-account.json",
    "service-account-prod.json", "service_account.json", "client_secret_12.json",
    "application_default_credentials.json", ".aws/credentials", ".aws/config",
    ".docker/config.json", ".netrc", "_netrc", ".pypirc", ".npmrc", ".git-credentials", ".pgpass",
    ".my.cnf", ".htpasswd", "kubeconfig", ".kube/config", "prod.kubeconfig", "prod.tfvars",
    "prod.auto.tfvars.json", "terraform.tfstate", "terraform.tfstate.backup", "secrets.yaml",
    "secrets.yml", "secrets.toml", "secrets.json", "deep/er/.env", "lib/.env", ".vault-token",
]  # fmt: skip
HARMLESS = [
    "inference.py", "credentials.py", "secrets.py", "keys.txt", "env.py", "environment.yml",
    ".env.example", ".env.sample", ".env.template", ".env.dist", "id_rsa.pub", "tls.key.pub",
    "vocabulary.json", "config.json", "monkey", "donkey.txt", "keyboard", "environment",
    "Dockerfile", "requirements.txt", "tfvars.py", "aws.py", "kube.md", ".gitignore",
    ".dockerignore", "service.json",
]  # fmt: skip
ACCEPTED = '[acknowledge]\n"code-holds-secrets:code/.env" = "holds log levels only"\n'


def put(project: Path, name: str, content: str | bytes) -> Path:
    file = project / "code" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


def names(project: Path) -> list[str]:
    code = project / "code"
    found = find_secret_files(list_tree(code, name="code"))
    return [file.relative_to(code).as_posix() for file, _ in found]


def test_a_finding_names_the_file_what_it_looks_like_who_could_read_it_and_the_way_out(
    environment: Environment, project: Path
) -> None:
    put(project, ".env", "PASSWORD=x\n")
    problem = (
        "code/.env: looks like an environment variable file, and would be packed: "
        "anyone who may read the archive, and the code in the container, could read it"
    )
    remedy = (
        "move it out of the folder, and read the secret at run time from AWS Secrets Manager; "
        'or accept this file in [acknowledge]: "code-holds-secrets:code/.env" = "the reason"'
    )
    found = [one for one in check(environment(WITH_CODE)) if one.rule == "code-holds-secrets"]
    assert messages(found) == [("models.ranker.code", problem, "", remedy)]


def test_a_name_of_credentials_is_found_in_any_folder_and_case_but_no_other(tmp_path: Path) -> None:
    files = [name for name in SUSPICIOUS if "/" not in name]
    elsewhere = [f"{folder}/{name}" for folder in ("a/.hidden", "B/x y/ü") for name in files]
    expected = {*SUSPICIOUS, *elsewhere, *[f"upper/{name.upper()}" for name in files]}
    for name in expected:
        put(tmp_path, name, "//registry/:_authToken=abc\n")
    for name in HARMLESS:
        put(tmp_path, name, "nothing of interest\n")
    assert set(names(tmp_path)) == expected


HOLD_A_KEY = [
    ("settings.py", f'KEY = """{PRIVATE}"""\n'),
    ("settings.py", f"KEY = {PRIVATE!r}\n"),
    ("notes.txt", OPENSSH),
    ("bundle.crt", PUBLIC + PRIVATE),
    ("google.json", '{"private_key": "' + PRIVATE.replace("\n", "\\n") + '"}'),
    ("settings.ini", f"aws_secret_access_key = {SECRET}\n"),
    ("settings.py", f'boto3.client("s3", aws_secret_access_key="{SECRET}")\n'),
    ("run.sh", f"export AWS_SECRET_ACCESS_KEY={SECRET}\n"),
    ("config.json", f'{{"awsSecretAccessKey": "{SECRET}"}}'),
    ("settings.py", f'ID = "{KEY_ID}"\n'),
    ("ca.pem", PUBLIC + PRIVATE),
]
SPEAK_OF_KEYS: list[tuple[str, str | bytes]] = [
    ("checks.py", 'HEADER = b"-----BEGIN PRIVATE KEY-----"\nif HEADER in text: ...\n'),
    ("settings.py", 'aws_secret_access_key = os.environ["AWS_SECRET_ACCESS_KEY"]\n'),
    ("settings.py", "aws_secret_access_key = secrets_manager.get_secret_value_of_this_model()\n"),
    ("example.ini", "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY\n"),
    ("example.ini", "aws_secret_access_key = " + "x" * 40 + "\n"),
    ("example.py", 'ID = "AKIAIOSFODNN7EXAMPLE"\n'),
    ("words.txt", "AKIA\nAKIAmsoverylongwordinlower\n"),
    ("public.pem", PUBLIC),
    ("public.key", PUBLIC),
    (".npmrc", "fund=false\n//registry/:_authToken=${NPM_TOKEN}\n"),
    (".env", ""),
    ("blob.bin", b"\0\1" + KEY_ID.encode()),
    ("table.csv", b"1,2,3\n" * 50_000 + SECRET.encode()),
]


def test_a_text_with_a_key_is_found_under_any_name_but_none_about_keys(tmp_path: Path) -> None:
    held = [put(tmp_path, f"held-{n}/{name}", text) for n, (name, text) in enumerate(HOLD_A_KEY)]
    for number, (name, content) in enumerate(SPEAK_OF_KEYS):
        put(tmp_path, f"spoken-{number}/{name}", content)
    assert {tmp_path / "code" / name for name in names(tmp_path)} == set(held)


@pytest.mark.long
def test_certificates_libraries_and_random_text_are_no_secret(project: Path) -> None:
    """certifi's own, 140 certificates with comments between them."""
    put(project, "cacert.pem", Path(certifi.where()).read_bytes())
    put(project, "weights.txt", base64.encodebytes(random.Random(7).randbytes(150_000)))
    put(project, ".git/credentials", "x")
    put(project, "__pycache__/.env", "x")
    assert names(project) == []

    # botocore without its RECORD: credentials.py, cacert.pem, AWS's own examples in its data.
    library = list_tree(Path(botocore.__file__).parent, name="code/lib/botocore")
    assert [file.name for file, _ in find_secret_files(library)] == []

    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, KEY.public_key(), 1, now, now + timedelta(1))
        .sign(KEY, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
        .decode()
    )
    put(project, "alone.pem", certificate)
    put(project, "both.pem", certificate + PRIVATE)
    assert names(project) == ["both.pem"]


@pytest.mark.long
def test_what_an_installed_package_brings_is_no_secret_but_what_lies_beside_is(
    project: Path,
) -> None:
    files = {"tested/test.key": PRIVATE, "tested/keys.py": f"A = {PRIVATE!r}"}
    file = wheel(project, "tested", files=files)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    lib = project / "code" / "lib"
    subprocess.run([*command, "--target", str(lib), str(file)], check=True, timeout=60)
    put(project, "lib/tested/mine.key", PRIVATE)
    assert names(project) == ["lib/tested/mine.key"]


def test_an_acceptance_covers_its_file_alone(environment: Environment, project: Path) -> None:
    text = WITH_CODE + ACCEPTED
    assert [finding.rule for finding in check(environment(text))] == ["acknowledge-nothing"]

    put(project, ".env", "A=1\n")
    assert [finding.severity for finding in check(environment(text))] == [Severity.ACKNOWLEDGED]

    other = WITH_CODE + '[acknowledge]\ncode-holds-secrets = "all of them are fine"\n'
    refused = select_errors(check(environment(other)))
    named = [(one.rule, "code-holds-secrets:FILE" in one.remedy) for one in refused]
    assert named == [("code-holds-secrets", False), ("acknowledge-nothing", True)]

    put(project, "server.key", PRIVATE)
    refused = select_errors(check(environment(text)))
    assert [one.subject for one in refused] == ["code/server.key"]


def test_what_the_remedy_says_can_be_pasted(environment: Environment, project: Path) -> None:
    put(project, "ein schlüssel.key", "A=1\n")
    (finding,) = check(environment(WITH_CODE))
    line = finding.remedy.partition("[acknowledge]: ")[2]
    text = f"{WITH_CODE}[acknowledge]\n{line}\n"
    assert [one.severity for one in check(environment(text))] == [Severity.ACKNOWLEDGED]


@pytest.mark.long
def test_packing_refuses_a_secret_until_accepted(environment: Environment, project: Path) -> None:
    def package() -> subprocess.CompletedProcess[str]:
        command = [str(Path(sys.executable).with_name("servable")), "package", "prod"]
        return subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=100)

    put(project, ".env", "A=1\n")
    environment(WITH_CODE)
    ran = package()
    archives = list(project.rglob("*.tar.gz"))
    assert (ran.returncode, "code/.env" in ran.stderr, archives) == (1, True, [])

    environment(WITH_CODE + ACCEPTED)
    ran = package()
    assert ran.returncode == 0, ran.stderr
    (archive,) = project.rglob("*.tar.gz")
    with tarfile.open(archive) as opened:
        assert "code/.env" in opened.getnames()
