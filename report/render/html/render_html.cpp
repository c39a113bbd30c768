// The HTML page: embeds the facts of the JSON report for the scripts in report/render/html/, which draw them.
#include "report/render/html/render_html.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <nlohmann/json.hpp>

#include "report/base/words.h"
#include "report/causes/event.h"
#include "report/model/memory_words.h"
#include "report/model/not_recorded.h"
#include "report/model/report.h"
#include "report/model/summary.h"
#include "report/render/html/html_page.h"
#include "report/render/html/page_frames.h"
#include "report/render/html/source_lines.h"
#include "report/render/json/group_json.h"
#include "report/render/json/head_json.h"
#include "report/select/render_options.h"

namespace culprit::report {
namespace {

// Source lines are shown for this many frames, from the allocating one outward.
constexpr std::size_t kFramesWithSource = 4;
// Calls whose allocations failed; the other formats have all of them.
constexpr std::size_t kMostFailedAllocations = 20;

// Whether all its processes ran on this machine.
bool is_of_this_host(const Report& report) {
  char name[HOST_NAME_MAX + 1] = {};
  if (::gethostname(name, sizeof(name) - 1) != 0) return false;
  return report.process.host == name &&
         std::all_of(report.job.begin(), report.job.end(), [&](const JobProcess& one) { return one.host == name; });
}

// One report's data. Not thread-safe.
class PageData {
 public:
  PageData(const Report& report, const RenderOptions& options)
      : report_(report),
        options_(options),
        sources_({options.sysroot, report.process.working_directory, options.source_dirs, is_of_this_host(report)},
                 report.process.start_realtime_ns),
        to_numbers_([this](const ResolvedStack* stack) { return frames_.numbers_of(stack); }) {}

  void write(std::ostream& out) {
    Json head = report_head_json(report_);
    add_time_lines(&head["devices"]);
    head["notes"] = report_.notes;
    head["hook_called"] = report_.hook_called;
    head["incomplete"] = reasons_not_known(report_);
    head["verb"] = words_of(report_).sentence;
    head["may_be_freed"] = words_of(report_).may_be_freed;
    head["totals_by_words"] = Json::array();
    for (const MemoryTotal& total : totals_by_words(report_, options_.strict)) {
      head["totals_by_words"].push_back({{"verb", total.words->sentence},
                                         {"bytes", total.bytes},
                                         {"allocations", total.allocations},
                                         {"groups", total.groups}});
    }
    head["failed_allocations"] = Json::array();
    for (const FailedAllocation& failed : report_.failed_allocations) {
      if (head["failed_allocations"].size() == kMostFailedAllocations) break;
      head["failed_allocations"].push_back(failed_allocation_text(failed));
    }
    write_members(head, out);
    write_groups("leaks", report_.leaks, out);
    write_groups("library", report_.library, out);
    write_groups("resources", report_.resources, out);
    Json errors = Json::array();
    for (const ErrorGroup& error : report_.errors) errors.push_back(page_error(error));
    out << "\"errors\": " << text_of(errors) << ",\n";
    if (options_.source) write_sources(out);
    frames_.write(out);
  }

 private:
  static std::string text_of(const Json& value) { return page_text(value); }

  // Adds the time lines, of which the JSON report has only the peaks.
  void add_time_lines(Json* devices) const {
    for (std::size_t i = 0; i < report_.devices.size(); ++i) {
      const TimeLine& line = report_.devices[i].time_line;
      if (line.buckets.empty()) continue;
      Json buckets = Json::array();
      for (const format::TimeLineBucket& one : line.buckets) buckets.push_back({one.low, one.high, one.last});
      (*devices)[i]["time_line"]["buckets"] = std::move(buckets);
    }
  }

  static void write_members(const Json& object, std::ostream& out) {
    for (const auto& [key, value] : object.items()) out << '"' << key << "\": " << text_of(value) << ",\n";
  }

  void write_groups(const char* name, const std::vector<Group>& groups, std::ostream& out) {
    out << '"' << name << "\": [";
    HiddenTotal left_out;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      if (i >= kMostPageEntries) {
        left_out.add(groups[i]);
        continue;
      }
      out << (i == 0 ? "\n" : ",\n") << text_of(page_group(groups[i]));
    }
    out << "],\n";
    if (left_out.groups == 0) return;
    const Json text = {{"groups", left_out.groups}, {"allocations", left_out.allocations}, {"bytes", left_out.bytes}};
    out << '"' << name << "_left_out\": " << text_of(text) << ",\n";
  }

