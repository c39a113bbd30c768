"""The report of a dump, for tests in Python."""
import json
import os
import subprocess


def read_report(culprit, dump, *options, **environment):
    """The report of a dump as JSON, made by the command `culprit` with further `options`. Raises RuntimeError with the
    command's messages when it fails."""
    result = subprocess.run([str(culprit), "report", "--format", "json", *options, str(dump)], text=True, timeout=300,
                            stdin=subprocess.DEVNULL, capture_output=True,
                            env=dict(os.environ, LD_PRELOAD="", DEBUGINFOD_URLS="", **environment))
    if result.returncode != 0:
        raise RuntimeError(f"culprit report: exit code {result.returncode}: {result.stderr}")
    return json.loads(result.stdout)
