"""A headless Chromium with a profile of its own, for tests of pages."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from selenium import webdriver

CHROMIUM, DRIVER = Path("/usr/bin/chromium"), Path("/usr/bin/chromedriver")
DISABLED = ("gpu", "dev-shm-usage", "quic", "background-networking", "component-update", "sync")
OPTIONS = ("--headless", "--no-sandbox", *(f"--disable-{one}" for one in DISABLED))
OPTIONS += ("--no-first-run", "--window-size=1200,1400", "--force-device-scale-factor=1")


@contextmanager
def chromium(*options: str, logs: str) -> Iterator[webdriver.Chrome]:
    """`logs`: which of its logs is kept whole, "browser" or "performance".

    Skips the test where it is not installed; fails it with REQUIRE_CHROMIUM=1.
    """
    if not (CHROMIUM.exists() and DRIVER.exists()):
        if os.environ.get("REQUIRE_CHROMIUM") == "1":
            pytest.fail(f"{CHROMIUM} and {DRIVER} are required here, and are not there")
        pytest.skip("Chromium and its driver are not installed: apt-get install chromium-driver")
    with tempfile.TemporaryDirectory(prefix="servable-chromium-") as folder:
        chosen = webdriver.ChromeOptions()
        chosen.binary_location = str(CHROMIUM)
        for option in (*OPTIONS, *options, f"--user-data-dir={folder}"):
            chosen.add_argument(option)
        chosen.set_capability("goog:loggingPrefs", {logs: "ALL"})
        service = webdriver.ChromeService(executable_path=str(DRIVER))
        driver = webdriver.Chrome(options=chosen, service=service)
        try:
            yield driver
        finally:
            driver.quit()
