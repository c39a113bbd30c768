// Where the dumps of one `culprit run` are written, and how they are found.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "interpose/format/dump_file.h"

namespace culprit::report {

// The default file name of dumps, inside the chosen folder.
constexpr char kDefaultPattern[] = "culprit.%n.%p.dump";

// The pattern of CULPRIT_OUT that names `path` itself: each percent sign is doubled.
std::string pattern_of_path(const std::string& path);

// A `pattern` of CULPRIT_OUT that works from any working directory: a relative one is put below this process's.
std::string absolute_pattern(const std::string& pattern);

// Checks, before a program is started, that dumps can be made after the absolute `pattern`: makes the folders up to the
// first one with a conversion in its name, and there a file of one dump's least size, which it removes again. Throws
// FileError with a message that says what to do.
void try_pattern(const std::string& pattern);

// The header of the dump at `path`; empty when the file cannot be read or is no dump. Takes any version of the format.
std::optional<format::Header> header_of_dump(const std::string& path);

// The folder of an absolute `pattern`, up to the first one with a conversion in its name.
std::string fixed_folder_of(const std::string& pattern);

// The dumps of a run: of processes started since `since_realtime_ns`, with the id of the run. A dump without an id
// counts, too: a launcher may pass less than all variables.
struct RunOfDumps {
  std::uint64_t since_realtime_ns = 0;
  std::string id;
};

// The dumps after `pattern` (those with a number before the extension included) of the run, oldest first. Files that
// are not dumps are left out.
std::vector<std::string> find_dumps(const std::string& pattern, const RunOfDumps& run);

// Likewise, without a word in the log: for looks that are repeated.
std::vector<std::string> find_dumps_quietly(const std::string& pattern, const RunOfDumps& run);

// The files that the library names when the name of the dump at `path` is taken: "app.1.dump", "app.2.dump" beside
// "app.dump" and beside each other, as far as they exist.
std::vector<std::string> numbered_siblings(const std::string& path);

}  // namespace culprit::report
