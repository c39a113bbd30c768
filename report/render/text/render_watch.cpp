#include "report/render/text/render_watch.h"

#include <cstdint>
#include <string>

#include "report/base/words.h"
#include "report/model/frame_text.h"
#include "report/model/program_frames.h"
#include "report/render/text/palette.h"
#include "report/render/text/text_fields.h"
#include "report/select/render_options.h"
#include "report/watch/watch_result.h"

namespace culprit::report {
namespace {

constexpr std::size_t kShownKeepers = 3;

std::string percent_text(double confidence) { return std::to_string(static_cast<int>(confidence * 100)) + "%"; }

std::string live_text(const JudgedRow& row) {
  const auto live = static_cast<std::uint64_t>(row.live);
  return row.row->objects ? std::to_string(live) + "x" : format_bytes(live);
}

std::string kind_text(const WatchedRow& row) {
  std::string text = row.api.empty() ? row.kind : row.api + "  " + row.kind;
  if (row.device) text += ", GPU " + std::to_string(*row.device);
  return text;
}

std::string place_of(const WatchedRow& row) {
  if (row.kind == "driver-rest") return "(no call explains it)";
  if (row.is_of_cache()) return "(inside of PyTorch's cache)";
  const Frame* named = naming_frame(row.stack);
  return named == nullptr ? "(stack not recorded)" : frame_text(*named);
}

class WatchText {
 public:
  WatchText(const RenderOptions& options, std::ostream& out)
      : options_(options), palette_(options.colours), out_(out), fields_(palette_, options, out) {}

  void print(const WatchResult& result) {
    for (const std::string& reason : result.reasons)
      out_ << palette_.bad("NOT KNOWN") << ": " << printable(reason) << "\n";
    for (const WatchedRows& process : result.processes) print(process);
  }

 private:
  void print(const WatchedRows& from) {
    const WatchedProcess& process = *from.process;
    std::string words;
    for (const std::string& word : process.command()) words += (words.empty() ? "" : " ") + printable(word);
    out_ << palette_.title("culprit watch") << " · " << cut_to_width(words, 100) << " [" << process.pid() << "] on "
         << printable(process.host()) << " · " << long_time_text(process.seconds()) << ", "
         << plural(process.history().samples(), "sample", "samples") << "\n";
    std::size_t counts[5] = {};
    for (const JudgedRow& row : from.rows) ++counts[static_cast<std::size_t>(row.judgement.verdict)];
    const std::size_t leaking = counts[static_cast<std::size_t>(WatchVerdict::kLeaking)];
    out_ << (leaking != 0 ? palette_.bad("LEAKING " + std::to_string(leaking)) : palette_.good("LEAKING 0")) << " of "
         << plural(from.rows.size(), "row", "rows");
    for (std::size_t i = 1; i < 5; ++i) {
      if (counts[i] != 0) out_ << " · " << verdict_title(static_cast<WatchVerdict>(i)) << " " << counts[i];
    }
    out_ << "\n";
    if (process.left_out() != 0)
      out_ << "note    " << plural(process.left_out(), "stack", "stacks") << " more than there is room for\n";
    std::size_t shown = 0;
    std::size_t hidden = 0;
    for (const JudgedRow& row : from.rows) {
      // Rows that stay as they are tell the reader nothing.
      const bool dull = row.judgement.verdict == WatchVerdict::kSteady;
      if (!options_.all && (dull || shown >= 2 * kShownGroups)) {
        ++hidden;
        continue;
      }
      ++shown;
      print(row, from);
    }
    if (hidden != 0) out_ << "and " << plural(hidden, "row", "rows") << " more: --all\n";
  }

  void print(const JudgedRow& row, const WatchedRows& from) {
    const bool leaks = row.judgement.verdict == WatchVerdict::kLeaking;
    const bool warms = row.judgement.verdict == WatchVerdict::kWarmingUp;
    const std::string title = padded_to_width(verdict_title(row.judgement.verdict), 17);
    out_ << "\n" << (leaks ? palette_.bad(title) : warms ? palette_.warn(title) : title);
    out_ << (warms ? "" : rate_text(*row.row, row.judgement.per_minute) + "  ") << "holds " << live_text(row);
    if (!warms) out_ << "  confidence " << percent_text(row.judgement.confidence);
    out_ << "  " << kind_text(*row.row) << "  " << palette_.faint(row.row->id) << "\n";
    if (row.seconds_until_full)
      fields_.field("full", "GPU " + std::to_string(*row.row->device) + " in " + (row.at_most ? "at most " : "") +
                                long_time_text(*row.seconds_until_full));
    if (leaks && row.row->kind != "driver-rest" && !row.row->is_of_cache()) {
      fields_.mixed_stack("allocated", row.row->stack.frames);
    } else {
      fields_.field("at", place_of(*row.row));
    }
    if (leaks && !row.row->pool.empty())
      fields_.field(
          "note", "segments of " + row.row->pool + ": the line that needed room need not be the one that keeps memory");
    if (leaks && row.row->kind == kCacheLive) print_keepers(from);
  }

  void print_keepers(const WatchedRows& from) {
    const std::string pid = std::to_string(from.process->pid());
    if (!from.grown) {
      fields_.field("next", "culprit watch --tensors " + pid + " names the variables that keep more and more");
      return;
    }
    if (!from.grown_problem.empty()) fields_.field("kept by", "not known: " + from.grown_problem);
    std::size_t shown = 0;
    for (const GrownKeeper& grown : *from.grown) {
      const bool one_view = from.grown_seconds == 0;
      if (shown == kShownKeepers || (!one_view && grown.growth() <= 0)) break;
      ++shown;
      const std::string change = one_view ? format_bytes(grown.now)
                                          : growth_text(grown.growth()) + " in " + long_time_text(from.grown_seconds);
      fields_.field("kept by", change + "  " + grown.keeper.path);
      if (!grown.keeper.hint.empty()) fields_.field("instead", grown.keeper.hint);
    }
    if (shown == 0 && from.grown_problem.empty())
      fields_.field("kept by", "no variable that grew in " + long_time_text(from.grown_seconds));
  }

  const RenderOptions& options_;
  const Palette palette_;
  std::ostream& out_;
  TextFields fields_;
};

}  // namespace

void render_watch(const WatchResult& result, const RenderOptions& options, std::ostream& out) {
  WatchText(options, out).print(result);
}

}  // namespace culprit::report
