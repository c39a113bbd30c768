"""Programs that keep tensors, each in one of the ways that people report, or in two at a time: PROGRAMS is a list of
(name, text, rows), where `rows` are those that a report has to have: (kind, path, MiB).

A text begins with a line break, and runs in one file behind program_head(). mib(n) is a tensor of n MiB. A path is
compared without the lengths of containers, and "..." at its end stands for anything.
"""

PRELUDE = """
import torch
def mib(n): return torch.ones(n << 18, device=DEVICE)
def net_of(n=1024, layers=2):
    parts = [torch.nn.Sequential(torch.nn.Linear(n, n), torch.nn.Tanh()) for _ in range(layers)]
    return torch.nn.Sequential(*parts).to(DEVICE)
"""

GRAPH = " -> Tensor.grad_fn -> saved tensors"


def program_head(device):
    """The beginning of a program's first line."""
    return f"DEVICE = {device!r}; exec({PRELUDE!r})"


# --- Autograd. A layer of net_of() saves its result: 4 MiB for a batch of 1,024 rows; the first one its input, too.
LOSSES = """
net = net_of()
losses = []
for _ in range(10):
    losses.append(net(torch.randn(1024, 1024, device=DEVICE)).mean())
"""
TOTAL = """
net = net_of()
total = torch.zeros((), device=DEVICE)
for _ in range(10):
    total = total + net(torch.randn(1024, 1024, device=DEVICE)).mean()
"""
HISTORY = """
class Trainer:
    def __init__(self):
        self.model, self.history = net_of(), {"loss": [], "step": []}
    def step(self, number):
        self.history["loss"].append(self.model(torch.randn(1024, 1024, device=DEVICE)).mean())
        self.history["step"].append(number)
trainer = Trainer()
for number in range(10):
    trainer.step(number)
"""
METRIC = """
net = net_of()
class Metric:
    value = 0
    def update(self, value): self.value = self.value + value
metric = Metric()
for _ in range(10):
    metric.update(net(torch.randn(1024, 1024, device=DEVICE)).mean())
"""
CUSTOM = """
class Square(torch.autograd.Function):
    @staticmethod
    def forward(context, value):
        context.save_for_backward(value)
        context.extra = mib(3)
        return value * value
    @staticmethod
    def backward(context, gradient):
        return gradient
weight = torch.ones(1 << 20, device=DEVICE, requires_grad=True)
outputs = []
for _ in range(5):
    outputs.append(Square.apply(weight * 2).sum())
"""
RETAINED = """
net = net_of()
kept = None
for _ in range(3):
    loss = net(torch.randn(1024, 1024, device=DEVICE)).mean()
    loss.backward(retain_graph=True)
    kept = loss
del loss
"""
CREATED = """
weight = torch.randn(1 << 20, device=DEVICE, requires_grad=True)
penalties = []
for _ in range(4):
    gradient, = torch.autograd.grad((weight ** 3).sum(), weight, create_graph=True)
    penalties.append(gradient.pow(2).sum())
del gradient
"""
HOOKS = """
net = net_of()
losses = []
def unpack(value):
    raise SystemExit("the hook of the program ran")
with torch.autograd.graph.saved_tensors_hooks(lambda value: value.clone(), unpack):
    for _ in range(3):
        losses.append(net(torch.randn(1024, 1024, device=DEVICE)).mean())
"""
STATE = """
net = net_of()
hidden = torch.zeros(1024, 1024, device=DEVICE)
for _ in range(8):
    hidden = net(hidden)
"""

