"""Ray: an actor under culprit. Its worker process has a dump in the folder that its node has at /tmp/culprit.

Only processes with this runtime environment are recorded, not the raylet and not other workers. Ray keeps idle workers
and gives them to other actors with the same environment: `culprit report --since-mark engine-1` shows what was
allocated since that actor began.
"""
import os

import ray

LIBRARY = os.environ.get("CULPRIT_LIBRARY", "/opt/culprit/lib/libculprit.so")  # the same path on each node
UNDER_CULPRIT = {"env_vars": {"LD_PRELOAD": LIBRARY, "CULPRIT_OUT": "/tmp/culprit/%h.%p.dump", "CULPRIT_QUIET": "1"}}


@ray.remote(num_gpus=1, runtime_env=UNDER_CULPRIT)
class Engine:
    """The work, and two functions that tell where its dump is."""

    def __init__(self, name):
        import culprit  # of the wheel; without it the dump has no marks
        culprit.mark(name)

    def pid(self):
        """For `culprit top PID` and `culprit watch PID` on that node."""
        return os.getpid()

    def node(self):
        return ray.get_runtime_context().get_node_id()


if __name__ == "__main__":
    ray.init()
    engine = Engine.remote("engine-0")
    print("process", ray.get(engine.pid.remote()), "on node", ray.get(engine.node.remote()))
