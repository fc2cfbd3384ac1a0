"""Find credentials in a text, and files of a code folder that contain them, before they are packed.

The patterns of tokens are those of gitleaks that a handler may contain:
https://github.com/gitleaks/gitleaks/blob/master/config/gitleaks.toml (2026-11-24). No library is used:
detect-secrets requires requests and PyYAML, and imports them at each start.
"""

import csv
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from model_packaging.tree import Tree

_PRIVATE_KEY = re.compile(
    # As its own file, or inside a string of JSON or Python; a header alone isn't a key.
    rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"
    rb"(?:\s|\\[nr]|[\"'+])+(?:[A-Za-z-]+: [^\n]*\n\s*)*[A-Za-z0-9+/=]{40}"
)
_SECRET_ACCESS_KEY = re.compile(
    rb"aws_?secret_?access_?key[\"']?\s*[:=]\s*[\"']?([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=_.(])",
    re.IGNORECASE,
)
# What it is, a part that each of them contains, and its pattern.
_SLACK = rb"(hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9+/]{43,56})"
_TOKENS = (
    ("an AWS access key id", b"AKIA", rb"(?<![A-Za-z0-9/+])(AKIA[A-Z0-9]{16})(?![A-Za-z0-9/+=])"),
    ("a GitHub token", b"gh", rb"\b(gh[pousr]_[0-9A-Za-z]{36})\b"),
    ("a GitHub token", b"github_pat_", rb"\b(github_pat_\w{82})\b"),
    ("a GitLab token", b"gl", rb"\b(gl(?:pat|dt|rt)-[\w-]{20,})"),
    ("a Slack token", b"xox", rb"\b(xox[abeoprs]-[0-9A-Za-z-]{10,})"),
    ("a Slack webhook", b"slack.", _SLACK),
    ("a Hugging Face token", b"hf_", rb"\b(hf_[A-Za-z0-9]{34})\b"),
    ("a Stripe key", b"k_", rb"\b([rs]k_(?:live|test|prod)_[0-9A-Za-z]{10,99})\b"),
    ("an OpenAI key", b"T3BlbkFJ", rb"\b(sk-[\w-]{20,90}T3BlbkFJ[\w-]{20,74})"),
    ("an Anthropic key", b"sk-ant-", rb"\b(sk-ant-(?:api|admin)\d\d-[\w-]{80,})"),
    ("a Google key", b"AIza", rb"\b(AIza[\w-]{35})(?![\w-])"),
    ("a PyPI token", b"pypi-A", rb"\b(pypi-AgEIcHlwaS5vcmc[\w-]{50,})"),
    ("an npm token", b"npm_", rb"\b(npm_[0-9A-Za-z]{36})\b"),
    ("a Databricks token", b"dapi", rb"\b(dapi[0-9a-f]{32}(?:-\d)?)\b"),
    ("a SendGrid key", b"SG.", rb"\b(SG\.[\w-]{16,32}\.[\w-]{16,64})"),
    ("an Azure key", b"Key=", rb"(?:AccountKey|SharedAccessKey)=([A-Za-z0-9+/]{42,}={0,2})"),
    ("a signed token (JWT)", b".eyJ", rb"\b(eyJ[\w-]{15,}\.eyJ[\w-]{15,}\.[\w-]{20,})"),
)
# User and password of a URL; a character of a placeholder or of a pattern ends the match.
_URL = re.compile(
    rb"\b[a-z][a-z0-9+.-]*://[^\s/:@'\"`<>{}$()\[\]\\|^]*:"
    rb"([^\s/:@'\"`<>{}$()\[\]\\|^]+)@([\w.-]+)",
    re.IGNORECASE,
)
_NO_PASSWORD = re.compile(
    rb"%\w|%\(.*|[*.x_-]+|your.*|my.?pass.*|(?:the.?)?(?:pass(?:word|wd)?|pwd|pw|secret|token)",
    re.IGNORECASE,
)
# https://www.rfc-editor.org/rfc/rfc2606 (names for examples)
_NO_HOST = re.compile(
    rb"localhost|127\.[\d.]+|host(?:name)?|(?:.*\.)?(?:example(?:\.(?:com|net|org))?|test|invalid)",
    re.IGNORECASE,
)
_LEAST_CHARACTERS = 8  # different ones: fewer are a placeholder such as ghp_xxxx


def find_secret(content: bytes) -> str | None:
    """Describe the first credential in a text, to be read after "looks like", or return None."""
    if _PRIVATE_KEY.search(content):
        return "a private key"
    if any(map(_is_secret, _SECRET_ACCESS_KEY.findall(content))):
        return "an AWS secret access key"
    for looks_like, part, pattern in _TOKENS:
        # Patterns are compiled only for texts that may hold such a token.
        if part in content and any(map(_is_secret, re.findall(pattern, content))):
            return looks_like
    for password, host in _URL.findall(content):
        if not _NO_PASSWORD.fullmatch(password) and not _NO_HOST.fullmatch(host):
            return "a password in a URL"
    return None


def _is_secret(token: bytes) -> bool:
    """Return whether the token is neither an issuer's example nor a placeholder."""
    return b"EXAMPLE" not in token and len(set(token)) > _LEAST_CHARACTERS