# --- Variables
EXCEPTION = """
def work():
    batch = mib(24)
    raise ValueError("bad batch")
try:
    work()
except ValueError as error:
    last_error = error
"""
ERRORS = """
errors = []
def work(number):
    batch = mib(4)
    raise ValueError(f"bad batch {number}")
for number in range(6):
    try:
        work(number)
    except ValueError as error:
        errors.append(error)
"""
CAUSE = """
def inner():
    batch = mib(24)
    raise KeyError("x")
def outer():
    try:
        inner()
    except KeyError as error:
        raise RuntimeError("y") from error
try:
    outer()
except RuntimeError as error:
    failure = error
"""
CACHE = """
import functools
@functools.lru_cache(maxsize=None)
def table(n):
    return mib(n)
for n in range(1, 7):
    table(n)
"""
METHOD_CACHE = """
import functools
class Encoder:
    @functools.lru_cache(maxsize=None)
    def encode(self, n):
        return mib(n)
encoder = Encoder()
for n in range(1, 7):
    encoder.encode(n)
"""
CLOSURE = """
callbacks = []
def subscribe():
    batch = mib(8)
    callbacks.append(lambda: batch)
for _ in range(3):
    subscribe()
"""
DEFAULT = """
def predict(scale, table=mib(24)):
    return scale
"""
KEYWORD_DEFAULT = """
def predict(scale, *, table=mib(24)):
    return scale
"""
PARTIAL = """
import functools
step = functools.partial(print, mib(24))
"""
BOUND = """
class Loader:
    def __init__(self): self.batch = mib(24)
    def next(self): return self.batch
handler = Loader().next
"""
GENERATOR = """
def batches():
    batch = mib(24)
    yield 1
    yield 2
stream = batches()
next(stream)
"""
COROUTINE = """
import types
@types.coroutine
def pause():
    yield
async def serve():
    batch = mib(24)
    await pause()
task = serve()
task.send(None)
"""
FUTURE = """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(2) as pool:
    futures = [pool.submit(mib, 8) for _ in range(3)]
"""
QUEUE = """
import queue
work = queue.Queue()
for _ in range(3):
    work.put(mib(8))
"""
DEQUE = """
import collections
replay = collections.deque(maxlen=100)
for _ in range(6):
    replay.append(mib(4))
"""
LOCAL = """
import threading
local = threading.local()
local.buffer = mib(24)
"""
CONTEXT = """
import contextvars
current = contextvars.ContextVar("current")
current.set(mib(24))
"""
CLASS = """
class Registry:
    entries = {}
for number in range(3):
    Registry.entries[number] = mib(8)
"""
SLOTS = """
class Item:
    __slots__ = ("data",)
    def __init__(self): self.data = mib(8)
items = [Item() for _ in range(3)]
"""
NESTED = """
state = {"cache": {"layer": {"keys": mib(12), "values": mib(12)}}}
"""
NAMED = """
import collections
Batch = collections.namedtuple("Batch", "inputs targets")
last = Batch(mib(12), mib(12))
"""
DATACLASS = """
import dataclasses
@dataclasses.dataclass
class Run:
    samples: list
run = Run([mib(8) for _ in range(3)])
"""
ORDERED = """
import collections
lru = collections.OrderedDict()
for number in range(40):
    lru[number] = mib(1)
"""
DEFAULTDICT = """
import collections
by_class = collections.defaultdict(list)
for number in range(24):
    by_class[number % 20].append(mib(1))
"""
CYCLE = """
import gc
gc.disable()
class Node:
    pass
for _ in range(3):
    node = Node()
    node.self = node
    node.data = mib(8)
del node
"""
SHARED = """
first = mib(24)
second = [first]
"""
VIEWS = """
rows = [mib(8)[:10] for _ in range(3)]
"""
MODULE_LIST = """
net = net_of()
outputs = []
handle = net.register_forward_hook(lambda module, inputs, output: outputs.append(output.detach()))
for _ in range(6):
    with torch.no_grad():
        net(torch.randn(1024, 1024, device=DEVICE))
"""
OLD_OPTIMIZER = """
net = net_of(1024, 3)
old = torch.optim.Adam(net.parameters())
net(torch.randn(8, 1024, device=DEVICE)).sum().backward()
old.step()
old.zero_grad(set_to_none=True)
net = None
"""
GRADIENTS = """
net = net_of(1024, 6)
net(torch.randn(8, 1024, device=DEVICE)).sum().backward()
"""
WEIGHTS = """
net = net_of(1024, 6)
"""
LAST_VALUE = """
import sys
def work():
    batch = mib(24)
    raise ValueError("x")
try:
    work()
except ValueError as error:
    sys.last_value = error
"""
MODE = """
from torch.overrides import TorchFunctionMode
class Loud(TorchFunctionMode):
    def __torch_function__(self, function, types, arguments=(), options=None):
        print("the mode of the program ran")
        return function(*arguments, **(options or {}))
kept = [mib(8) for _ in range(3)]
mode = Loud()
import atexit
mode.__enter__()
"""
# --- Tensors that objects of C++ have, and the weights of TorchScript, which no object of Python is.
SCRIPT = """
import os, tempfile
class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__(); self.weight = torch.nn.Parameter(torch.ones(4096, 2048))
    def forward(self, rows): return rows @ self.weight
place = tempfile.mktemp()
torch.jit.save(torch.jit.trace(Layer(), torch.ones(1, 4096)), place)
class Server: pass
server = Server()
server.model = torch.jit.load(place, map_location="cuda")
os.unlink(place)
"""
CAPSULES = """
from torch.utils.dlpack import to_dlpack
capsules = [to_dlpack(mib(8)) for _ in range(3)]
"""
FUTURE_OF_CPP = """
future = torch.futures.Future()
future.set_result(mib(24))
"""


