#!/usr/bin/env python3
"""Photographs an HTML report with its largest leak open: picture.py REPORT.html PICTURE.png"""
import os
import sys

from selenium import webdriver
from selenium.webdriver.chrome.service import Service


def main():
    report, picture = sys.argv[1:]
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(argument)
    browser = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
    try:
        size = {"width": 1180, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.get("file://" + os.path.abspath(report))
        browser.execute_script("""
            document.querySelector("tr.row").click();
            document.activeElement.blur();
            document.querySelector("header.bar").style.position = "static";""")
        size["height"] = browser.execute_script(
            "return Math.ceil(document.querySelector('.detail .evidences').getBoundingClientRect().bottom) + 24")
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.execute_async_script("const done = arguments[0]; "
                                     "requestAnimationFrame(() => requestAnimationFrame(done))")
        browser.save_screenshot(picture)
    finally:
        browser.quit()


if __name__ == "__main__":
    main()
