#include "report/commands/tensors_source.h"

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <utility>

#include "report/attach/frozen_view.h"
#include "report/attach/injector.h"
#include "report/attach/result_words.h"
#include "report/base/json_input.h"
#include "report/base/log.h"
#include "report/base/words.h"
#include "report/dump/dump_reader.h"
#include "report/judge/python_caches.h"
#include "report/judge/python_unseen.h"
#include "report/load/python_view.h"
#include "report/proc/process_folder.h"
#include "report/proc/target_process.h"
#include "report/render/json/tensors_json.h"
#include "report/run/preload.h"

namespace culprit::report {
namespace {

using std::chrono::milliseconds;

// The caches of a dump: at the end or at the snapshot, then those of the last moment at which memory ran out.
std::vector<CacheInside> caches_of(const PythonView& view) {
  std::vector<CacheInside> caches = look_inside_view(view);
  for (CacheInside& inside : look_inside_ran_out(view)) caches.push_back(std::move(inside));
  return caches;
}

void warn_of_unread(const std::string& name, const PythonView& view) {
  std::string reasons;
  for (const std::string& reason : view.all_unread()) reasons += (reasons.empty() ? "" : "; ") + reason;
  if (!reasons.empty()) log::warning(name + ": " + reasons);
}

// Records in a process for as long as the object lives.
class AttachedForNow {
 public:
  AttachedForNow(const TracedProcess& process, const std::string& library, milliseconds limit)
      : process_(process), library_(library), limit_(limit) {
    InjectionOrder order = order_of(Injection::kAttach);
    order.request.backend = format::AttachBackend::kRedirect;
    order.request.depth = 0;
    std::strcpy(order.request.out, "/tmp/culprit.tensors.%p.dump");
    const format::AttachRequest answer = inject_checked(order);
    dump_ = process_.path_from_here(answer.dump);
  }
  ~AttachedForNow() {
    try {
      if (process_.is_alive()) inject_checked(order_of(Injection::kDetach));
    } catch (const AttachError& error) {
      log::warning(std::string("not detached: ") + error.what());
    }
    ::unlink(dump_.c_str());
  }
  AttachedForNow(const AttachedForNow&) = delete;
  AttachedForNow& operator=(const AttachedForNow&) = delete;

 private:
  InjectionOrder order_of(Injection what) const {
    InjectionOrder order;
    order.what = what;
    order.limit = limit_;
    order.library = library_;
    return order;
  }

  format::AttachRequest inject_checked(const InjectionOrder& order) const {
    InjectionFacts facts;
    const format::AttachRequest answer = inject(process_, order, &facts);
    if (facts.interrupted != 0) throw AttachError("interrupted");
    const std::string problem = describe_result(process_, answer);
    if (!problem.empty()) throw AttachError(problem);
    return answer;
  }

  const TracedProcess& process_;
  const std::string& library_;
  const milliseconds limit_;
  std::string dump_;
};

TensorsView tensors_of_process(std::uint32_t pid, const ProcessLimits& limits) {
  const TargetProcess target = find_target("/proc", pid);
  // Several processes below a `culprit run`, for example.
  if (!target.problem.empty() && !target.without_library && !target.has_library) throw AttachError(target.problem);
  const TracedProcess process(static_cast<pid_t>(target.has_library ? target.pid : pid));
  process.check_attachable();
  const std::string library = find_library();
  const auto recorded = [&] { return target.has_library && !target.dump.empty(); };
  std::optional<AttachedForNow> attached;
  if (!recorded() && (!target.has_library || target.detached)) attached.emplace(process, library, limits.step);
  const FrozenView taken = take_frozen_view(process, {library, limits.step, limits.longest_stop});
  TensorsView view;
  view.name = process.name();
  if (!taken.text.empty()) {
    std::string problem;
    const std::optional<PythonView> parsed = parse_python_view(taken.text, "the view of " + process.name(), &problem);
    if (!parsed) throw AttachError(problem);
    view.caches = caches_of(*parsed);
    warn_of_unread(view.name, *parsed);
  }
  log::line("note    " + printable(process.name()) + ": its interpreter ran no other code for " +
            format_time(taken.held_ns) + ", and was looked at in " + format_time(taken.took_ns));
  return view;
}

TensorsView tensors_of_file(const std::string& path) {
  std::string problem;
  const std::optional<PythonView> view = read_python_view(path, &problem);
  if (view) {
    warn_of_unread(path, *view);
    return {path, caches_of(*view)};
  }
  if (!problem.empty()) throw std::runtime_error(problem);
  if (std::filesystem::path(path).extension() == ".json") return {path, caches_of_tensors_json(read_json(path), path)};
  const std::string unseen = why_python_is_unseen(Dump::open(path).header(), true);
  throw std::runtime_error(path + " has no view from inside a framework beside it (" + python_view_path(path) +
                           "): the program used no PyTorch and no CuPy, or they were not looked at: " + unseen);
}

}  // namespace

TensorsView tensors_of(const std::string& source, const ProcessLimits& limits) {
  const std::optional<std::uint32_t> pid = whole_number(source);
  return pid && !std::filesystem::exists(source) ? tensors_of_process(*pid, limits) : tensors_of_file(source);
}

}  // namespace culprit::report
