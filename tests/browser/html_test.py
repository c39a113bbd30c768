#!/usr/bin/env python3
"""HTML reports in a browser: html_test.py PROGRAM CULPRIT SUBJECT SIMCUDA

PROGRAM (report_unit_test) writes the pages; CULPRIT reports SUBJECT (picture_program) on the driver in the folder
SIMCUDA.
"""
import os
import subprocess
import sys
import unittest

from browser import BrowserTest
from selenium.common.exceptions import ElementClickInterceptedException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

PROGRAM, CULPRIT, SUBJECT, SIMCUDA = sys.argv[1:5]
del sys.argv[1:5]


class Page(BrowserTest):
    @classmethod
    def make_pages(cls, folder):
        subprocess.run([PROGRAM, "[.pages],[.large_pages]"], env={**os.environ, "CULPRIT_PAGES": folder}, timeout=100,
                       check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)

    def test_large_report_opens_with_all_groups(self):
        self.open("large.html")
        self.assertIn("5,000 groups", self.find("#leak-status").text)
        self.assertEqual(self.tile("leaked"), "14.9 GiB")
        # Rows come as one scrolls.
        rows = len(self.all("tr.row"))
        self.assertLess(rows, 5000)
        self.script("window.scrollTo(0, document.documentElement.scrollHeight)")
        self.wait(lambda: len(self.all("tr.row")) > rows)

    def rows(self):
        """The numbers of the rows that are there."""
        numbers = self.script("return [...document.querySelectorAll('tr.row')].map((one) => Number(one.dataset.at))")
        self.assertLessEqual(len(numbers), 350)
        self.assertEqual(numbers, list(range(numbers[0], numbers[0] + len(numbers))))
        return numbers

    def scroll_on(self):
        """To the end of the rows that are there: others come, and those that the reader sees stay where they are."""
        last = self.rows()[-1]
        top = """return document.querySelector('tr.row[data-at="' + arguments[0] + '"]').getBoundingClientRect().top"""
        before = self.script("window.scrollTo(0, document.documentElement.scrollHeight);" + top, last)
        self.wait(lambda: self.rows()[-1] > last)
        self.assertAlmostEqual(before, self.script(top, last), delta=2)
        return self.script("return document.querySelector('#leaks').offsetHeight")

    def scroll_back(self):
        """In a step, and at once."""
        first = self.rows()[0]
        self.script("document.querySelector('tr.row').scrollIntoView()")
        self.wait(lambda: self.rows()[0] < first)
        self.script("document.querySelector('#leaks').scrollIntoView()")
        self.wait(lambda: self.rows()[0] == 0)
        self.assertLessEqual(self.script("return document.querySelector('.space td').offsetHeight"), 1)

    def open_in_the_middle(self):
        self.script("location.hash = JSON.parse(document.getElementById('data').textContent).reports[0].leaks[2500].id")
        self.wait(lambda: self.all("tr.row.open") != [])
        self.assertIn(2500, self.rows())
        self.script("""const top = document.querySelector('#leaks').getBoundingClientRect().top;
            window.scrollTo(0, top + window.scrollY + 2000)""")
        self.wait(lambda: self.rows()[0] < 500)
        self.wait(lambda: self.script("""return [...document.querySelectorAll('tr.row')].some((one) => {
            const box = one.getBoundingClientRect(); return box.top < innerHeight && box.bottom > 0; })"""))

    def test_rows_far_away_go_and_come_back(self):
        """A key in the search field takes all rows away: five thousand would take seconds."""
        for width in (390, 1280):
            with self.subTest(width=width):
                self.set_width(width)
                self.open("large.html")
                heights = []
                while self.rows()[0] < 300:
                    heights.append(self.scroll_on())
                self.assertEqual(heights, sorted(heights))
                self.scroll_back()
                self.open_in_the_middle()

    def is_clicked(self, selector):
        """False while something else lies over it."""
        try:
            self.find(selector).click()
        except ElementClickInterceptedException:
            return False
        return True

    def test_flame_graph_zooms_in_and_out(self):
        self.open("large.html")
        names = self.texts("#flame div.bar")
        self.assertIn("all leaks", names[0])
        before = len(self.all("#flame div.bar"))
        bar = self.find('#flame div.bar[data-name="train::assemble_33"]')
        narrow = bar.size["width"]
        bar.click()
        self.wait(lambda: self.find('#flame div.bar[data-name="train::assemble_33"]').size["width"] > narrow * 1.5)
        self.assertNotEqual(len(self.all("#flame div.bar")), before)
        self.assertIn("train::advance_8", self.find(".flame-path").text)
        # The leaks below it, in the list.
        text = self.find("#flame-list").text
        self.find("#flame-list").click()
        self.assertIn(text.split()[1] + " of 5,000", self.find("#leak-status").text)
        # The page scrolls by itself for a while.
        self.wait(lambda: self.script("window.scrollTo(0, 0); return window.scrollY") == 0)
        self.wait(lambda: self.is_clicked("#flame-reset"))
        self.assertEqual(self.texts(".flame-path strong"), [])
        self.wait(lambda: self.find('#flame div.bar[data-name="train::assemble_33"]').size["width"] == narrow)

    def test_flame_graph_by_keyboard(self):
        self.open("large.html")
        self.find("#flame div.bar").send_keys(Keys.ARROW_DOWN)
        self.assertEqual(self.script("return document.activeElement.dataset.name"), "train::advance_8")
        self.browser.switch_to.active_element.send_keys(Keys.ENTER)
        self.assertEqual(self.find(".flame-path strong").text, "train::advance_8")
        self.browser.switch_to.active_element.send_keys(Keys.ESCAPE)
        self.assertEqual(self.texts(".flame-path strong"), [])

    def test_flame_graph_finds_and_colours(self):
        self.open("large.html")
        self.find("#flame-search").send_keys("assemble_33")
        self.assertEqual({bar.get_attribute("data-name") for bar in self.all("#flame div.bar.match")},
                         {"train::assemble_33"})
        self.assertRegex(self.find("#flame-matches").text, r"GiB \(50 %\) in 1 place")
        self.find("#flame-search").send_keys("no such function")
        self.assertEqual(self.find("#flame-matches").text, "nothing found")
        for by, entry in (("cause", "Exception"), ("device", "GPU 1"), ("library", "libsolver.so")):
            Select(self.find("#flame-colour")).select_by_value(by)
            self.assertIn(entry, self.find("#flame .legend").text)

    def test_time_line_has_peak_and_events(self):
        self.open("two.html")
        self.wait(lambda: len(self.all(".plot svg")) == 2)
        self.assertEqual(self.texts(".peak text"), ["peak 85.9 GiB at 58.9 s"] * 2)
        plot = self.find(".plot svg")
        middle = plot.size["width"] // 2
        self.script("""const box = arguments[0].getBoundingClientRect();
            arguments[0].querySelector(".cover").dispatchEvent(
                new PointerEvent("pointermove", {clientX: box.left + arguments[1], clientY: box.top + 90}))""",
                    plot, middle)
        self.assertRegex(self.find(".tooltip").text, r"GiB to .*GiB\nat [0-9.]+ s")
        event = self.find(".plot .event.cause-exception")
        self.assertIn("std::runtime_error", event.get_attribute("aria-label"))
        event.send_keys(Keys.ENTER)
        self.assertIn("the residual is NaN", self.find(".evidence-exception").text)

    def test_time_line_of_a_real_program_has_marks_and_exceptions(self):
        page = os.path.join(self.folder.name, "real.html")
        environment = {**os.environ, "LD_LIBRARY_PATH": SIMCUDA, "SIMCUDA_DEVICES": "2"}
        subprocess.run([CULPRIT, "run", "--format", "html", "--output", page, "--", SUBJECT], env=environment,
                       timeout=100, check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        self.open("real.html")
        self.wait(lambda: len(self.all(".plot svg")) == 2)
        self.assertEqual(self.texts(".plot .marks text"), ["epoch 1", "epoch 2", "epoch 3"] * 2)
        self.assertRegex(self.texts(".plot .mark-line title")[1], "^epoch 2 at [0-9.]+ m?s$")
        labels = self.script("return [...document.querySelectorAll('.event')]"
                             ".map((one) => one.getAttribute('aria-label'))")
        self.assertTrue(any("std::runtime_error “residual is NaN”: left" in label for label in labels), labels)
        self.assertTrue(any("cudaMalloc failed: CUDA_ERROR_OUT_OF_MEMORY" in label for label in labels), labels)
        # Marks and exceptions stand where they happened: in the order of their times, within the plot.
        places = self.script("return [...document.querySelectorAll('.plot')[0].querySelectorAll('.mark-line')]"
                             ".map((one) => Number(one.getAttribute('x1')))")
        self.assertEqual(places, sorted(places))
        self.assertLess(places[-1], self.find(".plot svg").size["width"])

    def test_labels_of_the_time_axis_stand_apart(self):
        for width in (400, 430, 1280):
            with self.subTest(width=width):
                self.set_width(width)
                self.open("large.html")
                self.wait(lambda: len(self.all(".plot svg")) == 2)
                self.assertEqual(self.texts(".times text")[0], "first CUDA call")
                self.assert_apart(".plot[data-device='0'] .times text")

    def test_out_of_memory_stands_first(self):
        page = os.path.join(self.folder.name, "real.html")
        if not os.path.exists(page):
            self.test_time_line_of_a_real_program_has_marks_and_exceptions()
        self.open("real.html")
        # Notes on the search may come before it: processes of other tests may have begun in the run's control group.
        self.assertEqual(self.script("return document.querySelector('main > [id]').id"), "out-of-memory")
        failure = self.find("#out-of-memory details[open]")
        self.assertIn("cudaMalloc asked for 4.00 TiB in io::load_checkpoint", failure.text)
        self.assertIn("embed", failure.text)
        peaks = self.all("#peaks details")
        self.assertEqual(len(peaks), 2)
        peaks[0].find_element(By.TAG_NAME, "summary").click()
        self.assertIn("solve", peaks[0].text)

    def test_list_is_searched(self):
        self.open("large.html")
        self.find("body").send_keys("/")
        self.browser.switch_to.active_element.send_keys("step 4321 5321")
        self.wait(lambda: "1 of 5,000" in self.find("#leak-status").text)
        self.assertEqual(self.texts("tr.row .function"), ["train::assemble_5321"])
        self.find("#clear-filters").click()
        self.assertIn("5,000 groups", self.find("#leak-status").text)

    def test_list_is_sorted(self):
        self.open("two.html")

        def sizes():
            return self.texts("tr.row .bytes")

        self.assertEqual(sizes()[0], "5.32 MiB")
        self.find('[data-sort="bytes"]').click()
        self.assertEqual(sizes()[0], "4.00 KiB")
        self.assertEqual(self.find("th.col-bytes").get_attribute("aria-sort"), "ascending")
        self.find('[data-sort="where"]').click()
        names = self.texts("tr.row .function")
        self.assertEqual(names, sorted(names))
        self.assertGreater(len(set(names)), 10)

    def test_list_is_filtered(self):
        self.open("two.html")
        self.assertEqual(len(self.all("tr.row")), 12)
        Select(self.find("#filter-cause")).select_by_value("exception")
        self.assertEqual(set(self.texts("tr.row .badge")), {"Exception"})
        self.assertEqual(len(self.all("tr.row")), 3)
        Select(self.find("#filter-device")).select_by_value("GPU 1")
        self.assertEqual(set(self.texts("tr.row .col-device")), {"GPU 1"})
        self.assertLess(len(self.all("tr.row")), 3)
        self.find("#clear-filters").click()
        self.assertEqual(len(self.all("tr.row")), 12)

    def test_leak_opens_to_evidence_and_stacks(self):
        self.open("two.html")
        row = self.find("tr.row")
        row.click()
        self.assertEqual(row.find_element(By.CSS_SELECTOR, ".row-open").get_attribute("aria-expanded"), "true")
        self.assertEqual(self.texts(".evidence-label")[0], "Allocated")
        frames = len(self.all(".evidence-allocated .frame"))
        self.find(".evidence-allocated .more-frames").click()
        self.assertGreater(len(self.all(".evidence-allocated .frame")), frames)
        row.click()
        self.assertEqual(self.all(".detail"), [])
        row.find_element(By.CSS_SELECTOR, ".row-open").send_keys("j")
        self.browser.switch_to.active_element.send_keys(Keys.ENTER)
        self.assertEqual(len(self.all(".detail")), 1)
        Select(self.find("#filter-cause")).select_by_value("exception")
        self.find("tr.row").click()
        self.assertIn("Thrown", self.texts(".evidence-label"))
        self.assertIn("Caught", self.texts(".evidence-label"))
        self.assertIn("the residual is NaN", self.find(".evidence-exception").text)

    def test_address_with_an_id_opens_that_leak(self):
        self.open("large.html")
        leak = self.script("return JSON.parse(document.getElementById('data').textContent).reports[0].leaks[4900].id")
        self.open("large.html", "?again#" + leak)
        opened = self.all('tr.row.open')
        self.assertEqual([one.get_attribute("data-id") for one in opened], [leak])
        self.assertTrue(self.script("const box = arguments[0].getBoundingClientRect(); "
                                    "return box.top >= 0 && box.top < innerHeight", opened[0]))
        # In another process of the same page.
        self.open("two.html")
        leak = self.find("tr.row").get_attribute("data-id")
        self.browser.get("about:blank")
        self.open("two.html", "#" + leak)
        self.assertEqual(len(self.all('tr.row.open')), 1)

    def test_processes_are_chosen(self):
        self.open("two.html")
        self.assertNotEqual(self.tile("leaked"), "")  # the one that leaks is shown first
        Select(self.find("#process")).select_by_index(0)
        self.assertEqual(self.tile("clean"), "Nothing")

    def test_diff_has_tiles_and_lists(self):
        self.open("diff.html")
        self.assertEqual([self.tile(kind) for kind in ("new", "grown", "shrunk", "gone")], ["1"] * 4)
        self.assertIn("+800 B since 9.77 KiB", self.find('[data-tile="leaked"]').text)
        self.assertIn("4 groups", self.find("#leak-status").text)
        self.assertEqual(self.texts("tr.row .bytes"), ["+6.84 KiB", "+500 B", "−2.64 KiB", "−3.91 KiB"])
        self.find('[data-sort="change"]').click()
        self.assertEqual(self.texts("tr.row .col-change"), ["New", "Grown", "Shrunk", "Gone"])
        self.find('[data-list="unchanged"]').click()
        self.assertEqual(self.texts("tr.row .function"), ["same"])
        self.find('[data-tile="gone"]').click()
        self.assertEqual(self.texts("tr.row .function"), ["goes"])

    def test_diff_names_what_keeps_more(self):
        self.open("diff.html")
        self.assertEqual(self.texts("#keepers .frame-name"), [
            "+513 MiB`losses`, a list of <b>20</b>", "+64.0 MiB`history`", "−3.00 MiB`last_error`"])
        self.assertEqual(self.texts("#keepers .frame-place"), ["new", "64.0 MiB → 128 MiB", "gone"])
        self.open("diff_baseline.html")
        self.assertEqual(self.all("#keepers"), [])

    def test_diff_is_searched_and_filtered(self):
        self.open("diff.html")
        Select(self.find("#filter-change")).select_by_value("grown")
        self.assertEqual(self.texts("tr.row .function"), ["grows"])
        self.find("#clear-filters").click()
        self.find("body").send_keys("/")
        self.browser.switch_to.active_element.send_keys("shrinks")
        self.wait(lambda: self.texts("tr.row .function") == ["shrinks"])
        self.assertIn("1 of 4 groups", self.find("#leak-status").text)

    def test_diff_opens_to_both_stacks(self):
        self.open("diff.html")
        change = self.script("return JSON.parse(document.getElementById('data').textContent).changes[1].id")
        self.open("diff.html", "?again#" + change)
        self.assertEqual(self.texts('tr.row.open .function'), ["grows"])
        self.assertEqual(self.texts(".evidence-label"), ["Allocated"])  # where it was before
        self.assertEqual(self.texts(".detail-body .frame-name"), ["grows", "main"])
        # A baseline has no stacks, but a comment.
        self.open("diff_baseline.html", "#" + change)
        self.assertEqual(self.texts(".evidence-label"), ["Was", "Is now"])
        self.assertIn("leaks.baseline has no stacks", self.find(".evidence-was").text)
        self.assertIn("known since <May>", self.find(".facts").text)

    def test_names_stay_text(self):
        self.open("hostile.html")
        self.find("tr.row").click()
        self.find("#help").click()
        self.assertIsNone(self.script("return window.hacked === undefined ? null : window.hacked"))
        self.assertEqual(self.all("img"), [])
        self.assertIn("<script>window.hacked=1</script>", self.find("tr.row .function").text)
        self.assertEqual(self.find(".command").text.count("<img src=x"), 1)

    def test_a_finding_opens_to_its_hint_and_stack(self):
        self.open("finding.html")
        finding = self.find('#findings details[data-finding="stray-context"]')
        self.assertIn("has a context on GPU 0", finding.text)
        finding.find_element(By.TAG_NAME, "summary").click()
        self.assertIn("cudaSetDevice", finding.text)
        self.assertNotEqual(finding.find_elements(By.CSS_SELECTOR, ".stack .frame"), [])

    def test_nothing_leaked(self):
        self.open("clean.html")
        self.assertEqual(self.tile("clean"), "Nothing")
        self.assertEqual(self.all("#flame"), [])

    def test_killed_process_has_a_tile_for_each_kind_of_memory(self):
        self.open("killed.html")
        self.assertEqual(self.texts('[data-tile="leaked"] .tile-label'), ["Leaked"])
        self.assertEqual(self.texts('[data-tile="live"] .tile-label'), ["Live when killed"])

    def test_file_and_line_are_never_cut_off(self):
        for width in (390, 720, 721, 800, 900, 980, 981, 1280):
            for page in ("long_names.html", "diff.html"):
                with self.subTest(width=width, page=page):
                    self.set_width(width)
                    self.open(page)
                    self.find("tr.row .row-open").click()
                    self.assert_whole("tr.row .place > *, .frame-place, .first-title")
                    self.assertLessEqual(self.script("return document.documentElement.scrollWidth"), width)

    def test_a_list_has_columns_or_lines(self):
        """Where the columns have no room, an entry's numbers stand side by side, and its place below them."""
        self.set_width(850)
        self.open("diff.html")
        boxes = self.script("""return ["bytes", "was", "now", "change", "cause", "where"].map((name) => {
            const box = document.querySelector("tr.row .col-" + name).getBoundingClientRect();
            return [box.left, box.right, box.top, box.bottom]; })""")
        for i, one in enumerate(boxes):
            for other in boxes[:i]:
                self.assertTrue(one[0] >= other[1] - 1 or other[0] >= one[1] - 1 or one[2] >= other[3] - 1
                                or other[2] >= one[3] - 1, (one, other))

    def test_paper_has_the_stacks(self):
        self.open("large.html")
        self.find("#theme").click()  # paper is white even so
        self.script("if (document.documentElement.dataset.theme !== 'dark') document.querySelector('#theme').click()")
        self.set_paper()
        printed = self.shown_text(".printed")
        self.assertIn("train::assemble", printed)
        self.assertIn("the residual is NaN in step", printed)
        self.assertEqual(self.script("return document.querySelectorAll('.printed tr.row').length"), 100)
        # With all 28 callers; the shown list stands back.
        self.assertEqual(self.script("""return document.querySelectorAll(
            ".printed .detail .evidence-allocated")[0].querySelectorAll(".frame").length"""), 29)
        self.assertFalse(self.find("#leaks").is_displayed())
        self.assertIn("4,900 entries (", self.find(".not-printed").text)
        self.assertEqual(self.script("return getComputedStyle(document.body).color"), "rgb(26, 29, 35)")
        self.assert_whole(".printed .place > *, .printed .frame-place, .printed .function")
        ids = self.script("return [...document.querySelectorAll('[id]')].map((one) => one.id)")
        self.assertEqual(len(ids), len(set(ids)))
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
        self.wait(lambda: self.all(".printed") == [])
        self.assertTrue(self.find("#leaks").is_displayed())

    def test_what_is_searched_is_printed(self):
        self.open("large.html")
        self.find("#leak-search").send_keys("step 4321 5321")
        self.wait(lambda: "1 of 5,000" in self.find("#leak-status").text)
        self.set_paper()
        self.assertEqual(self.texts(".printed tr.row .function"), ["train::assemble_5321"])

    def test_file_of_paper_has_stacks_and_places(self):
        """As the browser prints: without the emulation."""
        self.set_width(1280)
        self.open("long_names.html")
        self.script("""window.printedText = "";
            window.addEventListener("beforeprint", () => {
                window.printedText = [...document.querySelectorAll(".printed")].map((one) => one.textContent).join();
            });""")
        pdf = self.browser.execute_cdp_cmd("Page.printToPDF", {"paperWidth": 8.27, "paperHeight": 11.69})["data"]
        self.assertGreater(len(pdf), 1000)
        self.assertIn("solver_with_a_long_name_of_its_own.cu:1234", self.script("return window.printedText"))

    def test_bar_of_causes_has_a_legend(self):
        self.open("large.html")
        entries = self.texts(".causes .legend-entry")
        self.assertEqual(len(entries), len(self.all(".cause-part")))
        self.assertTrue(any(entry.startswith("Exception ") and entry.endswith(" %") for entry in entries), entries)

    def test_one_rank_of_many_is_seen_at_once(self):
        for width in (390, 800, 1280):
            with self.subTest(width=width):
                self.set_width(width)
                self.open("job.html")
                self.wait(lambda: self.all(".ranks-plot svg") != [])
                self.assertEqual(self.texts("#ranks h2"), ["Ranks"])
                self.assertEqual(self.texts("#ranks .odd-ranks"),
                                 ["Leaked: rank 5 has 10.0 MiB, 10.0 times the median (1.00 MiB)",
                                  "At the peak: rank 9 has 60.0 GiB, 3.00 times the median (20.0 GiB)"])
                self.assertEqual(self.texts(".odd-names text"), ["rank 5"])
                heights = self.script("""return [...document.querySelectorAll(".rank-bar")]
                    .map((one) => [Number(one.getAttribute("height")), one.classList.contains("odd")])""")
                odd = [height for height, is_odd in heights if is_odd]
                self.assertEqual(len(odd), 1)
                self.assertGreater(odd[0], 5 * max(height for height, is_odd in heights if not is_odd))
                # Seen without scrolling far, and a bar for each part of the ranks.
                self.assertLess(self.find("#ranks").location["y"], 900)
                self.assertGreater(len(heights), 80)
                self.assertLessEqual(self.script("return document.documentElement.scrollWidth"), width)
        Select(self.find("#rank-measure")).select_by_visible_text("At the peak")
        self.assertEqual(self.texts(".odd-names text"), ["rank 9"])

    def test_a_rank_is_chosen(self):
        self.set_width(1280)
        self.open("job.html")
        self.wait(lambda: self.all(".ranks-plot svg") != [])
        self.assertEqual(self.texts("#leak-status")[0].split(" · ")[0], "2 groups")
        self.find("#ranks summary").click()
        self.assertEqual(len(self.all("#ranks tbody tr")), 100)
        self.assertIn("and 924 more", self.find("#ranks details").text)
        rows = self.all("#ranks tbody tr")
        self.assertEqual(rows[0].text.split(), ["rank", "5", "node0", "1005", "10.0", "MiB", "20.0", "GiB"])
        # Only every fourth rank has the second leak. (All but one had the same at the peak: they stand in their order.)
        Select(self.find("#rank-measure")).select_by_visible_text("At the peak")
        self.script("""[...document.querySelectorAll("#ranks tbody button")]
            .find((one) => one.textContent === "rank 2").click()""")
        self.assertIn("1 of 2 groups", self.find("#leak-status").text)
        self.assertEqual(self.find(".chip code").text, "rank 2")
        # In a page of separate reports it is another report.
        self.open("job_apart.html")
        self.wait(lambda: self.all(".ranks-plot svg") != [])
        self.assertEqual(self.texts(".odd-names text"), ["rank 5"])
        self.script("""[...document.querySelectorAll("#ranks tbody button")]
            .find((one) => one.textContent === "rank 7").click()""")
        self.assertIn("pid 1007", self.find(".facts-line").text)

    def test_a_search_looks_at_each_frame_once(self):
        """The work of a key, counted in characters that are looked at: a page of many stacks stays quick. Stacks of
        this page have 8 million characters, the calls of its flame graph 20 million."""
        self.open("many_stacks.html")
        self.assertIn("20,000 groups", self.find("#leak-status").text)
        self.script("""window.looked = 0;
            for (const name of ["includes", "toLowerCase", "indexOf"]) {
                const real = String.prototype[name];
                String.prototype[name] = function (...of) {
                    window.looked += this.length;
                    return real.apply(this, of);
                };
            }""")
        press = """const field = document.querySelector(arguments[0]);
            window.looked = 0;
            field.value = arguments[1];
            field.dispatchEvent(new Event("input", { bubbles: true }));
            return window.looked;"""
        for field in ("#leak-search", "#flame-search"):
            for text in ("s", "step_12", "step_123", "no such function", "layer_7", ""):
                with self.subTest(field=field, text=text):
                    self.assertLess(self.script(press, field, text), 5000000)
            self.script(press, field, "step_123")
            found = self.find("#leak-status" if field == "#leak-search" else "#flame-matches").text
            self.assertRegex(found, "[0-9,]+ of 20,000 groups" if field == "#leak-search" else "in [0-9,]+ places")

    def test_light_and_dark(self):
        self.open("clean.html")

        def colour():
            return self.script("return getComputedStyle(document.body).backgroundColor")

        light = colour()
        self.find("#theme").click()
        dark = colour()
        self.assertNotEqual(light, dark)
        self.find("body").send_keys("t")
        self.assertEqual(colour(), light)
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia",
                                     {"features": [{"name": "prefers-color-scheme", "value": "dark"}]})
        self.script("localStorage.clear()")
        self.open("two.html")
        self.assertEqual(colour(), dark)
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})

    def test_fits_a_phone(self):
        phone = {"width": 390, "height": 800, "deviceScaleFactor": 2, "mobile": True}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
        try:
            self.open("two.html")
            self.find("tr.row").click()
            self.assertEqual(self.script("return document.documentElement.scrollWidth"), 390)
        finally:
            self.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    def test_licence_of_d3_is_shown(self):
        self.open("clean.html")
        self.find("#licence").click()
        self.assertIn("Mike Bostock", self.find("dialog .licence").text)
        self.assertIn("Redistribution", self.find("dialog .licence").text)


if __name__ == "__main__":
    unittest.main()
