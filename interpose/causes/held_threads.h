// The other threads of this process, stopped by a helper of `culprit run` while a search for lost memory reads at exit
// (format/exit_stops.h). The helper stops each where it holds no lock of malloc, of the loader or of the driver.
//
// Private memory of its own, never malloc. Not thread-safe.
#pragma once

#include <cstdint>

#include "interpose/format/exit_stops.h"

namespace culprit {

struct Process;

class HeldThreads {
 public:
  HeldThreads() = default;
  // Lets them go.
  ~HeldThreads();
  HeldThreads(const HeldThreads&) = delete;
  HeldThreads& operator=(const HeldThreads&) = delete;

  enum class Result { kHeld, kNoRun, kRefused };
  // Waits for one and a half seconds at most. kNoRun: no helper can be reached. On the tracker's own stack only.
  Result hold(Process& process);

  // The helper's words about them: format/scan_state.h.
  const std::uint64_t* words() const { return words_; }
  std::uint64_t count() const { return count_; }

  // Lets them go, and returns whether none has run since hold(). Waits for a second at most.
  bool let_go();

 private:
  using State = format::ExitStopState;
  bool open(const char* run_starts);
  bool take_place(Process& process);
  void permit_helper() const;
  State wait_while(State state, std::uint32_t milliseconds) const;
  void call_helper();

  format::ExitStops* file_ = nullptr;
  format::ExitStop* place_ = nullptr;
  std::uint64_t* words_ = nullptr;
  std::uint64_t room_ = 0;
  std::uint64_t count_ = 0;
};

}  // namespace culprit
