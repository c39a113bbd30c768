#include "report/doctor/inside.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "report/base/descriptor.h"
#include "report/base/failure.h"
#include "report/cuda/kinds.h"
#include "report/findings/sharing_words.h"
#include "report/judge/balances.h"
#include "report/judge/load_report.h"
#include "report/merge/join_sharings.h"
#include "report/model/frame_text.h"
#include "report/model/report.h"
#include "report/proc/process_folder.h"

namespace culprit::report {
namespace {

constexpr std::size_t kShownStacks = 3;

void add_group(const Group& group, Inside* inside) {
  if (kind_class(group.kind) != KindClass::kDeviceMemory) return;
  const WhileRunning state = row_of(group.cause).while_running;
  switch (state) {
    case WhileRunning::kKept:
      inside->cached_bytes += group.bytes;
      break;
    case WhileRunning::kLost:
      inside->lost_bytes += group.bytes;
      break;
    case WhileRunning::kLive:
      inside->live_bytes += group.bytes;
      break;
  }
  Inside::Stack stack;
  stack.id = group.id;
  stack.bytes = group.bytes;
  stack.count = group.count;
  stack.api = group.api;
  if (group.stack != nullptr && !group.stack->frames.empty()) {
    const Frame& frame = *group.stack->frames.front();
    const std::string place = frame_place(frame);
    stack.place = place + (place.empty() ? "" : "  ") + frame_function(frame);
  }
  if (state != WhileRunning::kLive) stack.cause = cause_name(group.cause);
  inside->stacks.push_back(stack);
}

}  // namespace

InsideByGpu inside_of(const Report& report, const std::string& dump, const GpuUsers& users) {
  InsideByGpu result;
  for (const DeviceInfo& device : report.devices) {
    Inside inside;
    inside.gpu = device.uuid;
    inside.dump = dump;
    if (device.pool_reserved > device.pool_used) inside.pool_bytes = device.pool_reserved - device.pool_used;
    for (const std::vector<Group>* groups : {&report.leaks, &report.library}) {
      for (const Group& group : *groups) {
        if (group.device == device.ordinal) add_group(group, &inside);
      }
    }
    inside.charge = charge_of(users, device.uuid, report.process.pid);
    inside.balance = balance_now(report, device.ordinal, inside.charge.bytes);
    for (const SharedMemory& shared : report.shared) {
      if (shared.gpu == device.uuid) inside.shared.push_back(shared_memory_text(shared));
    }
    std::stable_sort(inside.stacks.begin(), inside.stacks.end(),
                     [](const Inside::Stack& a, const Inside::Stack& b) { return a.bytes > b.bytes; });
    if (inside.stacks.size() > kShownStacks) inside.stacks.resize(kShownStacks);
    result[device.uuid] = inside;
  }
  return result;
}

namespace {

// Empty when the dump cannot be read: `problem` says why.
std::optional<Report> report_of(const std::string& proc, std::uint32_t pid, const std::string& dump,
                                const LoadOptions& options, std::string* problem) {
  const Descriptor file(open_in_process(proc, pid, dump));
  if (file.get() < 0) {
    *problem = std::strerror(errno);
    return std::nullopt;
  }
  try {
    Report report = load_report("/proc/self/fd/" + std::to_string(file.get()), options);
    report.process.pid = pid;  // as seen from here, for sentences that name it
    return report;
  } catch (const std::exception& error) {
    *problem = failure_text(error);
  }
  return std::nullopt;
}

LoadOptions options_of(const std::string& proc, std::uint32_t pid) {
  LoadOptions options;
  options.machine.proc = proc;
  options.symbols.sysroot = ProcessFolder(proc, pid).living().root();
  return options;
}

InsideByGpu unreadable_inside(const std::string& dump, const std::string& problem) {
  Inside inside;
  inside.dump = dump;
  inside.problem = problem;
  return {{"", inside}};
}

}  // namespace

InsideByGpu RepeatedLook::look(const std::string& proc, const Recorder& recorder, const GpuUsers& users) {
  LoadOptions options = options_of(proc, recorder.pid);
  std::unique_ptr<SharedSymbols>& symbols = symbols_[recorder.pid];
  if (symbols == nullptr) {
    symbols = std::make_unique<SharedSymbols>([symbol_options = options.symbols](std::vector<ModuleSymbols>& modules) {
      look_up_symbols(modules, symbol_options);
    });
  }
  options.lookup = [&symbols](std::vector<ModuleSymbols>& modules) { symbols->look_up(modules); };
  std::string problem;
  const std::optional<Report> report = report_of(proc, recorder.pid, recorder.dump, options, &problem);
  return report ? inside_of(*report, recorder.dump, users) : unreadable_inside(recorder.dump, problem);
}

std::map<std::uint32_t, InsideByGpu> look_inside(const ProcFacts& proc, const GpuUsers& users) {
  std::map<std::uint32_t, InsideByGpu> result;
  std::map<std::uint32_t, Report> reports;
  for (const auto& [pid, process] : proc.processes) {
    if (process.dump.empty()) continue;
    std::string problem;
    std::optional<Report> report = report_of(proc.root, pid, process.dump, options_of(proc.root, pid), &problem);
    if (report) {
      reports.emplace(pid, std::move(*report));
      continue;
    }
    result[pid] = unreadable_inside(process.dump, problem);
  }
  std::vector<Report*> all;
  all.reserve(reports.size());
  for (auto& [pid, report] : reports) all.push_back(&report);
  join_sharings(all);
  for (const auto& [pid, report] : reports) result[pid] = inside_of(report, proc.processes.at(pid).dump, users);
  return result;
}

}  // namespace culprit::report