def exception(name, function, size, kind="variable"):
    return (kind, f"`{name}.__traceback__ -> {function}", size)


WAYS = [
    ("losses", LOSSES, [("autograd", "`losses`, a list" + GRAPH, 120)]),
    ("total", TOTAL, [("autograd", "`total`" + GRAPH, 120)]),
    ("history", HISTORY, [("autograd", "`trainer.history['loss']`, a list" + GRAPH, 120)]),
    ("metric", METRIC, [("autograd", "`metric.value`" + GRAPH, 120)]),
    ("custom function", CUSTOM, [("autograd", "`outputs`, a list" + GRAPH, 35)]),
    ("TorchScript", SCRIPT, [("parameters", "`server.model`", 32)]),
    ("DLPack capsules", CAPSULES, [("variable", "`capsules`, a list -> C++ objects", 24)]),
    ("future of C++", FUTURE_OF_CPP, [("variable", "`future -> C++ objects`", 24)]),
    ("retain_graph", RETAINED, [("autograd", "`kept`" + GRAPH, 12)]),
    ("create_graph", CREATED, [("autograd", "`penalties`, a list" + GRAPH, 16)]),
    ("saved tensor hooks", HOOKS, []),
    ("hidden state", STATE, [("autograd", "`hidden`" + GRAPH, 64)]),
    ("exception", EXCEPTION, [exception("last_error", "work() line 4: batch`", 24)]),
    ("exceptions", ERRORS, [("variable", "`errors`, a list -> .__traceback__ -> work() line 5: batch", 24)]),
    ("cause", CAUSE, [("variable", "`failure.__cause__.__traceback__ -> inner() line 4: batch`", 24)]),
    ("lru_cache", CACHE, [("variable", "`table -> its cache`, a dict", 21)]),
    ("lru_cache of a method", METHOD_CACHE, [("variable", "`Encoder.encode -> its cache`, a dict", 21)]),
    ("closure", CLOSURE, [("variable", "`callbacks`, a list -> batch, a variable of its closure", 24)]),
    ("default value", DEFAULT, [("variable", "`predict -> a default value`", 24)]),
    ("keyword default", KEYWORD_DEFAULT, [("variable", "`predict.__kwdefaults__['table']`", 24)]),
    ("partial", PARTIAL, [("variable", "`step.args`, a tuple", 24)]),
    ("bound method", BOUND, [("variable", "`handler.__self__.batch`", 24)]),
    ("generator", GENERATOR, [("variable", "`stream -> batches() line 4: batch`", 24)]),
    ("coroutine", COROUTINE, [("variable", "`task -> serve() line 8: batch`", 24)]),
    ("future", FUTURE, [("variable", "`futures`, a list -> ._result", 24)]),
    ("queue", QUEUE, [("variable", "`work.queue`, a deque", 24)]),
    ("deque", DEQUE, [("variable", "`replay`, a deque", 24)]),
    ("thread-local", LOCAL, [("variable", "`local.buffer`", 24)]),
    ("context variable", CONTEXT, [("variable", "`current, a context variable`", 24)]),
    ("class attribute", CLASS, [("variable", "`Registry.entries`, a dict", 24)]),
    ("slots", SLOTS, [("variable", "`items`, a list -> .data", 24)]),
    ("nested", NESTED, [("variable", "`state['cache']['layer']['keys']`", 12),
                        ("variable", "`state['cache']['layer']['values']`", 12)]),
    ("named tuple", NAMED, [("variable", "`last`, a Batch", 24)]),
    ("dataclass", DATACLASS, [("variable", "`run.samples`, a list", 24)]),
    ("ordered dict", ORDERED, [("variable", "`lru`, a OrderedDict", 40)]),
    ("defaultdict", DEFAULTDICT, [("variable", "`by_class`, a defaultdict", 24)]),
    ("cycle", CYCLE, [("garbage", "a reference cycle with a Node", 24)]),
    ("shared", SHARED, [("variable", "shared by `first` and `second`: free both", 24)]),
    ("views", VIEWS, [("variable", "`rows`, a list", 24)]),
    ("forward hook", MODULE_LIST, [("variable", "`outputs`, a list", 24)]),
    ("old optimizer", OLD_OPTIMIZER, [("optimizer", "`old`", 36)]),
    ("gradients", GRADIENTS, [("gradients", "`net`", 24), ("parameters", "`net`", 24)]),
    ("weights", WEIGHTS, [("parameters", "`net`", 24)]),
    ("sys.last_value", LAST_VALUE, [("variable", "`sys.last_value.__traceback__ -> work() line 5: batch`", 24)]),
    ("torch function mode", MODE, [("variable", "`kept`, a list", 24)]),
]

