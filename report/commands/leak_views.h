// `culprit watch --tensors`: which variables keep more and more, from views inside a Python program whose tensors leak.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "report/commands/tensors_source.h"
#include "report/model/keeper.h"

namespace culprit::report {

// Of one process. From a process with one thread.
class LeakViews {
 public:
  // Takes a view when one is due: the first at once, each later one after twice the time. A view stops the interpreter
  // for at most ProcessLimits::longest_stop.
  void look(pid_t pid);
  // Takes the last one, if there are others.
  void look_at_the_end(pid_t pid);

  bool is_begun() const { return begun_.has_value(); }
  // How the keepers changed between the first view and the last one, the one that grew most first. Of a single view:
  // its keepers, as if they had been there with the same bytes.
  std::vector<GrownKeeper> grown() const;
  // Seconds between these views; 0: there is one.
  double seconds() const;
  // Why there is no view; empty: there is one.
  const std::string& problem() const { return problem_; }

 private:
  void take(pid_t pid);

  using Clock = std::chrono::steady_clock;

  struct Timed {
    TensorsView view;
    Clock::time_point at;
  };

  std::optional<Clock::time_point> begun_;
  Clock::time_point tried_;  // the last time
  std::optional<Timed> first_;
  std::optional<Timed> last_;
  std::string problem_;
};

}  // namespace culprit::report
