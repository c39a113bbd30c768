// Source lines around places in code, for reports that show them.
//
// The names of the files come out of a dump and of the debug information that it names: they may be anything. Only
// regular files whose name ends like source code's are read, so that a report that is passed on holds no secrets.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace culprit {

// Consecutive lines of a file.
struct SourceBlock {
  unsigned first = 0;  // number of the first line, from 1
  std::vector<std::string> lines;
};

struct SourceFile {
  std::string path;      // as it was asked for
  bool changed = false;  // written to since the run began: the lines may be others
  std::vector<SourceBlock> blocks;
};

// Where the files are looked for.
struct SourcePlaces {
  std::string sysroot;                // put in front of every path
  std::string folder;                 // that relative paths are below
  std::vector<std::string> searched;  // folders that have what is not at its own path: /build/a/b.cu, else DIR/a/b.cu,
                                      // else DIR/b.cu
};

// Not thread-safe.
class SourceLines {
 public:
  // `run_began_ns`: CLOCK_REALTIME, 0 = unknown.
  SourceLines(SourcePlaces places, std::uint64_t run_began_ns);

  // Asks for the lines around this one.
  void want(const std::string& file, unsigned line);

  // Reads what was asked for, by path. What is not there, or is no source code, is left out; so is what goes beyond a
  // few megabytes.
  std::vector<SourceFile> read() const;

 private:
  SourcePlaces places_;
  std::uint64_t run_began_ns_;
  std::map<std::string, std::set<unsigned>> wanted_;
};

}  // namespace culprit
