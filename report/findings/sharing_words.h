// Memory that one process gave to another one, in words. Printable.
#pragma once

#include <string>

#include "report/model/sharing.h"

namespace culprit::report {

// "freed by rank 0 at a.py:7, still mapped by rank 1, opened at b.py:9: 512 MiB stay".
std::string shared_memory_text(const SharedMemory& shared);

// "exported by rank 0 at a.py:5".
std::string export_text(const SharedMemory& shared);

// "512 MiB in 2 allocations".
std::string amount_of(const SharedMemory& shared);

}  // namespace culprit::report
