// Has the kernel read files before a thread is stopped, so that it waits for no disk: on a machine where they were not
// used before, each page of a program that runs for the first time takes milliseconds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/attach/traced_process.h"

namespace culprit::report {

// The file is in the kernel's page cache afterwards, where it can be read at all.
void read_file_ahead(const std::string& path);

// The same for all files of which this process runs code; their pages are mapped, where the kernel can do that (Linux
// 5.14).
void read_own_code_ahead();

// The same for what a process's libraries refer to: tables that their loader reads once, so that a process that has run
// for long may have them on the disk only. `sections`: where their dynamic sections are (LoadedList::sections()).
void read_references_ahead(const TracedProcess& process, const std::vector<std::uint64_t>& sections);

}  // namespace culprit::report