# The last words of a variable's name. TOKEN alone may be a token of a vocabulary.
_NAMED_PASSWORD = re.compile(r".*(PASSWORD|PASSWD|PASSPHRASE|_PWD)", re.IGNORECASE)
_NAMED_SECRET = re.compile(
    r"(.*_)?(SECRET|SECRET_?KEY|API_?KEY|API_?SECRET|ACCESS_?KEY|PRIVATE_?KEY"
    r"|(AUTH|ACCESS|API|BEARER|REFRESH|BOT|SESSION|GITHUB|GITLAB|HF|SLACK|DEPLOY)_?TOKEN)",
    re.IGNORECASE,
)
# Names of where a secret is kept: ARNs, paths, references and addresses.
_REFERENCE = re.compile(r"arn:.*|.*/.*|\{\{.*|\$.*|(ssm|secretsmanager|env|vault):.*", re.DOTALL)
_RANDOM = re.compile(r"(?=.*[A-Za-z])(?=.*[0-9])\S{8,}")


def is_secret_by_name(name: str, value: str) -> bool:
    """Return whether a variable's name marks it as a credential, and the value may be one."""
    if not value or _REFERENCE.fullmatch(value) or _NO_PASSWORD.fullmatch(value.encode()):
        return False
    if _NAMED_PASSWORD.fullmatch(name):
        return value.lower() not in ("true", "false", "none")
    return bool(_NAMED_SECRET.fullmatch(name) and _RANDOM.fullmatch(value))


# What a file is, by patterns of its name, or of its path if they contain a slash; in lower case.
_CREDENTIALS = """
credentials credentials.json credentials.csv accesskeys.csv *_accesskeys.csv
application_default_credentials.json client_secret*.json service-account*.json service_account*.json
*/.aws/* */.docker/config.json .dockercfg .git-credentials .htpasswd .my.cnf .netrc _netrc .npmrc .pgpass
.pypirc .vault-token kubeconfig *.kubeconfig */.kube/config secrets.ini secrets.json secrets.toml
secrets.y*ml
"""
_TERRAFORM = ("*.tfvars", "*.tfvars.json", "*.tfstate", "*.tfstate.*")
_NAMES = {
    "an environment variable file": (".env", ".env.*", "*.env", ".envrc"),
    "an SSH private key": ("id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_*_sk", "*.ppk"),
    "a private key": ("*.key", "*.pem", "*.p8", "*.pk8"),
    "a key store": ("*.p12", "*.pfx", "*.pkcs12", "*.jks", "*.keystore", "*.kdbx"),
    "credentials": _CREDENTIALS.split(),
    "Terraform settings that contain secrets": _TERRAFORM,
}
# Endings of names that are harmless: templates without values, and public keys.
_HARMLESS = (".example", ".sample", ".template", ".dist", ".pub")
_MOST_BYTES = 256 << 10  # of a file whose content is searched: credentials are short

_NPM_TOKEN = re.compile(rb"_(?:authToken|auth|password)\s*=\s*[^\s$]", re.IGNORECASE)
_BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----")
_PUBLIC_BLOCK = re.compile(
    rb"(?:.* )?(?:CERTIFICATE|CERTIFICATE REQUEST|PUBLIC KEY|CRL|PARAMETERS|PKCS7|CMS)"
)


def find_secret_files(tree: Tree) -> Iterator[tuple[Path, str]]:
    """Yield (path, what it looks like) of the secret files of a listed folder. Raises OSError.

    A file is recognized by its name, and a text of at most 256 KiB also by a private key, a token of a known
    form, or a password in a URL. A *.pem with only certificates and public keys isn't a secret file, nor is
    a file that an installed package of lib/ lists as its own: everyone can get it.
    """
    published = _find_published_files(tree)
    for entry in tree.files:
        looks_like = _match_name(entry.name)
        is_searched = looks_like is not None or entry.status.st_size <= _MOST_BYTES
        if entry.name in published or not is_searched:
            continue
        with entry.path.open("rb") as file:
            content = file.read(_MOST_BYTES)
        if looks_like is None or _is_harmless(entry.name, content):
            looks_like = None if b"\0" in content else find_secret(content)  # not text
        if looks_like is not None:
            yield entry.path, looks_like


def _match_name(name: str) -> str | None:
    whole = name.lower()
    last = PurePosixPath(whole).name
    if last.endswith(_HARMLESS):
        return None
    for looks_like, patterns in _NAMES.items():
        if any(fnmatchcase(whole if "/" in pattern else last, pattern) for pattern in patterns):
            return looks_like
    return None


def _is_harmless(name: str, content: bytes) -> bool:
    """Return whether the content of a file with a suspicious name shows that it is harmless."""
    last = PurePosixPath(name.lower()).name
    if not content.strip():
        return True
    if last == ".npmrc":
        return _NPM_TOKEN.search(content) is None
    blocks = _BLOCK.findall(content) if last.endswith((".pem", ".key")) else []
    return bool(blocks) and all(map(_PUBLIC_BLOCK.fullmatch, blocks))


def _find_published_files(tree: Tree) -> set[str]:
    """Return the names of files that packages installed into lib/ list in their RECORD."""
    names = set()
    for entry in tree.files:
        parts = PurePosixPath(entry.name)
        if parts.name == "RECORD" and parts.parent.name.endswith(".dist-info"):
            installed = parts.parent.parent
            with entry.path.open(encoding="utf-8", errors="replace", newline="") as file:
                names |= {str(installed / row[0]) for row in csv.reader(file) if row}
    return names
