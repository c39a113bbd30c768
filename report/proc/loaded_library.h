// Finds a library that the loader has mapped.
//
// The name alone does not tell: a process that reads the library's file (a debugger, a symbolizer inside the program,
// `culprit run` when it looks up a symbol) has it mapped too, as a whole and without its code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "report/proc/process_folder.h"

namespace culprit::report {

// The first mapping of the first library whose file name begins with one of `names`; null: none is loaded.
const MappedRange* find_loaded(const std::vector<MappedRange>& mappings, const std::vector<std::string>& names);

// The same for all of them, in the order of their addresses: with name spaces of the loader (dlmopen) a process may
// have several of one name. `most`: no more than so many.
std::vector<const MappedRange*> find_all_loaded(const std::vector<MappedRange>& mappings,
                                                const std::vector<std::string>& names, std::size_t most = SIZE_MAX);

// All mappings of the process; none where they cannot be read. `error` receives 0, or the errno.
std::vector<MappedRange> mappings_of(const ProcessFolder& process, int* error = nullptr);

}  // namespace culprit::report
