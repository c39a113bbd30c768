#include "report/render/text/render_balance.h"

#include <algorithm>
#include <string>
#include <vector>

#include "report/base/words.h"
#include "report/findings/process_words.h"
#include "report/model/frame_text.h"
#include "report/model/program_frames.h"
#include "report/model/report.h"
#include "report/render/text/palette.h"

namespace culprit::report {
namespace {

constexpr std::size_t kWidth = 116;
constexpr std::size_t kShownCalls = 4;  // of each part

std::string signed_bytes(std::int64_t bytes) {
  return bytes < 0 ? "-" + format_bytes(std::uint64_t{0} - static_cast<std::uint64_t>(bytes))
                   : format_bytes(static_cast<std::uint64_t>(bytes));
}

std::string words_of(const Balance& balance, BalancePart part) {
  const ExecutableUse& use = balance.executables;
  const char* more = "";
  if (part == BalancePart::kContexts && balance.others_included) more = ", with what other processes had then";
  if (part == BalancePart::kContexts && balance.contexts_at_most) {
    more = balance.share.recorded ? " at most: NVML could not be asked when they were made"
                                  : " at most, made beside other processes";
  }
  if (part == BalancePart::kGraphExecutables && use.known && use.at_most == 0) more = ", all idle";
  return std::string(balance_words(part)) + more;
}

// "streams, contexts"
std::string words_of(const std::vector<BalanceItem>& parts) {
  std::string text;
  for (const BalanceItem& item : parts) text += (text.empty() ? "" : ", ") + std::string(balance_words(item.what));
  return text;
}

// "2, the largest: python3 (7) 1.00 GiB, app (12) 64.0 MiB"
std::string neighbours_text(const DeviceShare& share) {
  std::string text = std::to_string(share.processes);
  const char* before = share.largest.size() < share.processes ? ", the largest: " : ": ";
  for (const ChargedProcess& process : share.largest) {
    text += before;
    before = ", ";
    if (!process.name.empty()) text += printable(process.name) + " ";
    text += "(" + std::to_string(process.pid) + ")";
    if (process.bytes_known) text += " " + format_bytes(process.bytes);
  }
  return text;
}

std::string why_not_known(const DeviceShare& share) {
  const std::string advice = problem_advice(share.problem);
  return std::string(problem_words(share.problem)) + (advice.empty() ? "" : "; to know it: " + advice);
}

// "all of it is in use by 40 live executables".
std::string use_text(const ExecutableUse& use) {
  if (use.at_most == 0) return "none is live: all of it is idle, kept for the next ones";
  const std::string live = plural(use.live, "live executable", "live executables");
  if (use.at_least == use.at_most) return "all of it is in use by " + live;
  if (use.at_least == 0) return live + ", in memory of earlier ones: how much of it is in use is not known";
  return "at least " + format_bytes(use.at_least) + " is in use by " + live +
         "; what they use of earlier ones' memory is not known";
}

std::string moment_words(format::Moment moment) {
  switch (moment) {
    case format::Moment::kPeak:
      return "at the peak";
    case format::Moment::kOutOfMemory:
      return "when memory ran out";
    default:
      return "at exit";
  }
}

void print_calls(const Report& report, const Balance& balance, BalancePart part, std::ostream& out) {
  std::size_t shown = 0;
  for (const CallCharge& charge : report.call_charges) {
    if (charge.process != balance.process || charge.device != balance.device || charge.what != part || charge.ended)
      continue;
    if (charge.bytes <= 0 || shown++ == kShownCalls) break;
    const Frame* frame = naming_frame(*charge.stack);
    out << "              " << padded_to_width(format_bytes(static_cast<std::uint64_t>(charge.bytes)), 10)
        << charge.count << "x  " << printable(charge.api) << "  "
        << (frame == nullptr ? "(stack not recorded)" : frame_text(*frame));
    if (charge.made != 0)
      out << " · " << charge.made << " made, " << charge.most_live << " at once, " << charge.live << " live";
    out << "\n";
  }
}

}  // namespace

bool explains_more(const Balance& balance) {
  constexpr std::int64_t kSmallRest = 16 << 20;
  return std::any_of(balance.items.begin(), balance.items.end(), [](const BalanceItem& item) {
    if (item.what == BalancePart::kRest) return item.bytes > kSmallRest;
    return item.what != BalancePart::kAllocations && item.what != BalancePart::kBlocks &&
           item.what != BalancePart::kCached;
  });
}

void render_balance_items(const Balance& balance, const std::string& prefix, std::size_t indent, std::ostream& out) {
  std::string line = prefix;
  bool first = true;
  for (const BalanceItem& item : balance.items) {
    const std::string text = signed_bytes(item.bytes) + " " + words_of(balance, item.what);
    if (!first && line.size() + text.size() + 3 > kWidth) {
      out << line << "\n";
      line = std::string(indent, ' ');
    }
    line += (first ? "" : " + ") + text;
    first = false;
  }
  if (!first) out << line << "\n";
  if (!balance.not_known.empty())
    out << std::string(indent, ' ') << "not known beside other processes: " << words_of(balance.not_known) << "\n";
  if (!balance.unproven.empty())
    out << std::string(indent, ' ')
        << "read from the whole GPU, with what others took then: " << words_of(balance.unproven) << "\n";
}

void render_balance_line(const Balance& balance, const std::string& prefix, std::ostream& out) {
  constexpr std::size_t kIndent = 7;
  if (explains_more(balance)) render_balance_items(balance, prefix, kIndent, out);
}

std::string charge_text(const Balance& balance, const std::string& why_not_charged) {
  const std::string explained = "the balance explains " + signed_bytes(balance.explained());
  if (balance.has_rest()) return "NVML says " + format_bytes(balance.in_use) + " for this process; " + explained;
  return explained + "; NVML's figure for this process is not known: " + printable(why_not_charged);
}

void render_balances(const Report& report, const RenderOptions& options, std::ostream& out) {
  const Palette palette(options.colours);
  for (const Balance& balance : report.balances) {
    out << "\n"
        << palette.title("BALANCE") << " of GPU " << balance.device << " " << moment_words(balance.moment) << ": "
        << whose_prefix(report, balance.process) << palette.title(format_bytes(balance.in_use)) << " in use of "
        << format_bytes(balance.total) << "\n";
    for (const BalanceItem& item : balance.items) {
      out << "   " << padded_to_width(signed_bytes(item.bytes), 11) << words_of(balance, item.what);
      if (item.what == BalancePart::kLocalMemory && balance.threads != 0)
        out << ": " << balance.stack_limit << " B for each of " << balance.threads
            << " threads, less what came with the context";
      if (item.what == BalancePart::kOtherProcesses) out << ": " << neighbours_text(balance.share);
      if (item.what == BalancePart::kNoProcess) out << ": managed memory, and the driver's own";
      if (*balance_advice(item.what) != '\0') out << " · " << balance_advice(item.what);
      out << "\n";
      if (item.what == BalancePart::kGraphExecutables && item.bytes > 0 && balance.executables.known)
        out << "              " << use_text(balance.executables) << "\n";
      print_calls(report, balance, item.what, out);
    }
    if (!balance.not_known.empty())
      out << "   not known beside other processes: " << words_of(balance.not_known)
          << "; what they take is in the rest\n";
    if (!balance.unproven.empty())
      out << "   read from the whole GPU, with what other processes took then: " << words_of(balance.unproven)
          << "; `culprit run` asks NVML"
          << "\n";
    if (!balance.not_known.empty() && balance.share.recorded && !balance.share.is_known())
      out << "   " << why_not_known(balance.share) << "\n";
    if (balance.share.not_attributed != 0)
      out << "   " << plural(balance.share.not_attributed, "call", "calls")
          << " beside other processes: what the driver took for them is in the rest, too\n";
    if (balance.managed != 0)
      out << "   " << format_bytes(balance.managed) << " of managed memory: as much of it as is on the GPU is "
          << (balance.share.is_known() ? "charged to no process" : "in the rest") << "\n";
    if (!report.recording.spans.empty() || report.recording.off || report.process.attached)
      out << "   recording was off for a part of the time: what the driver took then is in the rest\n";
    if (balance.unmeasured != 0)
      out << "   " << plural(balance.unmeasured, "call was", "calls were") << " not measured: "
          << "during a stream capture, or too many in a short time\n";
  }
}

}  // namespace culprit::report
