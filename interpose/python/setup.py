"""Installs culprit.pth, which runs the start-up hook, beside the packages. pyproject.toml cannot express that."""
import os

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithStartupHook(build_py):
    def run(self):
        super().run()
        if not getattr(self, "editable_mode", False):
            self.copy_file("culprit.pth", os.path.join(self.build_lib, "culprit.pth"))


setup(cmdclass={"build_py": BuildWithStartupHook})
