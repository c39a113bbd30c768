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

// The dumps after `pattern` (those with a number before the extension included) of processes started since
// `since_realtime_ns`, oldest first. Files that are not dumps are left out.
std::vector<std::string> find_dumps(const std::string& pattern, std::uint64_t since_realtime_ns);

// Likewise, without a word in the log: for looks that are repeated.
std::vector<std::string> find_dumps_quietly(const std::string& pattern, std::uint64_t since_realtime_ns);

// `paths` with the dumps inside of a folder, oldest first, in place of the folder. Throws FileError for a folder
// without dumps.
std::vector<std::string> with_dumps_of_folders(const std::vector<std::string>& paths);

// The files that the library names when the name of the dump at `path` is taken: "app.1.dump", "app.2.dump" beside
// "app.dump" and beside each other, as far as they exist.
std::vector<std::string> numbered_siblings(const std::string& path);

}  // namespace culprit::report