  Json page_group(const Group& group) {
    Json one = group_json(group, words_of(report_, group.cause).may_be_freed, to_numbers_);
    one["counted"] = counts_as_leak(group, options_.strict);
    const std::vector<const Frame*>& frames = group.stack->frames;
    const auto caller = std::find(frames.begin(), frames.end(), group.stack->caller);
    one["at"] = caller == frames.end() ? Json() : Json(caller - frames.begin());
    std::size_t shown = 0;
    for (auto frame = caller; frame != frames.end() && shown < kFramesWithSource; ++frame, ++shown) want(*frame);
    for (std::size_t i = 0; i < group.evidence.size(); ++i) {
      const Evidence& evidence = group.evidence[i];
      const std::string title = functions_of(evidence.type).title(evidence);
      if (!title.empty()) one["evidence"][i]["title"] = title;
      if (evidence.stack != nullptr) one["evidence"][i]["at"] = place_of_named(*evidence.stack);
      if (evidence.caught != nullptr) one["evidence"][i]["caught_at"] = place_of_named(*evidence.caught);
    }
    one["stack"] = to_numbers_(group.stack);
    one["stack_merged"] = group.stack->merged;
    one["stack_truncated"] = group.stack->truncated;
    return one;
  }

  Json page_error(const ErrorGroup& error) {
    Json one = error_json(error, to_numbers_);
    one["at"] = place_of_named(*error.stack);
    return one;
  }

  // The index of the event's naming frame in the stack, and its source lines.
  Json place_of_named(const ResolvedStack& stack) {
    const Frame* named = named_frame(stack);
    if (named == nullptr) return Json();
    want(named);
    return std::find(stack.frames.begin(), stack.frames.end(), named) - stack.frames.begin();
  }

  void want(const Frame* frame) {
    if (!frame->file.empty()) sources_.want(frame->file, frame->line);
  }

  void write_sources(std::ostream& out) {
    Json list = Json::array();
    for (const SourceFile& file : sources_.read()) {
      Json blocks = Json::array();
      for (const SourceBlock& block : file.blocks) blocks.push_back({{"first", block.first}, {"lines", block.lines}});
      list.push_back(
          {{"file", frames_.number_of(file.path)}, {"changed", file.changed}, {"blocks", std::move(blocks)}});
    }
    out << "\"sources\": " << text_of(list) << ",\n";
  }

  const Report& report_;
  const RenderOptions& options_;
  SourceLines sources_;
  StackToJson to_numbers_;
  PageFrames frames_;
};

std::string title_of(const std::vector<Report>& reports) {
  std::uint64_t bytes = 0;
  for (const Report& report : reports) bytes += report.summary.leaked_bytes;
  const MemoryWords& words = words_of(reports.empty() ? Report() : reports.front());
  const bool all_may_be_freed =
      words.may_be_freed && std::all_of(reports.begin(), reports.end(), [&](const Report& report) {
        const std::vector<MemoryTotal> totals = totals_by_words(report, true);
        return std::all_of(totals.begin(), totals.end(), [&](const MemoryTotal& one) { return one.words == &words; });
      });
  std::string title =
      bytes == 0 ? "Nothing leaked" : format_bytes(bytes) + " " + (all_may_be_freed ? words.fate : "leaked");
  if (reports.size() == 1) {
    const std::string& executable = reports.front().process.executable;
    return title + " · " + std::string(base_name(executable)) + " · culprit";
  }
  return title + " · " + std::to_string(reports.size()) + " processes · culprit";
}

}  // namespace

void render_html(const std::vector<Report>& reports, const RenderOptions& options, std::ostream& out) {
  write_html_page(
      title_of(reports),
      [&](std::ostream& data) {
        data << "{\"view\": \"report\", \"strict\": " << (options.strict ? "true" : "false") << ", \"reports\": [";
        for (const Report& report : reports) {
          data << (&report == &reports.front() ? "\n{" : ",\n{");
          PageData(report, options).write(data);
          data << "}";
        }
        data << "]}\n";
      },
      out);
}

}  // namespace culprit::report
