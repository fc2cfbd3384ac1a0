"""A preview: a temporary copy of an environment with its own stack, endpoint, tags and last day."""

from dataclasses import dataclass
from datetime import date
from pathlib import Path

from infra.catalog.limits import most
from infra.parameters.finding import Finding
from infra.parameters.loading import ValidFile
from servable.init.first_environment import foreseen, new_environment

EXPIRES = "expires"
PREVIEW_OF = "preview-of"


@dataclass(frozen=True, kw_only=True)
class Preview:
    name: str
    file: str
    """Path relative to the project."""
    text: str
    endpoint_name: str
    expires: date
    findings: list[Finding]


def preview(loaded: ValidFile, folder: Path, *, name: str, expires: date) -> Preview:
    """Return the preview's file, `name`.toml, which extends the environment. Raises `PackagingError`."""
    environment = loaded.environment
    file = new_environment(folder, name)
    # ranker-dev of environment dev becomes ranker-pr42.
    stem = environment.endpoint.name.removesuffix(f"-{loaded.name}")
    own = f"{stem[: most('EndpointName') - len(name) - 1].rstrip('-')}-{name}"
    text = _text(loaded, name, own, expires)
    shown = file.relative_to(loaded.root) if file.is_relative_to(loaded.root) else file
    return Preview(
        name=name,
        file=shown.as_posix(),
        text=text,
        endpoint_name=own,
        expires=expires,
        findings=foreseen(loaded.root, folder, name, {shown.as_posix(): text}),
    )


def _text(loaded: ValidFile, name: str, endpoint_name: str, expires: date) -> str:
    environment = loaded.environment
    quiet = [key for key in ("notify", "page") if getattr(environment.alarms, key)]
    first = (loaded.root / loaded.file).read_text(encoding="utf-8-sig").partition("\n")[0]
    lines = [
        *([first] if first.startswith("#:schema") else []),
        f"# A preview of {loaded.name}, until {expires}. When it is over: `cdk destroy '{name}/*'`,",
        "# and delete this file. The tag is for people and for jobs that look; nothing here ends by itself.",
        f'extends = "{loaded.name}"',
        *(
            ["production = false"]
            if environment.production or loaded.name.startswith("prod")
            else []
        ),
        "",
        "[endpoint]",
        f'name = "{endpoint_name}"',
        *(["protect = false"] if environment.endpoint.protect else []),
        *(["", "[alarms]", *(f"{key} = []" for key in quiet)] if quiet else []),
        "",
        "[tags]",
        f'{PREVIEW_OF} = "{loaded.name}"',
        f'{EXPIRES} = "{expires}"',
        "",
    ]
    return "\n".join(lines)
