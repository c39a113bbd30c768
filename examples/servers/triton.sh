#!/bin/bash
# NVIDIA Triton under culprit: triton.sh MODEL_REPOSITORY, in Triton's container with culprit at /opt/culprit.
#
# tritonserver has the memory of the TensorRT, ONNX Runtime and PyTorch backends. Each instance of a model of the Python
# backend is a process of its own, triton_python_backend_stub, with a dump of its own. The pools for requests, pinned
# and on each GPU (--pinned-memory-pool-byte-size, --cuda-memory-pool-byte-size), are taken once at start.
set -euo pipefail
culprit=${CULPRIT:-/opt/culprit}
dumps=${CULPRIT_DUMPS:-/dumps}
mkdir -p "$dumps"
# Dumps of servers that ended a week ago.
find "$dumps" -name '*.dump' -mtime +7 -delete
export LD_PRELOAD=$culprit/lib/libculprit.so CULPRIT_OUT=$dumps/%n.%p.dump CULPRIT_QUIET=1
exec tritonserver --model-repository "${1:?usage: triton.sh MODEL_REPOSITORY}" "${@:2}"
