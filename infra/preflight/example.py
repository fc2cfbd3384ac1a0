"""Lines that several rules' examples share."""


def artifact(*, size_gib: int | None = None, folder: str = "run-17") -> str:
    """An archive in S3, with a hash that is none in particular; a line, without its end."""
    size = "" if size_gib is None else f", size_gib = {size_gib}"
    uri = f"s3://models/{folder}/model.tar.gz"
    return f'models.ranker.artifact = {{ uri = "{uri}", sha256 = "{"a" * 64}"{size} }}'
