"""Credentials in a text: tokens by the form that their issuer gives them, private keys, passwords in URLs.

The forms are those of gitleaks, of which the ones that a handler may hold are kept here:
https://github.com/gitleaks/gitleaks/blob/master/config/gitleaks.toml (2026-11-24). A library was not
taken: detect-secrets brings requests and PyYAML, and imports them at each start.
"""

import re

_PRIVATE_KEY = re.compile(
    # As its own file, or inside a string of JSON or Python; a header alone is a word in a program.
    rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"
    rb"(?:\s|\\[nr]|[\"'+])+(?:[A-Za-z-]+: [^\n]*\n\s*)*[A-Za-z0-9+/=]{40}"
)
_SECRET_ACCESS_KEY = re.compile(
    rb"aws_?secret_?access_?key[\"']?\s*[:=]\s*[\"']?([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=_.(])",
    re.IGNORECASE,
)
# What it is, a part that every one of them holds, and its form.
_TOKENS = (
    ("an AWS access key id", b"AKIA", rb"(?<![A-Za-z0-9/+])(AKIA[A-Z0-9]{16})(?![A-Za-z0-9/+=])"),
    ("a token of GitHub", b"gh", rb"\b(gh[pousr]_[0-9A-Za-z]{36})\b"),
    ("a token of GitHub", b"github_pat_", rb"\b(github_pat_\w{82})\b"),
    ("a token of GitLab", b"gl", rb"\b(gl(?:pat|dt|rt)-[\w-]{20,})"),
    ("a token of Slack", b"xox", rb"\b(xox[abeoprs]-[0-9A-Za-z-]{10,})"),
    (
        "a webhook of Slack",
        b"slack.",
        rb"(hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9+/]{43,56})",
    ),
    ("a token of Hugging Face", b"hf_", rb"\b(hf_[A-Za-z0-9]{34})\b"),
    ("a key of Stripe", b"k_", rb"\b([rs]k_(?:live|test|prod)_[0-9A-Za-z]{10,99})\b"),
    ("a key of OpenAI", b"T3BlbkFJ", rb"\b(sk-[\w-]{20,90}T3BlbkFJ[\w-]{20,74})"),
    ("a key of Anthropic", b"sk-ant-", rb"\b(sk-ant-(?:api|admin)\d\d-[\w-]{80,})"),
    ("a key of Google", b"AIza", rb"\b(AIza[\w-]{35})(?![\w-])"),
    ("a token of PyPI", b"pypi-A", rb"\b(pypi-AgEIcHlwaS5vcmc[\w-]{50,})"),
    ("a token of npm", b"npm_", rb"\b(npm_[0-9A-Za-z]{36})\b"),
    ("a token of Databricks", b"dapi", rb"\b(dapi[0-9a-f]{32}(?:-\d)?)\b"),
    ("a key of SendGrid", b"SG.", rb"\b(SG\.[\w-]{16,32}\.[\w-]{16,64})"),
    ("a key of Azure", b"Key=", rb"(?:AccountKey|SharedAccessKey)=([A-Za-z0-9+/]{42,}={0,2})"),
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


def secret_in(content: bytes) -> str | None:
    """Describe the first credential in a text, to be read after "looks like"; None if there is none."""
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
    """Whether it is none of an issuer's examples, and no placeholder."""
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


def is_named_secret(name: str, value: str) -> bool:
    """Whether a variable's name says that the value is a credential, and the value may be one."""
    if not value or _REFERENCE.fullmatch(value) or _NO_PASSWORD.fullmatch(value.encode()):
        return False
    if _NAMED_PASSWORD.fullmatch(name):
        return value.lower() not in ("true", "false", "none")
    return bool(_NAMED_SECRET.fullmatch(name) and _RANDOM.fullmatch(value))
