"""Holds the texts that people read to the field's words, and to sentences with a subject and a verb.

python -m scripts.check_words

Read are docstrings, string literals of several words (help, messages), comments, pages, Makefile and
environment files; of tests the docstrings alone. docs/decisions is history, and is not read.
"""

import ast
import io
import linecache
import re
import sys
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("*.md", "docs/*.md", "examples/**/*.md")
PLAIN = ("Makefile", "environments/*.toml", "examples/**/*.toml")

# A text, a paragraph, a cell or what follows a colon that begins so has lost its subject or verb.
BEGINNING = re.compile(
    r"(?:\A|\n\s*\n|\n\s*[-*] |[:;|] )\s*(?:[-*|#>]+ )*(Of|That|As it|Where one is)\b"
)
# {words of ours: what the field says}. Words that are ours in one place and everybody's elsewhere
# (beside, places, gain, chains, decides, told, asked, said) cannot be counted and are not here.
WORDS: Mapping[str, str] = {
    r"(?:the|this|our|its|your|\w+'s) doubles?": "local container",
    r"embedded AWS|an? AWS on this (?:machine|computer)": "local AWS",
    r"demo-trouble|troubled?s?": "fault injection",
    r"gateways?": "gunicorn, or nginx stand-in",
    r"fronts?": "nginx stand-in",
    r"model server's parent": "model-server launcher",
    r"lifelines?": "parent watchdog",
    r"corrections? (?:of|to) moto|moto's corrections?": "moto patches",
    r"(?:is|are)(?: really)? worth(?! it| \w+ing)": "objective value",
    r"desks?": "load worker",
    r"conductors?": "coordinator",
    r"crowds?": "callers",
    r"yielding": "process priority",
    r"surroundings": "dependencies (log group, topic, role, bucket ...)",
    r"QueueStore|QueueTopics": "AsyncInference...",
    r"wake-?ups?|woken up": "scale from zero",
    r"seen (?:forms?|answers?)": "cache of parsed layouts",
    r"ways? back": "rollback; restore",
    r"day[ -]two": "operations",
    r"alarms? (?:is|are|was|were|goes|went|stays) (?:on|off)": "the alarm is in ALARM, or OK",
    r"what pages and what informs": "what wakes the on-call engineer and what informs",
    r"machines?": "instance type or instance (AWS); computer (here)",
}
# {words that stay: why}. They are taken out of a text before WORDS are looked for.
STAY: Mapping[str, str] = {
    r"`[^`\n]*`": "a name of code or a command",
    r"https?://\S+": "an address",
    r"(?:API|NAT|internet|transit|bad) gateways?": "AWS's services, and HTTP's 502",
    r"gateway (?:VPC )?endpoints?|gateway time-?out": "a kind of VPC endpoint, and HTTP's 504",
    r"(?:in|up) front|front of|front[ -]ends?": "a place, and no part of ours",
    r"machine[ -](?:learning|readable|code)": "the field's",
    r"(?:virtual|state|factori[sz]ation) machines?": "the field's",
    r"[\w-]+-machines?\b|[\w-]+-wake-up\b": "ids of rules and names of alarms, which stay",
    r"(?:gets|get|got|getting) (?:no|any) way back": "a direction",
    r"spurious wake-ups?": "the field's, of events without a cause",
}
# {file: why it is not read}
NOT_READ = {"scripts/check_words.py": "holds the words themselves"}

# What follows a dot or precedes a bracket is a name of code.
_WORDS = {
    word: re.compile(rf"(?<![\w.-])(?:{pattern})(?![\w(-])", re.IGNORECASE)
    for pattern, word in WORDS.items()
}
_STAY = re.compile("|".join(STAY), re.IGNORECASE)


@dataclass(frozen=True)
class Text:
    """`lines`: where it stands in the file, from 1. `begins`: it must begin as a sentence does."""

    file: str
    lines: range
    text: str
    begins: bool = True


