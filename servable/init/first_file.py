"""The text of a first environment file, with the reasons for what is in it."""

import json

from infra.catalog import images
from infra.catalog.instances import Instance
from servable.init.first_machine import shown_size


def first_file(
    name: str,
    model: str,
    saved_model: str,
    version: int | None,
    machine: Instance,
    size_gib: float,
    account: str,
    region: str,
    reasons: dict[str, str],
    body: str | None,
    request: str,
) -> str:
    newest = next(one for one in reversed(images.versions()) if one.count(".") == 1)
    quoted = json.dumps
    lines = [
        "#:schema ./schema.json",
        f"# Written by `servable init` for {saved_model}, {shown_size(size_gib)}.",
        "# docs/parameters.md has every key; `servable check --explain` shows what is chosen for the rest.",
        f"account = {quoted(account)}",
        f"region  = {quoted(region)}",
        "",
        "[endpoint]",
        f"name = {quoted(name)}",
        "",
        f"[models.{model}]",
        f"saved_model = {quoted(saved_model)}",
        *([f"version     = {version}"] if version is not None else []),
        f"tensorflow  = {quoted(newest)}  # {reasons['tensorflow']}",
        *([f"warm_up     = [{quoted(request)}]"] if body is not None else []),
        "",
    ]
    if body is not None:
        answer = request.replace("request", "answer")
        lines += [
            f"# Made up: put a real one there. The answer: `servable serve {name}`, and then",
            f"# servable invoke {name} --url URL --body {request} --output {answer}",
            f"[models.{model}.golden]",
            f"request = {quoted(request)}",
            f"answer  = {quoted(answer)}",
            "",
        ]
    lines += [
        "[variants.primary]",
        f"model         = {quoted(model)}",
        *[f"# {line}" for line in reasons["instance_type"].split(". ")],
        f"instance_type = {quoted(machine.name)}",
        "min_instances = 1   # the cheapest that answers; production wants 2, and scaling",
        "",
        "# [alarms]",
        "# p99_latency_ms = 100   # only you know the objective",
        '# notify = ["oncall@example.com"]',
    ]
    return "\n".join(lines) + "\n"
