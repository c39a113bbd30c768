#include "report/attach/frozen_view.h"

#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>

#include "interpose/format/frozen_copy.h"
#include "report/attach/blocking_calls.h"
#include "report/attach/process_copy.h"
#include "report/base/log.h"
#include "report/base/words.h"

namespace culprit::report {
namespace {

using format::FrozenCopy;
using format::FrozenPhase;
using std::chrono::milliseconds;

constexpr std::uint64_t kMostViewBytes = 1ULL << 30;
constexpr int kTries = 3;  // a lock of another thread may be taken in the copy

class Taking {
 public:
  Taking(const TracedProcess& process, const FrozenOrder& order)
      : process_(process), library_(order.library), limit_(order.limit), longest_stop_(order.longest_stop) {}

  FrozenView take() {
    const auto begin = std::chrono::steady_clock::now();
    FrozenView view;
    for (int tries = 1; view.text.empty(); ++tries) {
      if (!take_once(&view)) break;
      if (view.text.empty() && tries == kTries)
        throw AttachError("the copies of " + process_.name() +
                          " in which its objects were to be read did not come to an end: try again");
    }
    view.took_ns = static_cast<std::uint64_t>((std::chrono::steady_clock::now() - begin).count());
    return view;
  }

 private:
  // False: no framework is in use. Without a text: the copy did not come to its end.
  bool take_once(FrozenView* view) {
    const std::uint64_t place = place_of_variable(process_, "culprit_frozen");
    const auto most = static_cast<std::uint64_t>(longest_stop_.count());
    process_.write_memory(place + offsetof(FrozenCopy, most_us), &most, sizeof(most));
    CopyRequest request(process_, {Injection::kTensors, library_, limit_, "no tensor is on a GPU"});
    const FrozenCopy state = wait_for_copy(place, &request);
    view->held_ns = state.held_ns;
    if (state.phase == FrozenPhase::kNoCaches) return false;
    if (state.phase != FrozenPhase::kCopied) throw AttachError(why_not(state));
    request.set_copy(state.copy);
    const std::optional<pid_t> copy = find_copy(process_, state.copy);
    if (copy) view->text = text_of_copy(*copy, place, &request);
    return true;
  }

  FrozenCopy read_state(const TracedProcess& process, std::uint64_t place) const {
    FrozenCopy state = {};
    if (!process.read_memory(place, &state, sizeof(state))) throw AttachError(process_.name() + " has ended");
    return state;
  }

  FrozenCopy wait_for_copy(std::uint64_t place, CopyRequest* request) {
    const auto begin = std::chrono::steady_clock::now();
    for (;;) {
      const FrozenCopy state = read_state(process_, place);
      if (state.phase != FrozenPhase::kAsked && state.phase != FrozenPhase::kServed) return state;
      const auto waited = std::chrono::steady_clock::now() - begin;
      if (waited > limit_) throw AttachError(who_blocks());
      if (waited > milliseconds(500))
        log::show_status("waiting for the main thread of " + printable(process_.name()) + " to run Python code");
      request->pause();
    }
  }

  std::string who_blocks() const {
    log::wipe_status();
    const ThreadCall call = process_.thread(process_.pid()).current_call();
    const std::string what = call.running      ? "it computes in C code"
                             : call.number < 0 ? "it is stopped"
                                               : "it is in " + BlockingCalls::name(call.number) + "()";
    return "the main thread of " + process_.name() + " ran no Python code for " +
           format_time(static_cast<std::uint64_t>(limit_.count()) * 1000000) + " (" + what +
           "), and only that thread can be asked: try again, or with a longer --timeout";
  }

  std::string why_not(const FrozenCopy& state) const {
    log::wipe_status();
    switch (state.phase) {
      case FrozenPhase::kTooLarge:
        return process_.name() + " has " + format_bytes(state.private_bytes) +
               " of private memory, and a copy of it may stop it for more than " +
               format_time(static_cast<std::uint64_t>(longest_stop_.count()) * 1000) +
               ": a longer --longest-stop allows it";
      case FrozenPhase::kNoPython:
        return process_.name() +
               " has no Python interpreter that can be asked (CULPRIT_PYTHON=0, a free-threaded "
               "build, or no Python)";
      default:
        break;
    }
    const std::string reason = state.error != 0 ? std::strerror(state.error) : "the view failed";
    return process_.name() + " could not make a copy of itself, in which its objects are read: " + reason;
  }

  // Empty: the copy did not come to its end.
  std::string text_of_copy(pid_t copy, std::uint64_t place, CopyRequest* request) try {
    const TracedProcess process(copy);
    const auto begin = std::chrono::steady_clock::now();
    for (;;) {
      const FrozenCopy state = read_state(process, place);
      if (state.phase == FrozenPhase::kBroken)
        throw AttachError("the objects of " + process_.name() + " could not be read");
      if (state.phase == FrozenPhase::kReady) {
        if (state.bytes > kMostViewBytes)
          throw AttachError("the view of " + process_.name() + " has " + format_bytes(state.bytes));
        std::string text(state.bytes, '\0');
        if (!process.read_memory(state.text, text.data(), text.size())) return {};
        log::wipe_status();
        return text;
      }
      const auto waited = std::chrono::steady_clock::now() - begin;
      if (waited > limit_) return {};
      if (waited > milliseconds(500))
        log::show_status("reading the objects in a copy of " + printable(process_.name()));
      request->pause();
    }
  } catch (const AttachError&) {
    if (!process_.is_alive() || request->is_interrupted()) throw;
    const std::optional<ProcessStat> stat = ProcessFolder("/proc", static_cast<std::uint32_t>(copy)).stat();
    if (stat && !stat->has_ended()) throw;
    return {};
  }

  const TracedProcess& process_;
  const std::string& library_;
  const milliseconds limit_;
  const std::chrono::microseconds longest_stop_;
};

}  // namespace

FrozenView take_frozen_view(const TracedProcess& process, const FrozenOrder& order) {
  return Taking(process, order).take();
}

}  // namespace culprit::report
