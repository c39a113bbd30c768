// The libraries of a process, as its loader lists them. Small pieces of memory tell what was loaded since the last
// look, while a stopped thread waits; the same question to /proc/PID/maps takes milliseconds in a large program. It is
// the list of the loader's first name space, which has the program itself; those of dlmopen() are not in it.
#pragma once

#include <link.h>

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "report/attach/traced_process.h"

namespace culprit::report {

class LoadedList {
 public:
  // Reads the list to its end.
  LoadedList(const TracedProcess& process, const std::vector<MappedRange>& mappings);

  // Where the dynamic sections of all were, in the order of loading; none where the list could not be read.
  const std::vector<std::uint64_t>& sections() const { return sections_; }

  // Whether a library whose file name begins with `name` was added since. Empty: that cannot be told.
  std::optional<bool> has_added(const std::string& name) const;

 private:
  // Of the loader's struct link_map: its address, and those of the dynamic section and of the path.
  struct Entry {
    std::uint64_t at;
    std::uint64_t section;
    std::uint64_t name;
    bool operator<(const Entry& other) const {
      return std::tie(at, section, name) < std::tie(other.at, other.section, other.name);
    }
  };
  // All entries now; none where the list cannot be read. (Threads of the process change it meanwhile.)
  std::vector<Entry> read() const;
  // The first entries of all now, which are those of entries_ that still follow one another.
  std::vector<Entry> read_known(std::uint64_t* next) const;

  const TracedProcess& process_;
  std::uint64_t first_ = 0;     // the entry of the program itself, which stays; 0: there is no list
  std::vector<Entry> entries_;  // in the order of the list
  std::vector<Entry> sorted_;
  std::vector<std::uint64_t> sections_;
};

}  // namespace culprit::report
