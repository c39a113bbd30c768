#!/usr/bin/env python3
"""Builds PyCUDA for this machine's Python: build_pycuda.py SOURCES LIBCUDA FOLDER

PyPI has PyCUDA as source only, and a GPU machine may be cut off from it: SOURCES is the folder that
scripts/pycuda-source.sh made, LIBCUDA any libcuda.so to link with. Afterwards FOLDER can stand in PYTHONPATH, and a
line on stdout names the archive that was built. The files and definitions are those of PyCUDA's setup.py, without
OpenGL and cuRAND; unlike there, all files are compiled at the same time. Needs numpy, g++ (or CXX) and the headers of
Python and CUDA; without them a line on stdout names the missing part, and the exit code is 77.
"""
import os
import shlex
import subprocess
import sys
import sysconfig
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

EXIT_MISSING = 77
DEFINITIONS = ["PYGPU_PACKAGE=pycuda", "PYGPU_PYCUDA=1", "BOOST_ALL_NO_LIB=1", "BOOST_THREAD_BUILD_DLL=1",
               "BOOST_PYTHON_SOURCE=1",
               "BOOST_MULTI_INDEX_DISABLE_SERIALIZATION=1", "BOOST_THREAD_DONT_USE_CHRONO=1", "boost=pycudaboost"]
# The longest first.
OWN = ["src/wrapper/wrap_cudadrv.cpp", "src/wrapper/mempool.cpp", "src/cpp/cuda.cpp", "src/cpp/bitlog.cpp"]
PRIVATE = ["src/wrapper/_pvt_struct_v3.cpp"]
BOOST = "bpl-subset/bpl_subset"


def give_up(reason):
    print(reason)
    sys.exit(EXIT_MISSING)


def compiler():
    words = shlex.split(os.environ.get("CXX", "g++"))
    try:
        subprocess.run([*words, "--version"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        give_up(f"no C++ compiler: {words[0]}")
    return words


def header_folders():
    try:
        import numpy
    except ImportError:
        give_up("numpy is not installed")
    python = sysconfig.get_paths()["include"]
    if not Path(python, "Python.h").exists():
        give_up(f"no Python.h in {python}")
    cuda = [Path(root, "include") for root in (os.environ.get("CUDA_HOME", "/usr/local/cuda"), "/usr/local", "/usr")]
    cuda = [folder for folder in cuda if (folder / "cuda.h").exists()]
    if not cuda:
        give_up("no cuda.h: CUDA_HOME is where the toolkit is")
    return [python, numpy.get_include(), str(cuda[0])]


def boost_sources(source):
    libraries = source / BOOST / "libs"
    found = [path for path in sorted(libraries.glob("**/*.cpp"))
             if path.relative_to(libraries).parts[0] != "thread"]
    return found + sorted(libraries.glob("thread/src/pthread/*.cpp"))


def build(source, folder, libcuda):
    command = [*compiler(), "-O1", "-g0", "-fPIC", "-w", *(f"-D{one}" for one in DEFINITIONS), "-Isrc/cpp",
               f"-I{BOOST}", *(f"-I{one}" for one in header_folders())]
    boost = source / BOOST / "pycudaboost"
    if not boost.exists():
        boost.symlink_to("boost")

    def compile_one(file):
        target = folder / (str(Path(file).with_suffix("")).replace("/", "_") + ".o")
        done = subprocess.run([*command, "-c", str(file), "-o", str(target)], cwd=source, capture_output=True,
                              text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{file}: {done.stderr}")
        return str(target)

    files = OWN + PRIVATE + [str(path.relative_to(source)) for path in boost_sources(source)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = dict(zip(files, pool.map(compile_one, files)))
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    modules = {"_driver": [objects[file] for file in files if file not in PRIVATE],
               "_pvt_struct": [objects[file] for file in PRIVATE]}
    for name, of_module in modules.items():
        subprocess.run([*compiler(), "-shared", "-o", str(source / "pycuda" / (name + suffix)), *of_module, "-pthread",
                        str(libcuda)], check=True)
    (source / "pycuda").rename(folder / "pycuda")


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    sources, libcuda, folder = (Path(argument).resolve() for argument in sys.argv[1:])
    archives = sorted(sources.glob("pycuda-*.tar.gz"))
    if not archives:
        give_up(f"no source of PyCUDA in {sources}")
    begin = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archives[-1]) as archive:
        archive.extractall(folder)
    try:
        build(folder / archives[-1].name[:-len(".tar.gz")], folder, libcuda)
    except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"build_pycuda.py: {error}")
    print(f"{archives[-1].name} in {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
