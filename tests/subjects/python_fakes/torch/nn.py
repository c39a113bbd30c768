"""torch.nn: modules. torch/__init__.py puts Parameter here."""
import sys


class Module:
    def __init__(self):
        self._parameters, self._buffers, self._modules = {}, {}, {}


class Linear(Module):
    """A layer whose parameters have `size` bytes."""

    def __init__(self, size):
        super().__init__()
        self._parameters["weight"] = sys.modules["torch.nn"].Parameter(size, requires_grad=True)

    def __call__(self, value):
        weight = self._parameters["weight"]
        return value._make(value.untyped_storage().nbytes(), weight)
