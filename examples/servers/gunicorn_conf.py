"""gunicorn -c gunicorn_conf.py app:app, under culprit run or with LD_PRELOAD: GPU memory of each worker.

A worker has a dump of its own, from its first CUDA call on; the master makes no CUDA call, and has none. Load models in
the worker (post_fork, or the first request): CUDA that was initialized in the master, with preload_app, does not work
in its forks. With max_requests a worker ends before its leak fills the GPU, and the leak stays unknown.
"""
import pathlib

bind = "127.0.0.1:8000"
workers = 2
max_requests = 0  # set it to hide a leak; leave it at 0 to find one
DUMPS = pathlib.Path("dumps")
KEPT = 20


def on_starting(_server):
    """Rotates the dumps: those of the newest workers are kept."""
    DUMPS.mkdir(exist_ok=True)
    dumps = sorted(DUMPS.glob("*.dump"), key=lambda path: path.stat().st_mtime)
    for old in dumps[:-KEPT]:
        old.unlink()


def child_exit(server, worker):
    """The report of a worker that has ended is one command away."""
    for dump in DUMPS.glob(f"*.{worker.pid}.dump"):
        server.log.info("worker %d has ended: culprit report %s", worker.pid, dump)
