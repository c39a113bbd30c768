// Source lines around places in code, for reports that show them.
//
// The names of the files come from a dump and from the debug information that it names, so they may be anything. Only
// regular files with the name suffix of source code are read, so that a report can be passed on without secrets, and
// only those that lie below the folders that the user named, after all links and ".." are followed.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace culprit::report {

// Consecutive lines of a file.
struct SourceBlock {
  unsigned first = 0;  // number of the first line, from 1
  std::vector<std::string> lines;
};

struct SourceFile {
  std::string path;      // as given to want()
  bool changed = false;  // written to since the run began: the lines may differ from those of the run
  std::vector<SourceBlock> blocks;
};

// Where to look for the files.
struct SourcePlaces {
  std::string sysroot;  // prefix of every path
  std::string folder;   // base of relative paths
  // Folders for files that are not at their own path: for /build/a/b.cu the file DIR/a/b.cu, else DIR/b.cu.
  std::vector<std::string> searched;
  bool own_paths = true;  // false: only below `searched`. A stranger's dump must not choose files of this machine
};

// Not thread-safe.
class SourceLines {
 public:
  // `run_began_ns`: CLOCK_REALTIME, 0 = unknown.
  SourceLines(SourcePlaces places, std::uint64_t run_began_ns);

  // Requests the lines around this one.
  void want(const std::string& file, unsigned line);

  // Whether lines were requested, and there is no folder in which to look for them.
  bool lacks_folder() const { return !wanted_.empty() && !places_.own_paths && places_.searched.empty(); }

  // Reads the requested lines, sorted by path. Missing files and files that are not source code are left out, as is
  // everything beyond a few megabytes.
  std::vector<SourceFile> read() const;

 private:
  SourcePlaces places_;
  std::uint64_t run_began_ns_;
  std::map<std::string, std::set<unsigned>> wanted_;
};

}  // namespace culprit::report
