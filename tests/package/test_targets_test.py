#!/usr/bin/env python3
"""scripts/test_targets.py, which tells what chosen tests need: test_targets_test.py SOURCE_FOLDER BUILD_FOLDER"""
import contextlib
import io
import json
import pathlib
import subprocess
import sys
import unittest

SOURCE, BUILD = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
sys.path.insert(0, str(SOURCE / "scripts"))
import test_targets  # noqa: E402

NEEDS = test_targets.Needs(BUILD)


def targets(*options):
    """The words that test_targets.py prints, and its exit code."""
    sys.argv[1:] = [str(BUILD), *options]
    with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.redirect_stderr(io.StringIO()):
        code = test_targets.main()
    return printed.getvalue().split(), code


class Names(unittest.TestCase):
    def test_names_in_the_sources_are_those_that_ctest_knows(self):
        """A test that only ctest knew would not be built; CMake cuts a name with a semicolon in two, and neither half
        would run."""
        shown = json.loads(subprocess.run(["ctest", "--test-dir", BUILD, "--show-only=json-v1"], check=True, text=True,
                                          capture_output=True).stdout)["tests"]
        known = {test["name"] for test in shown}
        programs = {pathlib.Path(test["command"][0]).name for test in shown if "command" in test}
        listed = {name for name, (_, needed) in NEEDS.tests.items()
                  if needed is None or programs.issuperset(NEEDS.catch_targets.intersection(needed))}
        self.assertEqual(sorted(known - set(NEEDS.tests)), [])
        self.assertEqual(sorted(listed - known), [])


class Targets(unittest.TestCase):
    def test_unit_tests_need_no_program_of_other_tests(self):
        needed, code = targets("-L", "^unit$")
        self.assertEqual(code, 0)
        self.assertTrue({"interpose_unit_test", "report_unit_test", "bin/simcuda_test"} <= set(needed), needed)
        self.assertEqual([name for name in needed if name in ("all", "process_test", "guest_test", "leak_one")], [])
        steps = subprocess.run(["ninja", "-C", BUILD, "-t", "query", "report_unit_test", "interpose_unit_test"],
                               check=True, capture_output=True, text=True).stdout
        self.assertNotIn("subjects/", steps)

    def test_a_name_needs_its_program(self):
        self.assertEqual(targets("-R", "^process:a double free"), (["process_test"], 0))
        self.assertEqual(targets("-R", "^guest:"), (["guest_test"], 0))
        self.assertEqual(targets("-R", "formats_test.py"), ([], 0))
        needed, _ = targets("-R", "^example: two_gpus$")
        self.assertTrue({"two_gpus", "bin/culprit", "lib/libculprit.so", "simcudart"} <= set(needed), needed)
        # A program that is an argument by its path, whether it is built or not.
        self.assertEqual(targets("-R", "two million stacks"), (["bench/stack_soak"], 0))

    def test_a_test_of_the_whole_build_needs_everything(self):
        self.assertEqual(targets("-R", "^gpu: audit$"), (["all"], 0))
        self.assertEqual(targets("-I", "3,4"), (["all"], 0))
        self.assertEqual(targets("--rerun-failed"), (["all"], 0))

    def test_no_test(self):
        self.assertEqual(targets("-R", "no test has this name"), ([], 1))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
