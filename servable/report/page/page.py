"""The page: everything in one file, pictures inside, nothing fetched."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2

from model_packaging.beside import beside
from model_packaging.private_folder import private_folder
from servable.report.page import curve_pictures, tables, trial_pictures
from servable.report.page.content import Content
from servable.report.page.tables import Table

PAGE = "report.html"
PICTURES = "pictures"
_TEMPLATE = Path(__file__).with_name("page.html")


@dataclass(frozen=True, kw_only=True)
class Picture:
    name: str
    alt: str
    png: bytes

    @property
    def base64(self) -> str:
        return base64.b64encode(self.png).decode()


@dataclass(frozen=True, kw_only=True)
class Tab:
    id: str
    name: str
    pictures: tuple[Picture, ...] = ()
    texts: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    diff: str = ""


def write(folder: Path, contents: Sequence[Content], *, diff: str = "") -> Path:
    """report.html and pictures/*.png; one content, or two to compare. Returns the page."""
    if len(contents) not in (1, 2):
        raise ValueError(f"{len(contents)} runs: a report shows one, or compares two")
    shown = tabs(contents, diff)
    private_folder(folder / PICTURES)
    for tab in shown:
        for picture in tab.pictures:
            with beside(folder / PICTURES / f"{picture.name}.png") as file:
                file.write(picture.png)
    with beside(folder / PAGE) as file:
        file.write(html(contents, shown).encode())
    return folder / PAGE


def html(contents: Sequence[Content], shown: Sequence[Tab]) -> str:
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    template = environment.from_string(_TEMPLATE.read_text(encoding="utf-8"))
    return template.render(
        title=" against ".join(content.label for content in contents),
        abouts=[{"sentence": tables.sentence(one), "where": tables.where(one)} for one in contents],
        relative=any(one.curve.asked.relative for one in contents),
        tabs=shown,
    )


def tabs(contents: Sequence[Content], diff: str = "") -> list[Tab]:
    def picture(name: str, alt: str, png: bytes) -> Picture:
        return Picture(name=name, alt=alt, png=png)

    found = [
        Tab(
            id="throughput",
            name="Throughput",
            pictures=(
                picture(
                    "throughput",
                    "requests per second and latency against load, with the knee",
                    curve_pictures.throughput(contents),
                ),
            ),
            tables=tuple(tables.steps(content) for content in contents),
        ),
        Tab(
            id="latency",
            name="Latency",
            pictures=(
                picture(
                    "latency",
                    "share of requests slower than a latency",
                    curve_pictures.distribution(contents),
                ),
            ),
        ),
        Tab(
            id="trials",
            name="Trials",
            texts=tuple(f"{one.label} ended: {one.stopped}." for one in contents if one.stopped),
            pictures=(picture("trials", "every trial's value", trial_pictures.trials(contents)),),
            tables=tuple(tables.trials(content) for content in contents if content.trials),
        ),
        Tab(
            id="settings",
            name="Settings",
            pictures=tuple(
                picture(
                    "effects" if number == 0 else f"effects-{number + 1}",
                    "what each value of each setting does",
                    trial_pictures.effects(content),
                )
                for number, content in enumerate(contents)
            ),
        ),
        Tab(
            id="cost",
            name="Cost",
            pictures=(
                picture("cost", "cost against p99 of each trial", trial_pictures.cost(contents)),
            ),
        ),
        Tab(
            id="machine",
            name="CPU and memory",
            pictures=(
                picture("machine", "CPU and memory against load", curve_pictures.machine(contents)),
            ),
        ),
    ]
    advice = [one for one in contents if one.recommendation is not None]
    if advice:
        found.append(
            Tab(
                id="recommendation",
                name="Recommendation",
                texts=tuple(line for one in advice for line in tables.advice(one)),
                tables=tuple(tables.changes(one) for one in advice),
                diff=diff,
            )
        )
    return found
