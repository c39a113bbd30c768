// Files that are cut off while they are read. Reading a mapping beyond the end of its file raises SIGBUS, which would
// end this process: dumps are mapped, and libelf maps programs and debug files. A handler puts zeros there instead and
// notes the address. Alternative: copying each file, which costs gigabytes for a large program.
#pragma once

#include <cstddef>

namespace culprit::report {

// Installs the handler. Thread-safe; only the first call has an effect.
void watch_for_cut_off_files();

// Whether zeros were put into the mapping at `begin`; forgets that. To be called before it is unmapped, too.
bool take_cut_off(const void* begin, std::size_t bytes);

// Whether there are others, of mappings that were not asked about.
bool has_cut_off_files();

}  // namespace culprit::report
