"""Why an input cannot become an archive."""

from pathlib import Path


class PackagingError(Exception):
    """`str()` is the whole sentence: the path, what is wrong, what to do."""

    def __init__(self, path: Path, problem: str, remedy: str) -> None:
        super().__init__(f"{path}: {problem}; {remedy}")
        self.path = path
        self.problem = problem
        self.remedy = remedy
