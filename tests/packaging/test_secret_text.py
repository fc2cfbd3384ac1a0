"""Credentials are told from what only looks like them: in variables, in code and in addresses of indexes."""

import pytest

from model_packaging.secret_files import find_secret, is_secret_by_name

# Random characters, joined here so that no scanner takes this file for a leak.
MIXED = "Ab3dE6gH9jK2mN5pQ8rS1t" + "U4vW7xY0zA1bC2"
SECRETS = {
    "GITHUB": f"ghp_{MIXED}",
    "FINE_GRAINED": "github_pat_" + (MIXED * 3)[:82],
    "GITLAB": f"glpat-{MIXED[:20]}",
    "SLACK": f"xoxb-1234567890-{MIXED}",
    "HOOK": "https://hooks.slack.com/services/T01AB2CD3/B04EF5GH6/" + MIXED[:24],
    "HUGGING": "hf_" + "aBcDeFgHiJkLmNoPqRsT" + "uVwXyZaBcDeFgH",
    "STRIPE": f"sk_live_{MIXED[:24]}",
    "GOOGLE": f"AIza{MIXED[:35]}",
    "PYPI": "pypi-AgEIcHlwaS5vcmc" + MIXED * 2,
    "NPM": f"npm_{MIXED}",
    "AZURE": f"DefaultEndpointsProtocol=https;AccountKey={MIXED}{MIXED[:8]}==;",
    "JWT": f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.{MIXED}",
    "AWS_ACCESS_KEY_ID": "AKIA" + "Q3XKM7WZPLD5TRNB",
    "AWS_SECRET_ACCESS_KEY": "kZ3v9QmT7pLx" + "2RnW8sYb5JcD4hFgA6uE" + "1oKiVtXq",
    "DATABASE_URL": "postgresql://u:p@db.internal:5432/scores",
    "PIP": "--index-url https://u:p@pypi.corp/simple",
    "EXTRA": "--extra-index-url=https://deploy:t0ken@nexus.corp:8443/simple",
    "CACHE": "redis://:s3cr3t!@cache.local:6379/0",
    "MONGO": "mongodb+srv://app:Zx9@cluster0.mongodb.net/x?retryWrites=true",
    "AMQP": "amqp://guest:guest@mq.prod",
    "PROXY": "http://svc:pa%40ss@proxy.corp:3128",
    "DB_PASSWORD": "hunter2",
    "PGPASSWORD": "x1",
    "API_KEY": "d41d8cd98f00b204e9800998ecf8427e",
    "JWT_SECRET": "s3cr3tvalue9",
    "AUTH_TOKEN": "a1b2c3d4e5",
}
NONE = [
    ("SECRET_NAME", "prod/db"),
    ("DB_SECRET", "prod/db"),
    ("SECRET_ARN", "arn:aws:secretsmanager:eu-west-1:111111111111:secret:db-1a2b3c"),
    ("API_KEY", "arn:aws:ssm:eu-west-1:111111111111:parameter/key1"),
    ("DB_PASSWORD", "{{resolve:secretsmanager:db:SecretString:password}}"),
    ("DB_PASSWORD", "${DB_PASSWORD}"),
    ("PASSWORD_FILE", "/opt/ml/model/code/password"),
    ("PASSWORD_MIN_LENGTH", "8"),
    ("TOKENIZER", "bert-base-uncased1"),
    ("MAX_TOKENS", "512"),
    ("PAD_TOKEN", "[PAD]"),
    ("EOS_TOKEN", "</s>"),
    ("AUTH_TOKEN_HEADER", "X-Auth-Token-1"),
    ("PARTITION_KEY", "user_id1"),
    ("HASH_KEY", "abcdefgh1"),
    ("PWD", "/home/model-server"),
    ("MODEL_SHA256", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"),
    ("COMMIT", "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
    ("REQUEST_ID", "123e4567-e89b-12d3-a456-426614174000"),
    ("URL", "https://example.com:8080/a@b"),
    ("URL", "postgresql://user:password@host/db"),
    ("URL", "postgresql://scorer:${PW}@db.internal"),
    ("URL", "https://{user}:{password}@pypi.corp/simple"),
    ("URL", "https://%s:%s@pypi.corp/simple"),
    ("URL", "postgresql://postgres:postgres@localhost:5432/test"),
    ("URL", "http://localhost:8501/v1/models/m:predict"),
    ("GIT", "git+ssh://git@github.com/team/code.git@v1"),
    ("SENTRY", "https://0123456789abcdef@o1.ingest.sentry.io/2"),
    ("PATTERN", r"https?://[^:]+:[^@]+@host"),
    ("S3", "s3://bucket/a:b@c"),
    ("IMAGE", "111111111111.dkr.ecr.eu-west-1.amazonaws.com/serving:v1@sha256:0a"),
    ("KEY_ID", "AKIAIOSFODNN7EXAMPLE"),
    ("PLACEHOLDER", "ghp_" + "x" * 36),
    ("EMPTY_API_KEY", ""),
]


@pytest.mark.parametrize("name", SECRETS)
def test_a_credential_is_found(name: str) -> None:
    value = SECRETS[name]
    assert find_secret(f"{name}={value}".encode()) or is_secret_by_name(name, value)


@pytest.mark.parametrize(("name", "value"), NONE)
def test_what_is_no_credential_is_not_accused(name: str, value: str) -> None:
    found = (find_secret(f"{name}={value}".encode()), is_secret_by_name(name, value))
    assert found == (None, False)


def test_a_line_of_code_or_requirements_is_read_alike() -> None:
    for text, looks_like in [
        (f'TOKEN = "ghp_{MIXED}"\n', "a GitHub token"),
        ('URL = "postgresql://u:p@db.internal/x"\n', "a password in a URL"),
        ("--index-url https://u:p@pypi.corp/simple\nnumpy==1.26.4\n", "a password in a URL"),
        ('"""Connects as in postgresql://user:password@host/db."""\n', None),
        ('url = f"https://{user}:{password}@{host}/simple"\n', None),
    ]:
        assert find_secret(text.encode()) == looks_like
