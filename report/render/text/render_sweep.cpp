#include "report/render/text/render_sweep.h"

#include <cstdio>

#include "report/base/words.h"
#include "report/model/frame_text.h"
#include "report/model/frames.h"
#include "report/model/run_facts.h"
#include "report/render/text/group_text.h"
#include "report/render/text/palette.h"
#include "report/render/text/text_fields.h"
#include "report/run/sweep.h"
#include "report/select/render_options.h"

namespace culprit::report {
namespace {

std::string place(const Frame* frame) {
  if (frame == nullptr) return "an unknown place";
  const std::string at = frame_place(*frame);
  return at.empty() ? frame_function(*frame) : at + " " + frame_function(*frame);
}

const Frame* innermost(const ResolvedStack* stack) {
  return stack == nullptr || stack->frames.empty() ? nullptr : stack->frames.front();
}

// "cudaMalloc at load.cpp:33 load".
std::string site_text(const AllocationSite& site) {
  return printable(site.api) + " at " + place(innermost(site.stack));
}

class SweepText {
 public:
  SweepText(const Sweep& sweep, const RenderOptions& options, std::ostream& out)
      : sweep_(sweep),
        not_known_(reasons_not_known(sweep)),
        options_(options),
        palette_(options.colours),
        out_(out),
        fields_(palette_, options, out) {}

  void print() {
    print_not_known();
    print_header();
    std::size_t number = 0;
    for (const SweepFinding& finding : sweep_.findings) print_finding(finding, ++number);
    print_ends(SweepOutcome::kCrash, "CRASHED");
    print_ends(SweepOutcome::kHang, "HUNG");
    print_rest();
  }

 private:
  // Printed first, because everything below is incomplete.
  void print_not_known() {
    constexpr std::size_t kMostShown = 5;
    for (std::size_t i = 0; i < not_known_.size() && i < kMostShown; ++i)
      out_ << palette_.bad("NOT KNOWN") << ": " << not_known_[i] << "\n";
    if (not_known_.size() > kMostShown)
      out_ << palette_.bad("NOT KNOWN") << ": and " << not_known_.size() - kMostShown
           << " more reasons: --format json\n";
  }

  void print_header() {
    std::string command;
    for (const std::string& word : sweep_.command) command += (command.empty() ? "" : " ") + printable(word);
    out_ << "culprit sweep · " << palette_.title(command) << " · "
         << plural(sweep_.sites, "allocation site", "allocation sites") << ", "
         << plural(sweep_.runs.size(), "run", "runs") << "\n";
    const std::size_t crashes = sweep_.count(SweepOutcome::kCrash);
    const std::size_t hangs = sweep_.count(SweepOutcome::kHang);
    const bool bad = !sweep_.findings.empty() || crashes + hangs != 0;
    const char* separator = "";
    const auto add = [&](std::size_t count, const std::string& text) {
      if (count == 0) return;
      out_ << separator << palette_.bad(text);
      separator = " · ";
    };
    add(sweep_.leaks(), plural(sweep_.leaks(), "leak", "leaks") + " that the clean run does not have");
    add(sweep_.errors(), plural(sweep_.errors(), "bad free", "bad frees") + " that the clean run does not have");
    add(crashes, plural(crashes, "crash", "crashes"));
    add(hangs, plural(hangs, "hang", "hangs"));
    if (bad && !not_known_.empty()) {
      out_ << separator << palette_.warn("NOT KNOWN") << " what else";
    } else if (bad && sweep_.leaks() == 0) {
      out_ << separator << "no new leak";
    } else if (!bad) {
      out_ << (not_known_.empty() ? palette_.good("NOTHING NEW LEAKED")
                                  : palette_.warn("NOT KNOWN: no new leak among the recorded allocations"));
    }
    out_ << "\n";
    std::uint64_t groups = 0;
    for (const auto& report : sweep_.clean_reports) groups += report->summary.groups;
    if (groups != 0) {
      out_ << "not shown: " << plural(groups, "leak", "leaks")
           << " that the clean run has too (culprit run shows them)\n";
    }
  }

  void print_finding(const SweepFinding& finding, std::size_t number) {
    if (finding.is_error) {
      render_error(*finding.report, finding.error, number, options_, out_);
    } else {
      render_group(*finding.report, finding.leak, number, options_, out_);
    }
    constexpr std::size_t kMostShown = 5;
    std::size_t shown = 0;
    for (std::size_t run : finding.runs) {
      if (shown++ == kMostShown) break;
      fields_.field(shown == 1 ? "when" : "", failure_text(sweep_.runs[run].site));
    }
    if (finding.runs.size() > kMostShown)
      fields_.field("", "and in " + std::to_string(finding.runs.size() - kMostShown) + " more runs");
    print_again(sweep_.runs[finding.runs.front()].site);
  }

  static std::string failure_text(const AllocationSite& site) { return site_text(site) + " fails"; }

  void print_again(const AllocationSite& site) {
    fields_.field("again", "CULPRIT_FAIL=alloc-site:" + site_name(site) + " culprit run -- ...");
  }

  void print_ends(SweepOutcome outcome, const char* title) {
    for (const SweepRun& run : sweep_.runs) {
      if (run.outcome != outcome) continue;
      out_ << "\n" << palette_.bad(title);
      if (outcome == SweepOutcome::kHang) {
        char seconds[32];
        std::snprintf(seconds, sizeof(seconds), "%.3g", run.result.seconds);
        out_ << ": killed after " << seconds << " s (--timeout)";
      } else if (run.result.child.signalled) {
        out_ << ": " << signal_text(run.result.child.code);
      } else {
        out_ << ": a process of the command ended without its exit handlers, exit " << run.result.child.code;
      }
      out_ << "\n";
      fields_.field("when", failure_text(run.site));
      print_again(run.site);
    }
  }

  void print_rest() {
    std::string text;
    const auto add = [&](std::size_t count, const std::string& what) {
      if (count != 0) text += (text.empty() ? "" : " · ") + std::to_string(count) + " " + what;
    };
    add(sweep_.count(SweepOutcome::kFine), "with nothing new");
    add(sweep_.count(SweepOutcome::kNotReached), "that did not come to their site");
    add(sweep_.count(SweepOutcome::kUnreadable), "without a readable dump");
    add(sweep_.sites - sweep_.runs.size(), "sites not tried");
    if (!text.empty()) out_ << "\nruns   " << text << "\n";
    for (const SweepRun& run : sweep_.runs) {
      if (run.outcome != SweepOutcome::kGaveUp) continue;
      out_ << "gave up by exit() at " << place(exit_caller(run.gave_up->exit_stack)) << " when "
           << failure_text(run.site) << ": the memory that it held then is not counted\n";
    }
  }

  const Sweep& sweep_;
  const std::vector<std::string> not_known_;
  const RenderOptions& options_;
  Palette palette_;
  std::ostream& out_;
  TextFields fields_;
};

}  // namespace

void render_sweep_text(const Sweep& sweep, const RenderOptions& options, std::ostream& out) {
  SweepText(sweep, options, out).print();
}

}  // namespace culprit::report
