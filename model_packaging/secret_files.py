"""Files of a code folder that look like credentials, found before an archive carries them away."""

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from model_packaging.secret_text import secret_in
from model_packaging.tree import Tree

# What a file is, by patterns of its name, or with a slash of its path's end; lower case.
_NAMES = {
    "a file of environment variables": (".env", ".env.*", "*.env", ".envrc"),
    "a private key of SSH": ("id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_*_sk", "*.ppk"),
    "a private key": ("*.key", "*.pem", "*.p8", "*.pk8"),
    "a key store": ("*.p12", "*.pfx", "*.pkcs12", "*.jks", "*.keystore", "*.kdbx"),
    "credentials": (
        "credentials",
        "credentials.json",
        "credentials.csv",
        "accesskeys.csv",
        "*_accesskeys.csv",
        "application_default_credentials.json",
        "client_secret*.json",
        "service-account*.json",
        "service_account*.json",
        "*/.aws/*",
        "*/.docker/config.json",
        ".dockercfg",
        ".git-credentials",
        ".htpasswd",
        ".my.cnf",
        ".netrc",
        "_netrc",
        ".npmrc",
        ".pgpass",
        ".pypirc",
        ".vault-token",
        "kubeconfig",
        "*.kubeconfig",
        "*/.kube/config",
        "secrets.ini",
        "secrets.json",
        "secrets.toml",
        "secrets.y*ml",
    ),
    "settings of Terraform, which hold its secrets": (
        "*.tfvars",
        "*.tfvars.json",
        "*.tfstate",
        "*.tfstate.*",
    ),
}
# Templates without values, which are there to be copied.
_TEMPLATES = (".example", ".sample", ".template", ".dist")
_MOST_BYTES = 256 << 10  # of a file whose content is looked at: credentials are short

_NPM_TOKEN = re.compile(rb"_(?:authToken|auth|password)\s*=\s*[^\s$]", re.IGNORECASE)
_BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----")
_PUBLIC_BLOCK = re.compile(
    rb"(?:.* )?(?:CERTIFICATE|CERTIFICATE REQUEST|PUBLIC KEY|CRL|PARAMETERS|PKCS7|CMS)"
)


@dataclass(frozen=True)
class SecretFile:
    """One file that would be packed, and what it looks like."""

    path: Path
    looks_like: str
    """To be read after "looks like"."""


def secret_files(tree: Tree) -> Iterator[SecretFile]:
    """Secret files of a listed folder, in the order of their names. Raises OSError.

    By name; a text of at most 256 KiB also by what no other text holds: a private key, a token
    of a known form, a password in a URL. A *.pem of certificates and public keys alone is none.
    Nor is what an installed package of lib/ lists as its own: whoever has the package has that file.
    """
    published = _published(tree)
    for entry in tree.files:
        if entry.name in published:
            continue
        looks_like = _by_name(entry.name)
        if looks_like is None and entry.status.st_size > _MOST_BYTES:
            continue
        with entry.path.open("rb") as file:
            content = file.read(_MOST_BYTES)
        if looks_like is None or _holds_none(entry.name, content):
            looks_like = None if b"\0" in content else secret_in(content)  # it is no text
        if looks_like is not None:
            yield SecretFile(entry.path, looks_like)


def _by_name(name: str) -> str | None:
    whole = name.lower()
    last = PurePosixPath(whole).name
    if last.endswith(_TEMPLATES) or last.endswith(".pub"):
        return None
    for looks_like, patterns in _NAMES.items():
        for pattern in patterns:
            if fnmatchcase(whole if "/" in pattern else last, pattern):
                return looks_like
    return None


def _holds_none(name: str, content: bytes) -> bool:
    """Whether the content of a file with a suspicious name shows that it is harmless."""
    last = PurePosixPath(name.lower()).name
    if not content.strip():
        return True
    if last == ".npmrc":
        return _NPM_TOKEN.search(content) is None
    blocks = _BLOCK.findall(content)
    return (
        last.endswith((".pem", ".key"))
        and bool(blocks)
        and all(map(_PUBLIC_BLOCK.fullmatch, blocks))
    )


def _published(tree: Tree) -> set[str]:
    """Names of the files that packages installed into lib/ list in their RECORD."""
    names = set()
    for entry in tree.files:
        parts = PurePosixPath(entry.name)
        if parts.name == "RECORD" and parts.parent.name.endswith(".dist-info"):
            installed = parts.parent.parent
            with entry.path.open(encoding="utf-8", errors="replace", newline="") as file:
                names |= {str(installed / row[0]) for row in csv.reader(file) if row}
    return names
