"""The site of the pages: each page whole, no dead link, nothing from another host."""

import functools
import http.server
import json
import re
import threading
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from markdown_it import MarkdownIt
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from tests.checkouts import ROOT, succeed_in
from tests.chromium import chromium
from tests.docs.pages import PATTERNS

pytestmark = pytest.mark.long
SITE = ROOT / "build" / "site"
SOURCES = sorted(file.relative_to(ROOT) for one in PATTERNS for file in ROOT.glob(one))
ELEMENTS = {"h1", "h2", "h3", "h4", "li", "pre", "code", "table", "td", "img", "em", "strong"}
VERBATIM = {"code", "pre", "script", "style"}
# What a browser fetches by itself when it opens a page.
FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}


# Markdown that no parser took for mark-up. A power such as 2**53 is none.
RAW = re.compile(r"\]\(|\*\*\w[^*]*\*\*|`|\|\s*:?-{3}|^#{1,6} \w|^\s*[*-] \w", re.MULTILINE)


class Elements(HTMLParser):
    """Every element of a page, with its attributes, and whether it is the author's."""

    def __init__(self, text: str, *, within: str | None = None) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.counted: Counter[str] = Counter()
        self.prose: list[str] = []
        self._verbatim = 0
        self._within, self._inside = within, within is None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside |= tag == self._within
        self._verbatim += tag in VERBATIM
        self.found.append((tag, dict(attrs)))
        if self._inside and tag in ELEMENTS:
            self.counted[tag] += 1

    def handle_endtag(self, tag: str) -> None:
        self._verbatim -= tag in VERBATIM
        if tag == self._within:
            self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside and not self._verbatim:
            self.prose.append(data)


def page_of(source: Path) -> Path:
    """The file of a Markdown page on the site."""
    name = "index.html" if source.name == "README.md" else f"{source.stem}.html"
    return SITE / source.parent / name


@pytest.fixture(scope="module")
def pages() -> dict[Path, Elements]:
    """Every page of the site, as `make site` writes it."""
    succeed_in(ROOT, "make", "site", timeout_seconds=600)
    texts = {page: page.read_text(encoding="utf-8") for page in SITE.rglob("*.html")}
    return {page: Elements(text, within="article") for page, text in texts.items()}


def test_every_page_is_whole_on_the_site(pages: dict[Path, Elements]) -> None:
    assert [str(source) for source in SOURCES if page_of(source) not in pages] == []

    # The site's Markdown is read by another parser than GitHub's: a list that it does not see
    # would stand there as text.
    commonmark = MarkdownIt("commonmark").enable("table")
    for source in SOURCES:
        expected = Elements(commonmark.render((ROOT / source).read_text(encoding="utf-8"))).counted
        assert pages[page_of(source)].counted == expected, source
    raw = [
        f"{page.relative_to(SITE)}: {text.strip()[:80]}"
        for page, elements in pages.items()
        for text in elements.prose
        if RAW.search(text)
    ]
    assert raw == []


def test_no_link_is_dead_and_no_other_host_is_asked(pages: dict[Path, Elements]) -> None:
    anchors = {
        page: {attributes.get("id") for _, attributes in elements.found}
        for page, elements in pages.items()
    }
    dead = []
    for page, elements in pages.items():
        for _, attributes in elements.found:
            address = urlsplit(attributes.get("href") or attributes.get("src") or "")
            if address.scheme or page.name == "404.html":  # whose links begin at the host's root
                continue
            target = (page.parent / unquote(address.path)).resolve() if address.path else page
            fragment = unquote(address.fragment)
            if not target.is_file() or (fragment and fragment not in anchors[target]):
                dead.append(f"{page.relative_to(SITE)}: {address.geturl()}")
    assert dead == []
    fetched = [
        f"{page.relative_to(SITE)}: {attributes[FETCHED[tag]]}"
        for page, elements in pages.items()
        for tag, attributes in elements.found
        if tag in FETCHED and re.match(r"(\w+:)?//", attributes.get(FETCHED[tag]) or "")
    ]
    assert fetched == []


@pytest.fixture(scope="module")
def address(pages: dict[Path, Elements]) -> Iterator[str]:
    """Address of the site on a server of this computer."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(SITE))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


# What a reader doesn't see whole: code that scrolls, or a wider element than the window that doesn't scroll.
CUT = """
const scrolls = element => ["auto", "scroll"].includes(getComputedStyle(element).overflowX);
const within = element => {
  for (let one = element; one.tagName != "ARTICLE"; one = one.parentElement) if (scrolls(one)) return true;
  return false;
};
const cut = element => element.matches("pre > code")
  ? element.scrollWidth > element.clientWidth + 1
  : element.getBoundingClientRect().right > innerWidth + 1 && !within(element);
return [...document.querySelectorAll("article :is(pre, code, table, img)")]
  .filter(cut).map(element => element.textContent.slice(0, 60));
"""


@pytest.mark.parametrize("width", [390, 1280])
def test_no_code_block_or_table_is_cut(address: str, width: int) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    with chromium(logs="browser") as driver:
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        for page in ("docs/serving", "docs/tuning", "docs/reference/parameters"):
            driver.get(f"{address}{page}.html")
            assert driver.execute_script("return innerWidth") == width
            assert driver.execute_script(CUT) == [], page
            assert driver.execute_script("return document.documentElement.scrollWidth") <= width


def test_the_navigation_has_sections_and_titles(pages: dict[Path, Elements]) -> None:
    html = (SITE / "docs" / "serving.html").read_text(encoding="utf-8")
    label = r'<label class="md-nav__title" for="__nav_\d">.*?</span>([^<]+)'
    sections = [section.strip() for section in re.findall(label, html, re.DOTALL)]
    assert sections == ["How-to guides", "Reference", "Explanation"]
    titles = [" ".join(text.split()) for text in re.findall(r'"md-ellipsis">\s*([^<]+)', html)]
    assert [title for title in titles if re.search(r"README|_|\.md", title)] == []
    assert any(title.startswith("0001: ") for title in titles)


def test_a_search_for_a_key_lists_its_page_and_asks_no_other_host(address: str) -> None:
    with chromium(logs="performance") as driver:
        driver.get(f"{address}docs/tutorial.html")
        driver.find_element(By.CSS_SELECTOR, "input.md-search__input").send_keys("bake_minutes")
        links = WebDriverWait(driver, 60).until(
            lambda _: driver.find_elements(By.CSS_SELECTOR, ".md-search-result__link")
        )
        results = [str(link.get_attribute("href")) for link in links]
        log = driver.get_log("performance")  # type: ignore[no-untyped-call]
    assert any("docs/reference/parameters.html" in result for result in results)
    events = [json.loads(entry["message"])["message"] for entry in log]
    sent = [event for event in events if event["method"] == "Network.requestWillBeSent"]
    asked = [event["params"]["request"]["url"] for event in sent]
    own = (address, "data:", "blob:", "chrome:")
    assert [url for url in asked if not url.startswith(own)] == []
