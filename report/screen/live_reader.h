// Reads the dumps of processes again and again for `culprit top`. A dump is a file that its process shares with its
// readers: the process is not stopped, and does nothing for a look.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "report/base/descriptor.h"
#include "report/doctor/dump_places.h"
#include "report/screen/live_process.h"
#include "report/symbols/shared_symbols.h"

namespace culprit::report {

// From one thread.
class LiveReader {
 public:
  // Most processes that are read at a time.
  static constexpr std::size_t kMostProcesses = 64;

  // `targets`: processes by pid, and dumps; none: all processes that record.
  explicit LiveReader(std::vector<std::string> targets);

  // Throws DumpError when a target is a dump that cannot be read, or a process that cannot be looked at: one without
  // libculprit.so can, because the screen offers to attach to it.
  void check_targets() const;

  // Never throws for what a dump has.
  LiveLook look();

 private:
  // A dump stays open: its process may end, and the files of a container go with it.
  struct Source {
    DumpPlace place;
    Descriptor file;  // not open: `place.dump` is a file here
    std::unique_ptr<SharedSymbols> symbols;
    LiveProcess last;   // as it was read last
    bool over = false;  // nothing will change any more
  };

  Source* source_of(const DumpPlace& place);
  void read(Source* source);
  LiveProcess look_at(const DumpPlace& place);
  LiveProcess without_dump(const DumpPlace& place) const;
  void ask();

  const std::vector<std::string> targets_;
  DumpPlaces places_;
  GpuUsers users_;
  std::chrono::steady_clock::time_point next_question_;
  std::map<std::string, std::unique_ptr<Source>> sources_;  // by DumpPlace::key()
  std::map<std::string, std::string> last_source_;          // by target: its key in `sources_`
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace culprit::report
