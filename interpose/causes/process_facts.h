// Facts about this process that the searches for holders and for lost memory depend on: its threads, its malloc and its
// interpreters.
#pragma once

#include <cstdint>

namespace culprit {

class DriverThreads;
class MemoryMap;
struct Process;

enum class OtherThreads {
  kNone,  // or only threads that the driver started, which run no code of the program
  kProgram,
  kUnknown,
};

// Looks which threads run beside the caller. The thread of a driver waits in a system call, with code of the driver
// and without any of the program on its stack: such threads are added to `drivers`. Changes errno. On the tracker's own
// stack only.
OtherThreads other_threads(const MemoryMap& map, DriverThreads* drivers);

// Whether malloc() is that of glibc, and nothing else in the process takes its place.
bool malloc_is_glibcs();

// Whether an interpreter of Python is there, also with CULPRIT_PYTHON=0: the header has its version then.
bool has_python(Process& process);

// Whether all objects of the program still exist when the first handler or destructor of exit() runs: see
// exit_handlers.h. False if another library takes the place of our __cxa_atexit() or __cxa_thread_atexit_impl().
bool destructors_come_later();

}  // namespace culprit
