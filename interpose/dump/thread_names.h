// Names that a program gives its threads itself (Python's threading.Thread(name=...)): they may be longer than the
// operating system's, and may be told before the thread's first CUDA call.
#pragma once

#include <cstdint>

#include "interpose/format/dump_format.h"

namespace culprit {

class DumpWriter;
class ThreadTable;

// Keeps the calling thread's name until its record is there; of two threads whose numbers share a place the later one's
// is kept. Cut to 111 bytes. Thread-safe; no allocation, no lock.
void keep_thread_name(const char* name);

// Gives the calling thread's record (`index`) the name that was kept for it, if there is one and room for it. Only for
// a thread that has told its name: the place may be that of an earlier one with the same number.
void apply_thread_name(ThreadTable& threads, std::uint32_t index, DumpWriter& dump);

}  // namespace culprit
