#!/usr/bin/env python3
"""Allocates device memory from random Python stacks and prints, as JSON, the description of each place by the
traceback module.

    python_stacks.py COUNT SEED [WAY]

WAY: only this one of the ways to call, once each time. The driver is called through ctypes, with and without the GIL,
on the main thread and on others. Nothing is freed. Each element of the list that is printed: {"bytes": n, "stack":
[[file, line, function], ...]}, innermost first.
"""
import asyncio
import contextlib
import ctypes
import functools
import json
import random
import sys
import threading
import traceback

driver = ctypes.CDLL("libcuda.so.1")
driver_with_gil = ctypes.PyDLL("libcuda.so.1")
context = ctypes.c_void_p()
made = []
choose = random.Random(int(sys.argv[2]))


def check(code):
    if code != 0:
        sys.exit(f"the driver returned {code}")


def leaf(depth):
    library = choose.choice((driver, driver_with_gil))
    pointer, size = ctypes.c_uint64(), 1024 + len(made)
    code, stack = library.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size)), traceback.extract_stack()
    check(code)
    made.append({"bytes": size, "stack": [[frame.filename, frame.lineno, frame.name] for frame in reversed(stack)]})


def plain(depth):
    go(depth)


def several_lines(depth):
    if choose.random() < 0.5:
        go(depth)
    else:
        go(
            depth
        )


def nested(depth):
    def inner():
        captured = depth
        return go(captured)
    return inner()


def generator(depth):
    def items():
        yield 1
        go(depth)
        yield 2
    for _ in items():
        pass


def delegating_generator(depth):
    def items():
        go(depth)
        yield 1

    def outer():
        yield from items()
    return list(outer())


def comprehension(depth):
    return [go(depth) for _ in range(1)]


def generator_expression(depth):
    return sum(1 for _ in range(1) if not go(depth))


def through_sort(depth):
    return sorted([1], key=lambda _: go(depth) or 0)


def through_map(depth):
    return list(map(lambda _: go(depth), [1]))  # noqa: C417 (the way under test)


def decorated(depth):
    def decorator(function):
        @functools.wraps(function)
        def wrapper(*arguments):
            return function(*arguments)
        return wrapper

    @decorator
    def body(value):
        go(value)
    body(depth)


def through_partial(depth):
    functools.partial(go, depth)()


def through_callback(depth):
    """Python, C, Python again: another evaluation loop."""
    function = ctypes.CFUNCTYPE(None)(lambda: go(depth))
    function()


def coroutine(depth):
    async def inner():
        go(depth)

    async def outer():
        await inner()
    try:
        outer().send(None)
    except StopIteration:
        pass


def event_loop(depth):
    async def main():
        await asyncio.sleep(0)
        go(depth)
    if threading.current_thread() is threading.main_thread() and not loop_is_running():
        asyncio.run(main())
    else:
        go(depth)


def loop_is_running():
    try:
        asyncio.get_running_loop()
        return True
    except RuntimeError:
        return False


def while_handling(depth):
    try:
        raise ValueError("on purpose")
    except ValueError:
        go(depth)
    finally:
        depth = 0


def context_manager(depth):
    @contextlib.contextmanager
    def manager():
        yield
        go(depth)
    with manager():
        pass


class Finalized:
    def __init__(self, depth):
        self.depth = depth

    def __del__(self):
        go(self.depth)


def finalizer(depth):
    thing = Finalized(depth)
    del thing


class Thing:
    def __call__(self, depth):
        return self.value(depth)

    def value(self, depth):
        self.depth = depth
        return self.attribute

    @property
    def attribute(self):
        return go(self.depth)


def methods(depth):
    Thing()(depth)


def executed(depth):
    source = "\n" * choose.randrange(400) + f"go({depth})\n"
    exec(compile(source, "<generated>", "exec"), {"go": go})


def far_down(depth):
    scope = {"go": go}
    source = "def far(depth):\n" + "    depth += 0\n" * 3000 + "    go(depth)\n"
    exec(compile(source, "größe.py", "exec"), scope)
    scope["far"](depth)


def on_a_thread(depth):
    def body():
        check(driver.cuCtxSetCurrent(context))
        go(depth)
    thread = threading.Thread(target=body)
    thread.start()
    thread.join()


WAYS = [plain, several_lines, nested, generator, delegating_generator, comprehension, generator_expression,
        through_sort, through_map, decorated, through_partial, through_callback, coroutine, event_loop, while_handling,
        context_manager, finalizer, methods, executed, far_down, on_a_thread]


def go(depth):
    if depth == 0:
        leaf(depth)
    else:
        choose.choice(WAYS)(depth - 1)


def main():
    check(driver.cuInit(0))
    check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
    check(driver.cuCtxSetCurrent(context))
    only = [way for way in WAYS if way.__name__ in sys.argv[3:]]
    for _ in range(int(sys.argv[1])):
        if only:
            only[0](0)
        else:
            go(choose.randrange(8))
    print(json.dumps(made))


main()
