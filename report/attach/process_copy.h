// A frozen copy that a process made of itself (interpose/system/frozen_child.h), and the state of libculprit.so in it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "interpose/format/attach_request.h"
#include "report/attach/injector.h"
#include "report/attach/traced_process.h"
#include "report/base/held_signals.h"

namespace culprit::report {

// The address of a variable that the library in the process exports. Throws AttachError if it has none.
std::uint64_t place_of_variable(const TracedProcess& process, const char* name);

// The number of a copy as this process sees it, from that which the process sees. Empty: it has ended.
std::optional<pid_t> find_copy(const TracedProcess& process, std::int32_t number);

struct CopyOrder {
  Injection what;
  std::string library;  // the path of the libculprit.so of this installation
  std::chrono::milliseconds limit;
  std::string without_cuda;  // why there is nothing to copy in a process that has not used CUDA
};

// Asks the library in a process for a copy. Its end ends the copy; a signal that would end this process acts after
// that.
class CopyRequest {
 public:
  // Throws AttachError.
  CopyRequest(const TracedProcess& process, CopyOrder order);
  ~CopyRequest();
  CopyRequest(const CopyRequest&) = delete;
  CopyRequest& operator=(const CopyRequest&) = delete;
  const InjectionFacts& facts() const { return facts_; }

  // The number of the copy, as the process sees it: the end waits for its end then, too.
  void set_copy(std::int32_t number) { copy_ = number; }

  // Waits for a millisecond, for the copy. Throws AttachError after such a signal.
  void pause();
  bool is_interrupted() const { return signals_.came(); }

 private:
  void end() const;
  InjectionFacts ask(format::AttachStep step) const;

  HeldSignals signals_;
  const TracedProcess& process_;
  const CopyOrder order_;
  std::int32_t copy_ = 0;
  const InjectionFacts facts_;  // last: its initialization asks, with all others
};

}  // namespace culprit::report
