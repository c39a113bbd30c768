#include "report/model/not_recorded.h"

#include "report/base/words.h"
#include "report/model/report.h"

namespace culprit::report {

bool is_complete(const Report& report) {
  return report.hook_called && report.unseen.empty() && report.dropped.total() == 0 && report.dropped.reason.empty();
}

std::string verdict_without_leaks(const Report& report) {
  const bool running = report.process.status.ended == Ended::kRunning;
  if (!report.hook_called) return "NOTHING RECORDED";
  if (is_complete(report)) return running ? "NOTHING HELD" : "NOTHING LEAKED";
  return running ? "NOTHING HELD AMONG WHAT WAS RECORDED" : "NO LEAK AMONG WHAT WAS RECORDED";
}

std::string not_seen_text(const UnseenUser& user) {
  const std::string name = printable(base_name(user.path));
  return user.own_driver
             ? name +
                   " has a CUDA driver of its own (it was loaded with dlmopen): its allocations are not in this report"
             : name +
                   " calls the driver directly (it was loaded with RTLD_DEEPBIND, or finds functions without dlsym): "
                   "its allocations are not in this report";
}

std::vector<std::string> incomplete_texts(const Report& report) {
  std::vector<std::string> texts;
  for (const UnseenUser& user : report.unseen) texts.push_back("Not seen: " + not_seen_text(user));
  const std::string dropped = not_recorded_text(report);
  if (!dropped.empty()) texts.push_back("Not recorded: " + dropped);
  return texts;
}

std::string not_recorded_text(const Report& report) {
  const Dropped& dropped = report.dropped;
  if (dropped.total() == 0 && dropped.reason.empty()) return {};
  std::string what;
  auto add = [&](std::uint64_t count, const char* one, const char* many) {
    if (count != 0) what += (what.empty() ? "" : ", ") + plural(count, one, many);
  };
#define COUNTER_DROPPED(name, field, one, many) add(dropped.field, one, many);
#include "interpose/format/counters.def"
  if (what.empty()) what = "nothing lost yet";
  if (!dropped.reason.empty())
    return what + ", from " + format_time(dropped.stop_time_ns) + " on · " + printable(dropped.reason);
  const bool no_room = dropped.allocations + dropped.stacks + dropped.others != 0;
  return no_room ? what + " · a table of fixed size was full" : what;
}

}  // namespace culprit::report
