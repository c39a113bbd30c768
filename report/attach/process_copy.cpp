#include "report/attach/process_copy.h"

#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "report/attach/remote_symbols.h"
#include "report/attach/result_words.h"
#include "report/base/log.h"
#include "report/proc/loaded_library.h"

namespace culprit::report {

std::uint64_t place_of_variable(const TracedProcess& process, const char* name) {
  const std::vector<MappedRange> mappings = process.mappings();
  const MappedRange* library = find_loaded(mappings, {"libculprit.so"});
  if (library == nullptr) throw AttachError("libculprit.so is not loaded in " + process.name());
  const std::uint64_t place = RemoteSymbols(process, library->begin).variable(name);
  if (place != 0) return place;
  throw AttachError("the libculprit.so in " + process.name() + " is of another version: it has no " + name);
}

std::optional<pid_t> find_copy(const TracedProcess& process, std::int32_t number) {
  for (const pid_t thread : process.threads()) {
    std::istringstream children(process.thread(thread).text("children"));
    for (std::uint32_t child = 0; children >> child;) {
      if (innermost_number(ProcessFolder("/proc", child)) == static_cast<std::uint32_t>(number))
        return static_cast<pid_t>(child);
    }
  }
  return std::nullopt;
}

CopyRequest::CopyRequest(const TracedProcess& process, CopyOrder order)
    : process_(process), order_(std::move(order)), facts_(ask(format::AttachStep::kBegin)) {}

CopyRequest::~CopyRequest() { end(); }

void CopyRequest::pause() {
  if (!signals_.wait(std::chrono::milliseconds(1))) return;
  log::wipe_status();
  throw AttachError("interrupted");
}

// On a busy machine a large copy takes longer to end than the process may wait for it; until then it is a child that
// has ended.
void CopyRequest::end() const try {
  constexpr int kMostTries = 10;
  constexpr std::chrono::milliseconds kPause{50};
  for (int tries = 0; tries < kMostTries && process_.is_alive(); ++tries) {
    if (tries != 0) std::this_thread::sleep_for(kPause);
    ask(format::AttachStep::kEnd);
    if (copy_ == 0 || !find_copy(process_, copy_)) return;
  }
} catch (const AttachError& error) {
  log::debug(error.what());
}

InjectionFacts CopyRequest::ask(format::AttachStep step) const {
  InjectionOrder order;
  order.what = order_.what;
  order.request.step = step;
  order.library = order_.library;
  order.limit = order_.limit;
  InjectionFacts facts;
  const format::AttachRequest answer = inject(process_, order, &facts);
  if (facts.interrupted != 0) {
    if (step == format::AttachStep::kBegin) end();  // the copy may be there
    throw AttachError("interrupted");
  }
  if (answer.result == format::AttachResult::kNotAttached)
    throw AttachError(process_.name() + " has not used CUDA yet: " + order_.without_cuda);
  const std::string problem = describe_result(process_, answer);
  if (!problem.empty()) throw AttachError(problem);
  return facts;
}

}  // namespace culprit::report
