"""Completes the site's navigation; mkdocs.yml names this file as a hook."""

from pathlib import Path
from typing import Any

SUMMARY = "docs/decisions/README.md"


def on_config(config: Any) -> Any:
    """Add every decision below the page that introduces them."""
    pages = Path(config["docs_dir"])
    files = sorted((pages / SUMMARY).parent.glob("[0-9]*.md"))
    for sections in config["nav"]:
        for entries in sections.values():
            for entry in entries if isinstance(entries, list) else ():
                for title, page in entry.items():
                    if page == SUMMARY:
                        entry[title] = [page, *(str(file.relative_to(pages)) for file in files)]
    return config
