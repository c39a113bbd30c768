// The samples and judgements of `culprit watch` while programs run.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "report/attach/torch_allocator.h"
#include "report/base/progress.h"
#include "report/commands/leak_views.h"
#include "report/doctor/nvml_question.h"
#include "report/dump/dump_clock.h"
#include "report/run/row_hooks.h"
#include "report/symbols/shared_symbols.h"
#include "report/symbols/symbolizer.h"
#include "report/watch/watch_result.h"

namespace culprit::report {

struct WatchSettings {
  double seconds = 0;  // 0: until the program ends
  double every = 0;    // seconds; 0: by the whole time
  double least_per_minute = 0;
  std::string exec;
  bool full_stacks = false;
  bool tensors = false;
};

// From a process with one thread.
class WatchLoop {
 public:
  WatchLoop(const WatchSettings& settings, const SymbolOptions& symbols);

  // A sample of the dump at `path`, which may be a link. `name`: tells the dumps of a run apart. `pid`: as NVML here
  // has it; 0: as the dump has it. Returns false when no more can come of it: its process has ended, or the file is
  // gone. Throws DumpError when its first look fails.
  bool sample(const std::string& name, const std::string& path, std::uint32_t pid);

  // After the samples of one moment: looks for rows that leak now, and answers of NVML. Returns the time until the next
  // samples are due: they take at most a twentieth of the time.
  std::chrono::milliseconds pause();
  bool is_over() const;

  // The last look inside of programs whose tensors leak, while they run. Does nothing without --tensors.
  void look_inside_at_the_end();

  // The last judgement; runs the commands of --exec that are due, and waits for all of them. `ended`: the processes
  // came to their end, where many programs free what they leaked before.
  WatchResult finish(bool ended);

 private:
  struct Watched {
    Watched(SymbolLookup lookup, bool full_stacks) : process(std::move(lookup), full_stacks) {}
    WatchedProcess process;
    DumpClock clock;
    std::optional<TorchAllocator> torch;
    LeakViews views;
    bool ended = false;
    std::uint64_t told_answer = 0;
    std::set<std::string> suspects;  // ids that leaked at the last look
    bool tensors_leak = false;       // likewise, twice
    struct Leak {
      JudgedRow row;
      std::size_t samples = 0;  // so far
    };
    std::map<std::string, Leak> leaks;  // by id: the last look at which it leaked
    std::set<std::string> told;
  };

  std::map<std::string, DeviceAnswer> new_answers_for(Watched* watched, std::uint32_t pid) const;
  void ask();
  void judge_all();
  void look_inside();
  void tell(Watched* watched, const JudgedRow& row);
  static std::vector<CacheBytes> caches_of(Watched* watched, const Dump& dump, std::uint32_t pid);
  static void undo_wind_down(const Watched& watched, std::vector<JudgedRow>* rows);
  void show_progress();

  const WatchSettings settings_;
  SharedSymbols symbols_;
  const std::chrono::steady_clock::time_point begin_;
  std::chrono::steady_clock::duration spent_{};  // by the samples of this moment
  std::map<std::string, std::unique_ptr<Watched>> watched_;
  std::size_t next_judgement_ = 0;  // samples
  std::size_t moments_ = 0;
  std::size_t leaking_ = 0;
  NvmlQuestion question_;
  GpuUsers users_;
  std::uint64_t answer_ = 0;  // a number for each answer
  std::chrono::steady_clock::time_point next_question_;
  RowHooks hooks_;
  Progress progress_;
};

}  // namespace culprit::report
