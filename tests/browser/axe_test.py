#!/usr/bin/env python3
"""axe-core finds nothing on the pages of culprit, in both themes, 400 and 1280 pixels wide:

axe_test.py PROGRAM CULPRIT SUBJECT SIMCUDA NIGHTLY DRIVER_SUBJECT AXE

PROGRAM (report_unit_test) writes pages; CULPRIT reports SUBJECT on the driver in the folder SIMCUDA; NIGHTLY
(culprit-nightly) runs DRIVER_SUBJECT. AXE is what scripts/axe-core.sh brings.
"""
import os
import pathlib
import subprocess
import sys
import unittest

from browser import BrowserTest
from nights import write_nights

PROGRAM, CULPRIT, SUBJECT, SIMCUDA, NIGHTLY, DRIVER_SUBJECT, AXE = sys.argv[1:8]
del sys.argv[1:8]
if not os.path.exists(AXE):
    print(f"skipped: no {AXE} (scripts/axe-core.sh brings it)")
    sys.exit(77)
# Details of violations only: for elements without one axe-core would make selectors, too, for longer than it looks.
RUN_AXE = """const done = arguments[arguments.length - 1];
axe.run(document, { resultTypes: ["violations"] }).then((result) => done(result.violations),
                                                        (error) => done([{ id: String(error), nodes: [] }]));"""


def in_words(violation):
    nodes = [node["html"][:120] + " " + node["failureSummary"] for node in violation["nodes"][:2]]
    return f"{violation.get('impact')} {violation['id']}: {len(violation['nodes'])} elements, {nodes}"


class Axe(BrowserTest):
    @classmethod
    def make_pages(cls, folder):
        quiet = {"timeout": 100, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL,
                 "stdin": subprocess.DEVNULL}
        environment = {**os.environ, "LD_LIBRARY_PATH": SIMCUDA, "SIMCUDA_DEVICES": "2", "CULPRIT_PAGES": folder}
        subprocess.run([PROGRAM, "[.pages]"], env=environment, check=True, **quiet)
        subprocess.run([CULPRIT, "run", "-o", os.path.join(folder, "real.html"), "--", SUBJECT], env=environment,
                       check=True, **quiet)
        history = pathlib.Path(folder, "trend")
        write_nights(history, 40)
        commands = pathlib.Path(folder, "commands")
        commands.write_text(f"leaks: {DRIVER_SUBJECT}\nfails: echo words; {DRIVER_SUBJECT}; exit 3\nnothing: true\n",
                            encoding="utf-8")
        subprocess.run([NIGHTLY, "--commands", commands, "--history", history, "--culprit", CULPRIT], env=environment,
                       check=False, **quiet)

    def check_page(self, name):
        for width in (400, 1280):
            self.set_width(width)
            self.open(name)
            self.script("""for (const one of document.querySelectorAll("tr.row:first-child .row-open"))
                one.click();
                for (const one of document.querySelectorAll("details")) one.open = true;""")
            with open(AXE, encoding="utf-8") as file:
                self.script(file.read())
            for theme in ("light", "dark"):
                with self.subTest(page=name, theme=theme, width=width):
                    self.script("document.documentElement.dataset.theme = arguments[0]", theme)
                    # (Bars of the flame graph fade in.)
                    self.script("for (const one of document.getAnimations()) one.finish()")
                    violations = self.browser.execute_async_script(RUN_AXE)
                    self.assertEqual([in_words(one) for one in violations], [])
                    self.assertLessEqual(self.script("return document.documentElement.scrollWidth"), width)

    def test_report(self):
        self.check_page("real.html")
        self.check_page("two.html")
        self.check_page("job.html")

    def test_clean_report(self):
        self.check_page("clean.html")

    def test_diff(self):
        self.check_page("diff.html")

    def test_trend(self):
        self.check_page("trend/index.html")

    def test_quiet_words_are_readable_on_every_ground(self):
        # Whatever a page has on them: each pair of colours that the style uses together.
        for theme in ("light", "dark"):
            for ground in ("ground", "card", "soft", "hover"):
                with self.subTest(theme=theme, ground=ground):
                    self.open("clean.html")
                    self.script("""document.documentElement.dataset.theme = arguments[0];
                        document.querySelector("main").insertAdjacentHTML("beforeend",
                            `<p style="background: var(--${arguments[1]}); color: var(--quiet)">quiet</p>`)""",
                                theme, ground)
                    with open(AXE, encoding="utf-8") as file:
                        self.script(file.read())
                    self.assertEqual([in_words(one) for one in self.browser.execute_async_script(RUN_AXE)], [])

    def test_what_is_wrong_is_found(self):
        self.open("clean.html")
        self.script("""document.querySelector("main")
            .insertAdjacentHTML("beforeend", '<p style="color:#aaa">grey</p>')""")
        with open(AXE, encoding="utf-8") as file:
            self.script(file.read())
        self.assertEqual([one["id"] for one in self.browser.execute_async_script(RUN_AXE)], ["color-contrast"])


if __name__ == "__main__":
    unittest.main()
