#include "report/judge/growing_graphs.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "report/model/frames.h"
#include "report/model/program_frames.h"
#include "report/model/report.h"

namespace culprit::report {
namespace {

constexpr std::uint64_t kFewest = 16;
constexpr std::uint64_t kFewestGrown = 8;
constexpr std::int64_t kLeastBytes = 32 << 20;

using Place = std::tuple<std::uint32_t, unsigned, std::uint32_t, const ResolvedStack*>;

// Of a stack without a line: itself.
Place place_of(const CallCharge& charge) {
  const Frame* frame = naming_frame(*charge.stack);
  return {charge.process, charge.device, frame == nullptr ? 0 : frame->place,
          frame == nullptr ? charge.stack : nullptr};
}

bool has_executables(const CallCharge& charge) {
  return charge.what == BalancePart::kGraphExecutables && charge.made != 0 && !charge.ended;
}

void add(const CallCharge& charge, ExecutableLine* line) {
  if (line->stack == nullptr) {
    line->process = charge.process;
    line->device = charge.device;
    line->stack = charge.stack;
    line->api = charge.api;
    line->first_ns = charge.first_ns;
  }
  // Of a damaged file: without an overflow.
  line->bytes =
      static_cast<std::int64_t>(static_cast<std::uint64_t>(line->bytes) + static_cast<std::uint64_t>(charge.bytes));
  line->grown += charge.count;
  line->made += charge.made;
  line->live += charge.live;
  line->most_live = std::max({line->most_live, charge.most_live, line->live});
  line->first_ns = std::min(line->first_ns, charge.first_ns);
  if (charge.count != 0) line->last_ns = std::max(line->last_ns, charge.last_ns);
  line->growing = line->growing || charge.growing;
}

// Charges of calls are sorted: the first one of a line has the most bytes.
std::map<Place, ExecutableLine> lines_by_place(const Report& report) {
  std::map<Place, ExecutableLine> lines;
  for (const CallCharge& charge : report.call_charges) {
    if (has_executables(charge)) add(charge, &lines[place_of(charge)]);
  }
  return lines;
}

// The end of the process, or the last moment that is known of it.
std::uint64_t end_of(const Report& report) {
  std::uint64_t end = std::max(report.process.end_time_ns, report.snapshot_ns);
  for (const Balance& balance : report.balances) end = std::max(end, balance.time_ns);
  for (const CallCharge& charge : report.call_charges) end = std::max(end, charge.last_ns);
  return end;
}

bool grows(const ExecutableLine& line, std::uint64_t end_ns) {
  return line.most_live >= kFewest && line.most_live >= line.made / 2 && line.bytes >= kLeastBytes &&
         line.grown >= kFewestGrown && line.last_ns >= line.first_ns &&
         line.last_ns - line.first_ns >= (end_ns - line.first_ns) / 2;
}

}  // namespace

std::vector<ExecutableLine> executable_lines(const Report& report) {
  std::vector<ExecutableLine> lines;
  for (const auto& [place, line] : lines_by_place(report)) lines.push_back(line);
  std::stable_sort(lines.begin(), lines.end(),
                   [](const ExecutableLine& left, const ExecutableLine& right) { return left.bytes > right.bytes; });
  return lines;
}

void mark_growing_graphs(Report* report) {
  const std::map<Place, ExecutableLine> lines = lines_by_place(*report);
  const std::uint64_t end_ns = end_of(*report);
  for (CallCharge& charge : report->call_charges) {
    if (has_executables(charge)) charge.growing = grows(lines.at(place_of(charge)), end_ns);
  }
}

}  // namespace culprit::report
