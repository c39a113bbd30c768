// The names of a Python that culprit does not read, beside the code of driver_leak_one.cpp: a build without a GIL
// (FREE_THREADED), or a version to come.
#define EXPORTED extern "C" __attribute__((visibility("default"), used))

EXPORTED char _PyRuntime[4096] = {};
#ifdef FREE_THREADED
EXPORTED const unsigned long Py_Version = 0x030e00f0;
EXPORTED void _Py_DecRefShared(void*) {}
#else
EXPORTED const unsigned long Py_Version = 0x03ff00f0;
#endif
