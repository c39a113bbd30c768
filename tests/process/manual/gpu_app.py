"""A web application for gunicorn (app) and uvicorn (asgi) that keeps 1 MiB of GPU memory for each request.

The recipes for servers are tried with it. CUDART is libcudart's path. The answer is the number of the process.
"""
import ctypes
import os

runtime = None


def device_buffer(size):
    global runtime  # opened in the worker, by its first request
    runtime = runtime or ctypes.CDLL(os.environ["CUDART"])
    pointer = ctypes.c_void_p()
    if runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(size)) != 0:
        raise MemoryError("cudaMalloc failed")
    return pointer


def answer():
    device_buffer(1 << 20)
    return str(os.getpid()).encode()


def app(_environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [answer()]


async def asgi(scope, _receive, send):
    if scope["type"] != "http":
        return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": answer()})
