# SPDX-License-Identifier: Apache-2.0
"""A page in headless Chromium: opened, hovered, keyed, and what it says and asks for."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

DESKTOP, PHONE = (1280, 900), (390, 844)


def missing() -> str:
    """Why there is no browser; empty if there is one."""
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "selenium is not installed"
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        return "chromium or chromedriver is not installed"
    return ""


class Browser:
    """One page at one size."""

    def __init__(self, driver: Any):
        self.driver = driver

    def open(self, page: Path, size: tuple[int, int], dark: bool = False) -> None:
        width, height = size
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        media = {"media": "screen", "features": [scheme]}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        self.driver.get_log("performance")
        self.driver.get(page.resolve().as_uri())

    def print_dark(self) -> None:
        """As it is printed by who has chosen dark pages."""
        features = [{"name": "prefers-color-scheme", "value": "dark"}]
        media = {"media": "print", "features": features}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)

    def run(self, script: str, *arguments: object) -> Any:
        return self.driver.execute_script(script, *arguments)

    def find(self, selector: str) -> list[Any]:
        return self.driver.find_elements("css selector", selector)

    def text(self, selector: str) -> str:
        return self.find(selector)[0].text

    def keys(self, *keys: str) -> None:
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.driver).send_keys(*keys).perform()

    def hover(self, x: int, y: int) -> None:
        """Moves to a place of the window, in its pixels."""
        mouse = {"type": "mouseMoved", "x": x, "y": y}
        self.driver.execute_cdp_cmd("Input.dispatchMouseEvent", mouse)

    def screenshot(self, file: Path, whole: bool = True) -> None:
        import base64

        options = {"format": "png", "captureBeyondViewport": whole}
        shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", options)
        file.write_bytes(base64.b64decode(shot["data"]))

    @property
    def complaints(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser")]

    @property
    def requests(self) -> list[str]:
        """Addresses that were asked for since the page was opened."""
        found = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.append(message["params"]["request"]["url"])
        return found

    @property
    def sideways(self) -> int:
        """Pixels by which the page is wider than its window."""
        return self.run("const e = document.documentElement; return e.scrollWidth - e.clientWidth")


@contextmanager
def browser() -> Iterator[Browser]:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options, Service(shutil.which("chromedriver") or ""))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
