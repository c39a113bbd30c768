// Copies of the fake driver in which some functions are absent, or are other ones: what an old driver, a virtual GPU's
// or another vendor's looks like to a program.
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace culprit::test {

struct DriverChange {
  // Name of an exported function -> the exported function that takes its place (guest_driver.h); empty: none.
  std::map<std::string, std::string> functions;
  std::string soname;  // empty: as it is; at most as long
};

// Writes folder/name, with the fake driver's content except for the change, and returns its path.
std::filesystem::path changed_driver(const std::filesystem::path& folder, const std::string& name,
                                     const DriverChange& change);

}  // namespace culprit::test
