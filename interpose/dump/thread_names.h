// Names that a program gives its threads itself (Python's threading.Thread(name=...)): they may be longer than the
// operating system's, and may be set before the thread's first CUDA call.
#pragma once

#include <cstdint>

#include "interpose/format/dump_format.h"

namespace culprit {

class DumpWriter;
class ThreadTable;

// Keeps the calling thread's name until its record exists. If two thread numbers share a slot, the later name is kept.
// Names are cut to 111 bytes. Thread-safe, without allocation or lock.
void keep_thread_name(const char* name);

// Likewise the name of another thread, by the kernel's number, which has no record yet.
void keep_name_of_thread(std::uint32_t thread, const char* name);

// Stores the kept name in the calling thread's record (`index`), if the thread set a name and there is room for it.
void apply_thread_name(ThreadTable& threads, std::uint32_t index, DumpWriter& dump);

}  // namespace culprit
