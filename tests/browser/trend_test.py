#!/usr/bin/env python3
"""The trend page of culprit-nightly in a browser: trend_test.py CULPRIT SUBJECT SIMCUDA NIGHTLY

NIGHTLY (culprit-nightly) runs SUBJECT under CULPRIT on the driver in the folder SIMCUDA, after a history of other
nights.
"""
import os
import pathlib
import subprocess
import sys
import unittest

from browser import BrowserTest
from nights import write_nights
from selenium.webdriver.common.keys import Keys

CULPRIT, SUBJECT, SIMCUDA, NIGHTLY = sys.argv[1:5]
del sys.argv[1:5]
HISTORY = 40
# Writes a control character, and one that turns the direction of the text.
TURNED = r"printf 'red \033[31m turned \342\200\256 round\n'"


class Trend(BrowserTest):
    @classmethod
    def make_pages(cls, folder):
        history = pathlib.Path(folder, "trend")
        write_nights(history, HISTORY)
        commands = pathlib.Path(folder, "commands")
        commands.write_text(f"clean <b>: {SUBJECT}\nleaks: {SUBJECT}\n"
                            f"fails: {SUBJECT}; echo the last words; {TURNED}; exit 3\n", encoding="utf-8")
        (history / "accepted").mkdir()
        environment = {**os.environ, "LD_LIBRARY_PATH": SIMCUDA}
        words = [NIGHTLY, "--commands", commands, "--history", history, "--culprit", CULPRIT,
                 "--title", "GPU </script> \u202e\u2066\x1b[31m"]
        for accept in (True, False):
            subprocess.run(words, env=environment, timeout=100, check=False, stdout=subprocess.DEVNULL)
            if accept:
                subprocess.run([NIGHTLY, "accept", "--history", history, "--only", "clean <b>"], env=environment,
                               timeout=100, check=True, stdout=subprocess.DEVNULL)

    def open_trend(self, width=1280):
        self.set_width(width)
        self.open("trend/index.html")
        self.wait(lambda: len(self.all(".night-plot svg")) == 3)

    def test_verdict_stands_first_and_the_worst_command_after_it(self):
        self.open_trend()
        self.assertEqual(self.script("return document.querySelector('main').firstElementChild.ariaLabel"), "Verdict")
        self.assertEqual(self.tile("leaked"), "Red")
        self.assertIn("2 of 3 commands", self.find('[data-tile="leaked"]').text)
        self.assertEqual(self.tile("dropped"), "1")
        self.assertEqual(self.tile("new"), "2")
        self.assertIn("2 of 3 commands: 1 failed, 1 with new leaks or grown ones",
                      self.find('[data-tile="leaked"]').text)
        self.assertEqual(self.texts(".night-command h2"), ["fails", "leaks", "clean <b>"])
        self.assertEqual(self.texts(".night-command .card-head .verdict"), ["▼ Red", "▼ Red", "✓ Green"])
        self.assertIn("exit status 3", self.find('[data-command="fails"] .reasons').text)
        self.assertIn("the last words", self.find('[data-command="fails"] .output').text)
        self.assertIn("1 new", self.find('[data-command="leaks"] .reasons').text)
        self.assertIn("GPU </script>", self.find(".subject").text)

    def test_tiles_add_up(self):
        self.open_trend()
        tiles = self.script("""return [...document.querySelectorAll(".tile")]
            .map((one) => [one.querySelector(".tile-label").textContent, one.querySelector(".tile-value").textContent,
                           one.querySelector(".tile-detail").textContent])""")
        leaks = {label: (int(value), detail.split(" · ")[0]) for label, value, detail in tiles if "leaks" in label}
        # SUBJECT leaks 10.7 KiB in each command.
        self.assertEqual(leaks, {"New leaks": (2, "21.5 KiB"), "Grown leaks": (0, "0 B"),
                                 "Accepted leaks": (1, "10.7 KiB"), "All leaks": (3, "32.2 KiB")})

    def test_characters_that_turn_or_colour_text_are_visible(self):
        self.open_trend()
        self.assertIn("red ?[31m turned ? round", self.find('[data-command="fails"] .output').text)
        self.assertIn("GPU </script> ???[31m", self.find(".subject").text)
        text = self.script("return document.documentElement.outerHTML + document.title")
        self.assertEqual([one for one in text if one in "\u202e\u2066\x1b"], [])

    def test_pages_and_dumps_are_linked(self):
        self.open_trend()
        links = self.script("return [...document.querySelectorAll('[data-command=\"leaks\"] .links a')]"
                            ".map((one) => decodeURIComponent(new URL(one.href).pathname))")
        self.assertEqual([os.path.splitext(link)[1] for link in links], [".html", ".dump"])
        for link in links:
            self.assertTrue(os.path.exists(link), link)
        self.find('[data-command="leaks"] .links a').click()
        self.wait(lambda: self.script("return document.documentElement.dataset.ready") == "true")
        self.assertIn("leak_here", self.find("tr.row .function").text)

    def test_axes_have_ticks_and_no_text_is_stretched(self):
        for width in (400, 1280):
            with self.subTest(width=width):
                self.open_trend(width)
                plot = '[data-command="leaks"] .night-plot '
                self.assertIn("512 MiB", self.texts(plot + ".axis text"))
                self.assert_apart(plot + ".times text")
                # The last night has its date, and a unit of the drawing is a pixel.
                self.assertRegex(self.texts(plot + ".times text")[-1], "^[0-9]+ [A-Z][a-z][a-z]$")
                box = self.script("""const svg = document.querySelector(arguments[0] + "svg");
                    return [svg.getBoundingClientRect().width, svg.viewBox.baseVal.width]""", plot)
                self.assertEqual(box[0], box[1])
                self.assertLessEqual(self.script("return document.documentElement.scrollWidth"), width)
                bars = len(self.all(plot + ".night"))
                self.assertEqual(bars, HISTORY + 2 if width == 1280 else 11)

    def test_values_are_reached_by_keyboard_and_have_names(self):
        self.open_trend()
        nights = self.all('[data-command="fails"] .night')
        self.assertEqual([night.get_attribute("tabindex") for night in nights].count("0"), 1)
        self.assertEqual(nights[-1].get_attribute("tabindex"), "0")
        self.script("arguments[0].focus()", nights[-1])
        active = self.browser.switch_to.active_element
        self.assertRegex(active.get_attribute("aria-label"), "UTC: Red: exit status 3, .*leaked ")
        self.assertIn("exit status 3", self.find(".tooltip").text)
        active.send_keys(Keys.ARROW_LEFT, Keys.HOME)
        active = self.browser.switch_to.active_element
        self.assertIn("2026, 02:00 UTC: Green: leaked", active.get_attribute("aria-label"))
        # A night without a page is a link that leads nowhere.
        self.assertEqual((active.get_attribute("aria-disabled"), active.get_attribute("href")), ("true", None))
        active.send_keys(Keys.END, Keys.ENTER)
        self.wait(lambda: "/report.html" in self.browser.current_url)

    def test_each_night_is_a_row_of_a_table(self):
        self.open_trend(400)
        rows = '[data-command="leaks"] details.more tbody tr'
        self.assertEqual(len(self.all(rows)), HISTORY + 2)
        words = self.texts(rows + " td:last-child")
        self.assertIn("1 new", words[0])
        self.assertEqual(words[2], "leaked 1.00 GiB in 2 groups")
        self.assertEqual(self.script("return document.querySelectorAll(arguments[0] + ' a').length", rows), 2)
        failed = self.texts('[data-command="fails"] details.more tbody tr td:last-child')
        self.assertIn("exit status 1, nothing was recorded; no report", failed)

    def test_a_leak_is_new_until_it_is_accepted(self):
        self.open_trend()
        self.assertEqual(self.texts('[aria-label="Leaks of leaks"] .verdict'), ["new"])
        self.assertEqual(self.texts('[aria-label="Leaks of clean <b>"] .verdict'), [])
        self.assertIn("accepted", self.find('[aria-label="Leaks of clean <b>"]').text)


if __name__ == "__main__":
    unittest.main()
