// Shared by the fuzz targets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "report/model/report.h"

extern "C" {
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
// libFuzzer's own mutation of bytes. Returns the new size.
std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);
}

namespace culprit::fuzz {

// A stream that forgets.
std::ostream& nowhere();

// Writes the reports in each format, and compares the first with itself.
void render_all(const std::vector<report::Report>& reports);

// A file in memory with this content, as a path that any reader can open. One file for all calls.
std::string as_file(const std::uint8_t* data, std::size_t size);

}  // namespace culprit::fuzz