# Neighbours of those ways.
NUMPY_ARRAY = """
import numpy
class Replay:
    def __init__(self): self.data = numpy.empty((10, 2), dtype=object)
replay = Replay()
for number in range(6):
    replay.data[number, 0] = mib(4)
"""
RETAINED_GRADIENT = """
weight = torch.ones(6 << 20, device=DEVICE, requires_grad=True)
middle = weight * 2
middle.retain_grad()
middle.sum().backward()
weight.grad = None
"""
NODE = """
net = net_of()
node = net(torch.randn(1024, 1024, device=DEVICE)).mean().grad_fn
"""
TENSOR_HOOK = """
weight = torch.ones(3, device=DEVICE, requires_grad=True)
def watch():
    batch = mib(24)
    weight.register_hook(lambda gradient: None if batch is None else None)
watch()
"""
OPTIMIZER_HISTORY = """
net = net_of()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
optimizer.history = [mib(8) for _ in range(3)]
"""
PARTS = """
class Attention(torch.nn.Module):
    def forward(self, key): self.cache = [key]
layers = torch.nn.ModuleList([Attention()])
layers[0](mib(24))
"""
ENSEMBLE = """
ensemble = [net_of() for _ in range(3)]
"""
SIGNAL = """
import signal
def watch():
    batch = mib(24)
    signal.signal(signal.SIGUSR1, lambda *_: batch)
watch()
"""
CHAIN = """
class Node:
    def __init__(self, data, following): self.data, self.next = data, following
head = None
for _ in range(24):
    head = Node(mib(1), head)
"""
LAZY_MODULE = """
import sys, types
class Lazy(types.ModuleType):
    def __getattr__(self, name): raise AttributeError(name)
sys.modules["lazy"] = Lazy("lazy")
sys.modules["lazy"].table = mib(24)
"""
CONTEXT_COPY = """
import contextvars
variable = contextvars.ContextVar("batch")
context = contextvars.copy_context()
context.run(lambda: variable.set(mib(24)))
"""
OWN_EXCEPTION = """
class BatchError(Exception):
    def __init__(self, batch):
        self.batch = batch
def work():
    raise BatchError(mib(24))
try:
    work()
except BatchError as error:
    last_error = error.with_traceback(None)
"""
LOOP = """
def pairs():
    for batch, _ in zip([mib(24)], [1]):
        yield 1
stream = pairs()
next(stream)
"""
PACKED = """
class Box:
    def __init__(self, value): self.value = value
with torch.autograd.graph.saved_tensors_hooks(lambda value: Box(value.clone()), lambda box: box.value):
    kept = [mib(8).requires_grad_().square().sum() for _ in range(3)]
"""
NODE_HOOK = """
loss = torch.ones(3, device=DEVICE, requires_grad=True).square().mean()
def watch():
    batch = mib(24)
    loss.grad_fn.register_hook(lambda *_: None if batch is None else None)
watch()
"""
SPARSE = """
other, table = mib(1), mib(8).to_sparse()
"""
STORAGE = """
other, kept = mib(1), mib(24).untyped_storage()
"""
CLASS_OF_FUNCTION = """
def made():
    batch = mib(24)
    class Inner:
        def batch(self): return batch
    return Inner()
inner = made()
"""
NEIGHBOURS = [
    ("packed by hooks", PACKED, [("autograd", "`kept`, a list" + GRAPH, 48)]),
    ("hook of a node", NODE_HOOK, [("autograd", "`loss`" + GRAPH, 24)]),
    ("sparse", SPARSE, [("variable", "`table`", 24)]),
    ("storage", STORAGE, [("variable", "`kept`", 24)]),
    ("class of a function", CLASS_OF_FUNCTION,
     [("variable", "`inner -> its class.batch -> batch, a variable of its closure`", 24)]),
    ("copy of a context", CONTEXT_COPY, [("variable", "`context[batch]`", 24)]),
    ("attribute of an exception", OWN_EXCEPTION, [("variable", "`last_error.batch`", 24)]),
    ("loop of a generator", LOOP, [("variable", "`stream -> pairs() line 4: batch`", 24)]),
    ("numpy array", NUMPY_ARRAY, [("variable", "`replay.data`, a ndarray", 24)]),
    ("retain_grad", RETAINED_GRADIENT, [("variable", "`middle`", 24), ("gradients", "`middle.grad`", 24)]),
    ("autograd's node", NODE, [("autograd", "`node`" + GRAPH, 12)]),
    ("hook of a tensor", TENSOR_HOOK,
     [("variable", "`weight._backward_hooks`, a OrderedDict -> batch, a variable of its closure", 24)]),
    ("attribute of an optimizer", OPTIMIZER_HISTORY, [("variable", "`optimizer.history`, a list", 24)]),
    ("part of a module", PARTS, [("variable", "`layers[0].cache`, a list", 24)]),
    ("ensemble", ENSEMBLE, [("parameters", "`ensemble`, a list", 24)]),
    ("signal handler", SIGNAL, [("variable", "`the handler of SIGUSR1 -> batch, a variable of its closure`", 24)]),
    ("chain", CHAIN, [("variable", "`head.next...data`", 22)]),
    ("lazy module", LAZY_MODULE, [("variable", "`lazy.table`", 24)]),
]

# Two ways in one program: each still has its own row.
_BY_NAME = {name: (text, rows) for name, text, rows in WAYS}
PAIRS = [("losses", "deque"), ("total", "default value"), ("lru_cache", "generator"), ("queue", "cycle"),
         ("custom function", "slots"), ("closure", "views"), ("class attribute", "partial"), ("metric", "shared"),
         ("create_graph", "nested"), ("dataclass", "future")]
PROGRAMS = WAYS + NEIGHBOURS + [(f"{one} and {other}", _BY_NAME[one][0] + _BY_NAME[other][0],
                    [row for name in (one, other) for row in _BY_NAME[name][1] if " line " not in row[1]])
                   for one, other in PAIRS]


def without_lengths(path):
    """ "`losses`, a list of 20" becomes "`losses`, a list" """
    import re
    return re.sub(r"(, a \w+) of \d+", r"\1", path)


def is_row(wanted, row):
    """Whether a row of the report is the wanted one, within 2 % or 1 MiB."""
    kind, path, size = wanted
    found = without_lengths(row["path"])
    same = found.startswith(path[:-3]) if path.endswith("...") else found == path
    return kind == row["kind"] and same and abs(row["bytes"] - (size << 20)) <= max(size << 20, 50 << 20) // 50
