"""Chromium for the tests of pages. Import this first: without Selenium the tests end here, and with another Python that
has it they begin anew.

Needs Chromium, its driver and Selenium (Debian: chromium chromium-driver python3-selenium); says so and ends with 77,
which ctest takes for "skipped", without them.
"""
import os
import shutil
import sys
import tempfile
import unittest

SYSTEM_PYTHON = "/usr/bin/python3"
try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait
except ImportError:
    # The distribution's package is the distribution's Python's.
    if os.path.realpath(sys.executable) != os.path.realpath(SYSTEM_PYTHON) and os.path.exists(SYSTEM_PYTHON):
        os.execv(SYSTEM_PYTHON, [SYSTEM_PYTHON, *sys.argv])
    print("skipped: no Selenium (scripts/install-packages.sh python3-selenium)")
    sys.exit(77)
DRIVER = shutil.which("chromedriver")
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
if not DRIVER or not BROWSER:
    print("skipped: no Chromium (scripts/install-packages.sh chromium chromium-driver)")
    sys.exit(77)


def start_browser():
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     "--window-size=1280,1000"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(service=Service(DRIVER), options=options)


class BrowserTest(unittest.TestCase):
    """One browser for all tests of a class; make_pages(folder) writes the pages that they open."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.make_pages(cls.folder.name)
        cls.browser = start_browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.quit()
        cls.folder.cleanup()

    def setUp(self):
        # Discards the zoom, search and theme of other tests.
        self.browser.get("about:blank")

    def open(self, name, fragment=""):
        self.browser.get("file://" + os.path.join(self.folder.name, name) + fragment)
        self.wait(lambda: self.script("return document.documentElement.dataset.ready") == "true")
        errors = [entry for entry in self.browser.get_log("browser") if entry["level"] == "SEVERE"]
        self.assertEqual(errors, [])

    def set_width(self, width, height=900):
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                     {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": True})
        self.addCleanup(self.browser.execute_cdp_cmd, "Emulation.clearDeviceMetricsOverride", {})

    def wait(self, condition):
        WebDriverWait(self.browser, 60, poll_frequency=0.05).until(lambda _: condition())

    def script(self, text, *arguments):
        return self.browser.execute_script(text, *arguments)

    def find(self, selector):
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def shown_text(self, selector):
        """The text of a large element as it is shown. Selenium's own `text` takes seconds for a thousand of lines."""
        return self.script("return document.querySelector(arguments[0]).innerText", selector)

    def texts(self, selector):
        return self.script("return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent)",
                           selector)

    def set_paper(self):
        """An A4 sheet: its width between the margins, and the style for print."""
        self.set_width(718)
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        self.addCleanup(self.browser.execute_cdp_cmd, "Emulation.setEmulatedMedia", {"media": ""})
        # (Pages learn of it with the next frame.)
        self.browser.execute_async_script(
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done))")

    def assert_whole(self, selector):
        """The shown elements have all their text within themselves, within those around them, and within the page."""
        cut = self.script("""return [...document.querySelectorAll(arguments[0])]
            .filter((one) => one.getClientRects().length > 0 && one.textContent !== "").map((one) => {
                const range = document.createRange();
                range.selectNodeContents(one);
                const text = range.getBoundingClientRect();
                for (let at = one; at; at = at.parentElement) {
                    const box = at.getBoundingClientRect(), style = getComputedStyle(at);
                    const clips = at === document.documentElement || style.overflowX !== "visible";
                    if (clips && (text.right > box.right + 1 || text.left < box.left - 1))
                        return one.textContent + " in " + at.tagName + "." + at.className;
                }
                return null;
            })""", selector)
        self.assertGreater(len(cut), 0)
        self.assertEqual([one for one in cut if one is not None], [])

    def tile(self, name):
        return self.find(f'[data-tile="{name}"] .tile-value').text

    def assert_apart(self, selector):
        """The elements stand in a row, and none overlaps the next one."""
        boxes = self.script("""return [...document.querySelectorAll(arguments[0])].map((one) => {
            const box = one.getBoundingClientRect(); return [box.left, box.right]; })""", selector)
        self.assertGreater(len(boxes), 1)
        for (_, right), (left, _) in zip(boxes, boxes[1:]):
            self.assertLess(right, left)
