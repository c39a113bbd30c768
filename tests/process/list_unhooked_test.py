#!/usr/bin/env python3
"""Tests of scripts/list-unhooked.py on small headers: the functions that it must demand, and those that it must
accept."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "list-unhooked.py"

HEADER = """
#define cuMemAlloc cuMemAlloc_v2
#define cuMemAllocAsync __CUDA_API_PTSZ(cuMemAllocAsync)
CUresult CUDAAPI cuInit(unsigned int Flags);
CUresult CUDAAPI cuMemAlloc(CUdeviceptr *dptr, size_t bytesize);
CUresult CUDAAPI cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream);
#if defined(__CUDA_API_VERSION_INTERNAL)
CUresult CUDAAPI cuMemAlloc(CUdeviceptr_v1 *dptr, unsigned int bytesize);
#endif
"""

ALL_HOOKED = """
// HOOK_MAKE(symbol, ...) is no row, it does not begin its line
HOOK_MAKE(cuMemAlloc, (CUdeviceptr_v1* dptr))
HOOK_MAKE(cuMemAlloc_v2, (CUdeviceptr* dptr))
HOOK_CUSTOM(cuMemAllocAsync, (CUdeviceptr* dptr))
HOOK_CUSTOM(cuMemAllocAsync_ptsz, (CUdeviceptr* dptr))
"""


class ListUnhooked(unittest.TestCase):
    def check(self, hooks, exclusions, runtime=None, header=HEADER):
        """(exit code, lines printed) of the script on these texts."""
        with tempfile.TemporaryDirectory() as folder:
            place = pathlib.Path(folder)
            (place / "cuda.h").write_text(header)
            if runtime is not None:
                (place / "cuda_runtime_api.h").write_text(runtime)
            (place / "hooks.def").write_text(hooks)
            (place / "exclusions.txt").write_text(exclusions)
            command = [sys.executable, SCRIPT, "--include", place, "--hooks", place / "hooks.def"]
            command += ["--exclusions", place / "exclusions.txt"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout.splitlines()

    def test_everything_hooked(self):
        self.assertEqual(self.check(ALL_HOOKED, ""), (0, []))

    def test_every_version_and_twin_is_demanded(self):
        code, lines = self.check("", "")
        self.assertEqual(code, 1)
        names = [line.split()[0] for line in lines]
        self.assertEqual(names, ["cuMemAlloc", "cuMemAllocAsync", "cuMemAllocAsync_ptsz", "cuMemAlloc_v2"])

    def test_exclusion_with_reason(self):
        hooks = ALL_HOOKED.replace("HOOK_MAKE(cuMemAlloc, (CUdeviceptr_v1* dptr))\n", "")
        self.assertEqual(self.check(hooks, "cuMemAlloc  32-bit programs only  # comment\n"), (0, []))

    def test_exclusion_without_reason(self):
        hooks = ALL_HOOKED.replace("HOOK_MAKE(cuMemAlloc, (CUdeviceptr_v1* dptr))\n", "")
        self.assertEqual(self.check(hooks, "cuMemAlloc\n")[0], 1)

    def test_exclusion_of_a_hooked_function(self):
        code, lines = self.check(ALL_HOOKED, "cuMemAlloc_v2  why\n")
        self.assertEqual(code, 1)
        self.assertIn("is hooked", lines[0])

    def test_exclusion_of_nothing(self):
        code, lines = self.check(ALL_HOOKED, "cuMemGone  why\n")
        self.assertEqual(code, 1)
        self.assertIn("names no function", lines[0])

    def test_runtime_needs_its_reason(self):
        runtime = "extern __host__ cudaError_t CUDARTAPI cudaMalloc(void **devPtr, size_t size);\n"
        self.assertEqual(self.check(ALL_HOOKED, "", runtime)[0], 1)
        self.assertEqual(self.check(ALL_HOOKED, "cuda*  ends in driver calls\n", runtime), (0, []))

    def test_a_row_for_the_result_is_no_decision(self):
        hooks = ALL_HOOKED.replace("HOOK_MAKE(cuMemAlloc,", "HOOK_CHECK(cuMemAlloc,")
        code, lines = self.check(hooks, "")
        self.assertEqual((code, [line.split()[0] for line in lines]), (1, ["cuMemAlloc"]))
        self.assertEqual(self.check(hooks, "cuMemAlloc  32-bit programs only\n"), (0, []))

    def test_copies_need_a_row(self):
        header = HEADER.replace("CUresult CUDAAPI cuInit", "CUresult CUDAAPI cuMemcpy(int x);\nCUresult CUDAAPI cuInit")
        code, lines = self.check(ALL_HOOKED, "", header=header)
        self.assertEqual(code, 1)
        self.assertIn("cuMemcpy has no row", lines[0])
        self.assertEqual(self.check(ALL_HOOKED + "HOOK_CHECK(cuMemcpy, (int x))\n", "", header=header), (0, []))

    def test_missing_header_is_no_success(self):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, SCRIPT, "--include", folder, "--hooks", SCRIPT, "--exclusions", SCRIPT]
            self.assertEqual(subprocess.run(command, capture_output=True, timeout=60).returncode, 2)


if __name__ == "__main__":
    unittest.main()
