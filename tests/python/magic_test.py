#!/usr/bin/env python3
"""%load_ext culprit and %%culprit in IPython: magic_test.py BUILD_FOLDER SOURCE_FOLDER"""
import os
import sys
import unittest

from package_test import BUILD, HERE, PACKAGE, SOURCE, InFolder

IPYTHON = os.path.join(BUILD, "deps", "python-tools", "ipython")
START = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_cell("%load_ext culprit")
shell.run_cell("import fake_cuda; kept = []")
def cell(text):
    result = shell.run_cell(text, store_history=True)
    print("--")
    return result
"""


@unittest.skipUnless(os.path.isdir(IPYTHON), "no IPython")
class Magic(InFolder):
    def run_cells(self, text, **more):
        done = self.run_python(START + text, PYTHONPATH=f"{IPYTHON}:{PACKAGE}:{HERE}",
                               IPYTHONDIR=os.path.join(self.folder, "ipython"), **more)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return [part.strip("\n") for part in done.stdout.split("--\n")]

    def test_the_leaks_of_a_cell_as_a_table(self):
        clean, leaky, allowed, failed, wrong, last = self.run_cells(r'''
cell("%%culprit\nmemory = fake_cuda.Memory(77)\nmemory.free()")
cell("%%culprit\ndef leak(size):\n    kept.append(fake_cuda.Memory(size))\nleak(5000)\nleak(2048)\nprint('the cell')")
cell("%%culprit --allow 1K\nkept.append(fake_cuda.Memory(1000))")
cell("%%culprit\nkept.append(fake_cuda.Memory(1000)); 1 / 0")
assert not cell("%%culprit --every\n1").success
''')
        self.assertEqual(clean, "culprit: no GPU memory was left behind")
        lines = leaky.splitlines()
        self.assertEqual(lines[:2], ["the cell", "left behind: 6.88 KiB"])
        self.assertEqual(lines[2].split()[0], "memory")
        rows = [" ".join(line.split()) for line in lines[3:]]
        self.assertEqual(rows, ["4.88 KiB 1 cudaMalloc fake_cuda.py:12 Memory.__init__ this cell:3",
                                "2.00 KiB 1 cudaMalloc fake_cuda.py:12 Memory.__init__ this cell:3"])
        self.assertEqual(allowed, "culprit: at most 1.00 KiB of GPU memory was left behind")
        self.assertIn("ZeroDivisionError", failed)
        self.assertIn("the cell failed", failed)
        self.assertIn("one option: --allow SIZE", wrong)
        self.assertEqual(last, "")

    def test_tensors_and_the_table_as_html(self):
        fakes = os.path.join(SOURCE, "tests", "subjects", "python_fakes")
        out = self.run_cells(f"import sys; sys.path.insert(0, {fakes!r})\n" + r'''
shown = []
import IPython.display
IPython.display.display = shown.append
shell.run_cell("%reload_ext culprit")
cell("import torch; torch.empty(10)")
cell("%%culprit\n\nstate = {'<a>': torch.empty(600 << 10)}")
print(shown[0]); print(shown[0]._repr_html_())
''', FAKE_C10_CUDA=os.path.join(BUILD, "subjects", "libc10_cuda.so"))[-1]
        self.assertIn("left behind: 600 KiB\n", out)
        self.assertIn("a tensor, held by `state['<a>']`", out)
        self.assertIn("<tbody><tr><td>600 KiB</td><td>1</td>"
                      "<td>a tensor, held by `state[&#x27;&lt;a&gt;&#x27;]`</td>", out)

    def test_the_variables_that_keep_tensors(self):
        fakes = os.path.join(SOURCE, "tests", "subjects", "python_fakes")
        first, grown, wrong, last = self.run_cells(f"import sys; sys.path.insert(0, {fakes!r})\n" + r'''
shell.run_cell("import torch; losses = [torch.empty(600 << 10) for _ in range(3)]")
cell("%culprit")
shell.run_cell("losses += [torch.empty(600 << 10) for _ in range(2)]")
cell("%culprit --since")
assert not cell("%culprit --all").success
''', FAKE_C10_CUDA=os.path.join(BUILD, "subjects", "libc10_cuda.so"))
        self.assertEqual(first.splitlines(), ["1.76 MiB of tensors and arrays live",
                                              "     1.76 MiB  variable      `losses`, a list of 3"])
        self.assertEqual(grown.splitlines(), ["2.93 MiB of tensors and arrays live; what grew, by keeper:",
                                              "    +1.17 MiB  variable      `losses`, a list of 5"])
        self.assertIn("one option: --since", wrong)
        self.assertEqual(last, "")

    def test_without_the_library_the_cell_runs(self):
        out = self.run_cells(r'cell("%%culprit\nprint(6 * 7)")', preload=False)
        self.assertRegex(out[0], r"^culprit is not loaded: nothing is checked\. .*\n42$")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