def python_texts(source: str, name: str, *, docstrings_only: bool = False) -> Iterator[Text]:
    """Docstrings of modules, classes, functions and attributes; literals of several words; comments."""
    nodes = [*ast.walk(ast.parse(source))]
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    pieces = {id(part) for node in nodes if isinstance(node, ast.JoinedStr)
              for part in ast.walk(node) if part is not node}  # fmt: skip
    for node in nodes:
        if id(node) in pieces or not isinstance(node, ast.Constant | ast.JoinedStr):
            continue
        # An ellipsis stands for each value of an f-string.
        values = node.values if isinstance(node, ast.JoinedStr) else [node]
        parts = [value.value if isinstance(value, ast.Constant) else "…" for value in values]
        text = "".join(part for part in parts if isinstance(part, str))
        is_read = id(node) in docstrings or (not docstrings_only and " " in text.strip())
        if is_read and text:
            yield Text(name, range(node.lineno, (node.end_lineno or node.lineno) + 1), text)
    if not docstrings_only:
        yield from _comments(source, name)


def _comments(source: str, name: str) -> Iterator[Text]:
    """Each line by itself; the first of a block must begin as a sentence does."""
    last = -1
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            line, text = token.start[0], token.string.lstrip("#: ")
            yield Text(name, range(line, line + 1), text, begins=line - 1 != last)
            last = line


def page_texts(source: str, name: str) -> Iterator[Text]:
    """Headings, paragraphs, items and cells of Markdown; blocks of code too, which may begin so."""
    for token in MarkdownIt("commonmark").enable("table").parse(source):
        if token.type in ("inline", "fence", "code_block"):
            first, last = token.map or (0, 1)
            yield Text(
                name, range(first + 1, last + 1), token.content, begins=token.type == "inline"
            )


def texts(root: Path) -> Iterator[Text]:
    """Every text of the project at `root`."""
    packages = [root / "examples", *(file.parent for file in root.glob("*/__init__.py"))]
    sources = [*root.glob("app.py"), *(file for one in packages for file in one.rglob("*.py"))]
    for file in sorted(sources):
        name = file.relative_to(root).as_posix()
        tests = name.startswith("tests/")
        yield from python_texts(file.read_text("utf-8"), name, docstrings_only=tests)
    for file in sorted({file for pattern in PAGES for file in root.glob(pattern)}):
        yield from page_texts(file.read_text("utf-8"), file.relative_to(root).as_posix())
    for file in sorted({file for pattern in PLAIN for file in root.glob(pattern)}):
        for line, text in enumerate(file.read_text("utf-8").splitlines(), 1):
            if comment := re.search(r"#+ (.*)", text):
                yield Text(file.relative_to(root).as_posix(), range(line, line + 1), comment[1])


def problems(text: Text, root: Path) -> Iterator[str]:
    """A line for people for each."""

    def where(word: str) -> str:
        """The first line of the text that has the word; the text's first, where it stands on two."""
        whole = re.compile(rf"\b{re.escape(word)}\b")
        file = str(root / text.file)
        lines = (at for at in text.lines if whole.search(linecache.getline(file, at)))
        return f"{text.file}:{next(lines, text.lines.start)}"

    if text.begins and (begins := BEGINNING.search(text.text)):
        sentence = " ".join(text.text[begins.start(1) :].split())[:50]
        yield f"{where(begins[1])}: {sentence!r}: begin with a subject or an imperative"
    without = _STAY.sub(" ", " ".join(text.text.split()))
    for word, pattern in _WORDS.items():
        for match in pattern.finditer(without):
            yield f"{where(match[0])}: {match[0]!r}: say {word}"


def found_in(root: Path) -> Iterator[str]:
    """Problems of the project at `root`."""
    for text in texts(root):
        if text.file not in NOT_READ:
            yield from problems(text, root)


def main() -> int:
    found = list(found_in(ROOT))
    print("\n".join(found) or "no finding")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
