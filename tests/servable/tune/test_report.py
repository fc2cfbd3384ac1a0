"""The report: one file, readable, and every tab of it opens."""

import dataclasses
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from PIL import Image
from selenium.webdriver.common.by import By

from servable.load.objective import find_knee
from servable.load.page import write_load_report
from servable.measured import document
from servable.measured.document import About, ReportTable, Row, Tab
from servable.measured.precision import Latencies
from servable.report.command import add_start_labels, report
from servable.tune import page
from servable.tune.page import RUN, Content
from tests.chromium import chromium
from tests.servable.tune.example_content import OBJECTIVE, content
from tests.servable.tune.measured import require

PICTURES = ["latency", "throughput", "trials"]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return page.write(
        tmp_path_factory.mktemp("report"), [content(trials=9)], diff="+tfs_processes = 4\n"
    )


@pytest.mark.long
def test_the_page_is_one_file_with_pictures_beside_it(written: Path) -> None:
    text = re.sub(r"base64,[^\"]*", "", written.read_text(encoding="utf-8"))
    assert not re.search(r"(https?:)?//\w|url\(|@import|<link[^>]+href=\"(?!data:)", text)
    assert sorted(file.stem for file in (written.parent / "pictures").glob("*.png")) == PICTURES
    for name in PICTURES:
        with Image.open(written.parent / "pictures" / f"{name}.png") as picture:
            assert picture.width == 1200
    assert "Relative: measured on this computer" in written.read_text(encoding="utf-8")


def test_a_text_is_never_markup(tmp_path: Path) -> None:
    text = "<script>alert(1)</script>"
    table = ReportTable(text, [text], [Row([text, (text, 1.0)])])
    tab = Tab("tab", text, texts=[text], tables=[table], diff=text)
    file = document.write(tmp_path, [tab], title=text, abouts=[About(text, text)])
    assert text not in file.read_text(encoding="utf-8")


@pytest.mark.long
def test_a_load_test_has_no_tab_of_a_search_and_two_runs_tell_when_they_began(
    tmp_path: Path,
) -> None:
    alone = dataclasses.replace(content(trials=9), trials=(), recommendation=None)
    assert [tab.id for tab in page.build_tabs([alone])] == ["throughput", "latency"]

    one = content(trials=9)
    later = dataclasses.replace(one.curve.asked, started_at="2026-11-22T09:30:00Z")
    other = dataclasses.replace(one, curve=dataclasses.replace(one.curve, asked=later))
    assert [each.label for each in add_start_labels([one, other])] == [
        "ranker, simulated, 2026-11-21 00:00",
        "ranker, simulated, 2026-11-22 09:30",
    ]
    ran = CliRunner().invoke(report, [str(tmp_path)] * 3)
    assert (ran.exit_code, "3 runs are too many" in ran.output) == (2, True)


@pytest.mark.long
def test_a_run_without_a_step_that_counts_has_a_page_too(tmp_path: Path) -> None:
    curve = content(trials=9).curve
    empty = dataclasses.replace(curve, steps=())
    assert write_load_report(tmp_path, empty, None) is None
    page.write(tmp_path, [Content(label="refused", curve=empty, knee=None)])
    assert (tmp_path / "pictures" / "throughput.png").exists()

    late = dataclasses.replace(curve.steps[0], send_lags=Latencies.from_milliseconds([60.0] * 101))
    refused = dataclasses.replace(curve, steps=(late,))
    page_file = require(write_load_report(tmp_path, refused, find_knee(refused, OBJECTIVE)))
    why = "no step is valid, because every step&#39;s requests were sent late."
    assert why in page_file.read_text(encoding="utf-8")

    failed = dataclasses.replace(
        curve.steps[0], latencies=Latencies.from_milliseconds([]), errors={"400 Bad Request": 1_796}
    )
    curve = dataclasses.replace(curve, steps=(failed,))
    page_file = require(write_load_report(tmp_path, curve, None))
    assert "1,796" in page_file.read_text(encoding="utf-8")


@pytest.mark.long
def test_two_runs_are_in_one_page(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        content(trials=9).write(tmp_path / name / RUN)
    runs = [str(tmp_path / name) for name in ("one", "other")]
    assert report.main([*runs, "--output", str(tmp_path / "both")], standalone_mode=False) == 0
    text = (tmp_path / "both" / document.PAGE).read_text(encoding="utf-8")
    assert "ranker, simulated against ranker, simulated" in text


def test_a_folder_without_a_run_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report.main([str(tmp_path)], standalone_mode=False) == 2
    assert f"{tmp_path}: has neither run.json nor curve.json" in capsys.readouterr().err


@pytest.mark.long
def test_every_tab_opens_and_fits_the_screen_and_words_are_light_on_dark(written: Path) -> None:
    with chromium(logs="browser") as browser:
        browser.get(written.as_uri())
        shown = []
        for tab in browser.find_elements(By.CSS_SELECTOR, "[role=tab]"):
            tab.click()
            open_ones = [
                element.get_attribute("id")
                for element in browser.find_elements(By.CSS_SELECTOR, "[role=tabpanel]")
                if element.is_displayed()
            ]
            shown.append((open_ones, tab.get_attribute("aria-controls")))
        assert [one for one, _ in shown] == [[name] for _, name in shown]

        script = "return [...document.images].filter(i => !i.complete || !i.naturalWidth).length"
        assert browser.execute_script(script) == 0

        browser.find_element(By.ID, "tab-trials").click()
        heads = browser.find_elements(By.CSS_SELECTOR, "#trials th button")
        names = [head.text for head in heads]
        at = next(number for number, name in enumerate(names) if name.startswith("requests/s"))
        heads[at].click()
        script = (
            "return [...document.querySelectorAll('#trials tbody tr')]"
            f".map(row => row.cells[{at}].dataset.value).filter(Boolean).map(Number)"
        )
        values = browser.execute_script(script)
        assert values == sorted(values)
        browser.refresh()
        assert browser.get_log("browser") == []  # type: ignore[no-untyped-call]
        for width in [1200, 390]:
            screen = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 500}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
            browser.refresh()
            wide = []
            for tab in browser.find_elements(By.CSS_SELECTOR, "[role=tab]"):
                browser.execute_script("arguments[0].click()", tab)
                wide.append(browser.execute_script("return document.documentElement.scrollWidth"))
            browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
            assert max(wide) <= width

        dark = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", dark)
        browser.refresh()
        script = "const s = getComputedStyle(document.body); return [s.color, s.backgroundColor]"
        colours = browser.execute_script(script)
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
        text, page_colour = (int(re.findall(r"\d+", colour)[0]) for colour in colours)
        assert text - page_colour > 150
