// Messages of processes that cannot reach the file of a run (interpose/format/run_starts.h).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "interpose/format/run_starts.h"
#include "report/base/descriptor.h"

namespace culprit::report {

class RunSocket {
 public:
  // Makes the socket. Without the right to do so there is none, and no message.
  RunSocket();

  // The value of CULPRIT_RUN_SOCKET; empty: there is no socket.
  const std::string& variable() const { return variable_; }

  // Takes the messages that have arrived. Their texts end with NUL. Whatever has no token of this run is ignored.
  void look();
  const std::vector<format::FailedStart>& starts() const { return starts_; }
  // Messages of the run beyond those that are kept.
  std::size_t more() const { return more_; }

 private:
  Descriptor socket_;
  std::string token_;
  std::string variable_;
  std::vector<format::FailedStart> starts_;
  std::size_t more_ = 0;
};

}  // namespace culprit::report
