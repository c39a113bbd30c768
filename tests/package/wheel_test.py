#!/usr/bin/env python3
"""The parts of scripts/packaging/wheel.py that need no package: wheel_test.py SOURCE_FOLDER"""
import os
import pathlib
import re
import sys
import tempfile
import unittest
import unittest.mock
import zipfile

SOURCE = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(SOURCE / "scripts" / "packaging"))
import wheel  # noqa: E402

URL = "https://example.org/me/culprit"


class Links(unittest.TestCase):
    def test_they_lead_to_the_version_in_the_repository(self):
        text = ("[a](b/c.md#d), ![p](x.png), [`w`](https://w.org/x), [h](#here), [[1] x](y)\n"
                "    [code](left)\n```\n[code](alone)\n```\n")
        code = "    [code](left)\n```\n[code](alone)\n```\n"
        self.assertEqual(wheel.with_absolute_links(text, URL, "1.2.3"),
                         f"[a]({URL}/blob/v1.2.3/b/c.md#d), ![p]({URL}/raw/v1.2.3/x.png), [`w`](https://w.org/x), "
                         f"[h](#here), [[1] x]({URL}/blob/v1.2.3/y)\n" + code)
        self.assertEqual(wheel.with_absolute_links(text, "", "1.2.3"),
                         "a, p, [`w`](https://w.org/x), [h](#here), [1] x\n" + code)

    def test_those_of_the_readme_name_files(self):
        text = (SOURCE / "README.md").read_text(encoding="utf-8")
        links = re.findall(r"\]\(([^()\s]+)\)", wheel.with_absolute_links(text, URL, "1"))
        own = [link[len(URL + "/blob/v1/"):] for link in links if link.startswith(URL)]
        self.assertGreater(len(own), 20)
        for link in own:
            self.assertTrue((SOURCE / link.partition("#")[0]).exists(), link)
        self.assertEqual([link for link in links if not link.startswith(("https://", "#"))], [])

    def test_the_address_of_the_repository(self):
        for environment, url in (
                ({"CULPRIT_URL": URL + "/"}, URL),
                ({"GITHUB_SERVER_URL": "https://a.org", "GITHUB_REPOSITORY": "me/it"}, "https://a.org/me/it")):
            with unittest.mock.patch.dict(os.environ, environment):
                self.assertEqual(wheel.repository_url(), url)
        for remote, url in (("git@github.com:me/it.git\n", "https://github.com/me/it"),
                            ("https://user:word@host.org/me/it\n", "https://host.org/me/it"), ("/srv/it\n", ""),
                            ("", "")):
            with unittest.mock.patch.dict(os.environ, clear=True), \
                    unittest.mock.patch("subprocess.run", return_value=unittest.mock.Mock(stdout=remote)):
                self.assertEqual(wheel.repository_url(), url)


class Contents(unittest.TestCase):
    def test_no_file_is_there_twice(self):
        with tempfile.TemporaryDirectory() as work:
            folder = pathlib.Path(work)
            for name in ("bin/culprit", "share/culprit/python/culprit/__init__.py", "lib/cmake/x.cmake",
                         "share/doc/culprit/licences/node-d3", "share/culprit/nightly/d3-licence"):
                (folder / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / "tree" / name).write_text(name, encoding="utf-8")
            (folder / "README.md").write_text("[a](b)\n", encoding="utf-8")
            with zipfile.ZipFile(folder / "pure.whl", "w") as archive:
                archive.writestr("culprit/__init__.py", "share/culprit/python/culprit/__init__.py")
                archive.writestr("c-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: c\nVersion: 1\n\nold")
            with unittest.mock.patch.dict(os.environ, CULPRIT_URL=URL):
                files = {name: data for name, data, _ in wheel.contents(
                    folder / "pure.whl", folder / "tree", folder / "README.md", "tag")}
        self.assertEqual(sorted(name for name in files if name.startswith("culprit/_native/")),
                         ["culprit/_native/README", "culprit/_native/bin/culprit",
                          "culprit/_native/share/culprit/nightly/d3-licence"])
        self.assertEqual(files["c-1.dist-info/METADATA"].decode(),
                         "Metadata-Version: 2.1\nName: c\nVersion: 1\nDescription-Content-Type: text/markdown\n"
                         f"Project-URL: Repository, {URL}\n\n[a]({URL}/blob/v1/b)\n")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
