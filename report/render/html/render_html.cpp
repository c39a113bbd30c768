// The HTML page: embeds the facts of the JSON report for the scripts in report/render/html/, which draw them.
#include "report/render/html/render_html.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "report/base/host_name.h"
#include "report/base/words.h"
#include "report/causes/event.h"
#include "report/findings/finding.h"
#include "report/findings/headline.h"
#include "report/model/group_names.h"
#include "report/model/memory_words.h"
#include "report/model/not_recorded.h"
#include "report/model/peak_use.h"
#include "report/model/program_frames.h"
#include "report/model/report.h"
#include "report/model/sum_up.h"
#include "report/render/html/html_page.h"
#include "report/render/html/page_frames.h"
#include "report/render/html/source_lines.h"
#include "report/render/json/finding_json.h"
#include "report/render/json/group_json.h"
#include "report/render/json/head_json.h"
#include "report/select/render_options.h"

namespace culprit::report {
namespace {

// Source lines are shown for this many frames, from the allocating one outward.
constexpr std::size_t kFramesWithSource = 4;
// Calls whose allocations failed; the other formats have all of them.
constexpr std::size_t kMostFailedAllocations = 20;

// Whether this user surely ran all its processes on this machine.
bool is_of_this_machine(const Report& report) {
  return report.job.empty() ? report.process.of_this_machine
                            : std::all_of(report.job.begin(), report.job.end(),
                                          [](const JobProcess& one) { return one.of_this_machine; });
}

constexpr std::size_t kLeastForReport = 50000;
// About the size of an entry without its stack and evidence.
constexpr std::size_t kShortEntryBytes = 550;

std::string amount_of(std::size_t shown, std::size_t all) {
  return std::to_string(shown) + " of " + std::to_string(all);
}

// Shortens the longest lists of the head until its text has `most` bytes. Adds a sentence for each to `trimmed`. The
// groups refer to the processes and devices by their place, so those stay.
void trim_head(std::size_t most, Json* head, Json* trimmed) {
  std::map<std::string, std::size_t> was;
  for (std::size_t bytes = page_bytes(page_text(*head)); bytes > most; bytes = page_bytes(page_text(*head))) {
    Json* longest = nullptr;
    std::string longest_name;
    std::size_t longest_bytes = 1000;
    auto consider = [&](const std::string& outer, const std::string& name, Json& list) {
      if (!list.is_array() || list.empty()) return;
      const std::size_t list_bytes = page_bytes(page_text(list));
      if (list_bytes <= longest_bytes) return;
      longest = &list;
      longest_name = outer;
      longest_name += name;
      longest_bytes = list_bytes;
    };
    for (auto& [key, value] : head->items()) {
      if (key == "processes" || key == "devices") continue;
      consider("", key, value);
      if (!value.is_object()) continue;
      for (auto& [inner, list] : value.items()) consider(key + ".", inner, list);
    }
    if (longest == nullptr) break;
    was.emplace(longest_name, longest->size());
    longest->erase(longest->begin() + static_cast<Json::difference_type>(longest->size() / 2), longest->end());
  }
  for (const auto& [name, count] : was)
    trimmed->push_back("Of " + plural(count, "entry", "entries") + " in " + name + " the first are in this page only.");
}

// One report's data. Not thread-safe.
class PageData {
 public:
  // `most`: the size of the output of write(), except for some kilobytes.
  PageData(const Report& report, const RenderOptions& options, std::size_t most)
      : report_(report),
        names_(report),
        options_(options),
        most_(most),
        sources_({options.sysroot, report.process.working_directory, options.source_dirs, is_of_this_machine(report)},
                 report.process.start_realtime_ns),
        to_numbers_([this](const ResolvedStack* stack) { return frames_.numbers_of(stack); }) {}

  // Returns the size of the text.
  std::size_t write(std::ostream& out) {
    Json head = report_head_json(report_);
    add_time_lines(&head["devices"]);
    head["notes"] = report_.notes;
    const std::string part = part_text(report_.since_mark, report_.before_mark);
    if (!part.empty()) head["part"] = part;
    head["hook_called"] = report_.hook_called;
    head["incomplete"] = reasons_not_known(report_);
    head["in_headline"] = headline_findings(report_);
    // The page shows the others elsewhere.
    head["findings"] = findings_json(report_, shown_findings(report_, kInPage));
    head["verb"] = words_of(report_).sentence;
    head["may_be_freed"] = words_of(report_).may_be_freed;
    head["totals_by_words"] = Json::array();
    for (const MemoryTotal& total : totals_by_words(report_, options_.strict)) {
      head["totals_by_words"].push_back({{"verb", total.words->sentence},
                                         {"may_be_freed", total.words->may_be_freed},
                                         {"bytes", total.bytes},
                                         {"allocations", total.allocations},
                                         {"groups", total.groups}});
    }
    head["failed_allocations"] = Json::array();
    for (const FailedAllocation& failed : report_.failed_allocations) {
      if (head["failed_allocations"].size() == kMostFailedAllocations) break;
      const auto breakdown = std::find_if(report_.breakdowns.begin(), report_.breakdowns.end(),
                                          [&](const Breakdown& one) { return is_shown_by(failed, one); });
      if (breakdown == report_.breakdowns.end()) {
        head["failed_allocations"].push_back(failed_allocation_text(failed));
      } else {
        const std::string text = beside_breakdown_text(failed, *breakdown);
        if (!text.empty()) head["pictures"][breakdown - report_.breakdowns.begin()]["failed"] = text;
      }
    }
    trim_head(most_ / 3, &head, &trimmed_);
    for (const auto& [key, value] : head.items()) write_member(key, value, out);
    // Each list may use the room that those before it left, less some for those after it.
    const std::size_t errors = room_for(report_.errors.size());
    const std::size_t resources = room_for(report_.resources.size());
    const std::size_t sources = options_.source ? most_ / 6 : 0;
    write_groups("leaks", report_.leaks, sources + errors + resources + room_for(report_.library.size()), out);
    write_groups("library", report_.library, sources + errors + resources, out);
    write_groups("resources", report_.resources, sources + errors, out);
    write_errors(sources, out);
    if (options_.source) write_sources(out);
    if (!trimmed_.empty()) write_member("trimmed", trimmed_, out);
    frames_.write(out);
    return used();
  }

  // The parts that are left out or shortened, in words for a message of the command; empty: none.
  const std::string& left_out() const { return left_out_; }

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

  std::size_t used() const { return written_ + frames_.bytes(); }
  // Whether text of this size can be added and leave `reserved` bytes.
  bool fits(std::size_t bytes, std::size_t reserved) const { return used() + bytes + reserved <= most_; }
  std::size_t room_for(std::size_t entries) const { return std::min(most_ / 10, entries * 4096); }

  void write_text(const std::string& text, std::ostream& out) {
    out << text;
    written_ += page_bytes(text);
  }

  void write_member(const std::string& key, const Json& value, std::ostream& out) {
    write_text('"' + key + "\": " + text_of(value) + ",\n", out);
  }

  void tell(const std::string& what) { left_out_ += (left_out_.empty() ? "" : ", ") + what; }

  void write_groups(const std::string& name, const std::vector<Group>& groups, std::size_t reserved,
                    std::ostream& out) {
    write_text('"' + name + "\": [", out);
    HiddenTotal left_out;
    std::size_t shortened = 0;
    bool is_short = false;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      // Worst first: of the smallest the details are left out, then they themselves.
      std::string text;
      if (left_out.groups == 0 && i < kMostPageEntries) {
        const std::size_t later = (std::min(groups.size(), kMostPageEntries) - i) * kShortEntryBytes;
        if (!is_short && fits(later, reserved)) text = text_of(page_group(groups[i]));
        if (text.empty() || !fits(page_bytes(text), reserved)) {
          text = text_of(short_group(groups[i]));
          is_short = true;
        }
      }
      if (text.empty() || !fits(page_bytes(text), reserved)) {
        left_out.add(groups[i]);
        continue;
      }
      write_text((i == 0 ? "\n" : ",\n") + text, out);
      shortened += is_short ? 1 : 0;
    }
    write_text("],\n", out);
    write_left_out(name, shortened, left_out, out);
  }

  void write_left_out(const std::string& name, std::size_t shortened, const HiddenTotal& left_out, std::ostream& out) {
    if (shortened != 0) {
      write_member(name + "_shortened", shortened, out);
      tell("stacks and details of " + plural(shortened, "entry", "entries") + " of " + name);
    }
    if (left_out.groups == 0) return;
    const Json total = {{"groups", left_out.groups}, {"allocations", left_out.allocations}, {"bytes", left_out.bytes}};
    write_member(name + "_left_out", total, out);
    tell("the " + plural(left_out.groups, "smallest entry", "smallest entries") + " of " + name);
  }

  void write_errors(std::size_t reserved, std::ostream& out) {
    write_text("\"errors\": [", out);
    HiddenTotal left_out;
    for (const ErrorGroup& error : report_.errors) {
      const std::string text = left_out.groups == 0 ? text_of(page_error(error)) : "";
      if (text.empty() || !fits(page_bytes(text), reserved)) {
        ++left_out.groups;
        left_out.allocations += error.count;
        left_out.bytes += error.bytes;
        continue;
      }
      write_text((&error == &report_.errors.front() ? "" : ",") + text, out);
    }
    write_text("],\n", out);
    write_left_out("errors", 0, left_out, out);
  }

  // An entry without its callers, evidence and threads.
  Json short_group(const Group& group) {
    const bool may_be_freed = words_of(report_, group.cause).may_be_freed;
    Json one = group_json(group, may_be_freed, [](const ResolvedStack*) { return Json::array(); });
    for (const char* list : {"evidence", "marks", "threads", "thread_names", "handles"}) {
      if (one.contains(list)) one[list] = Json::array();
    }
    one["hint"] = one["history"] = Json();
    one.erase("spread");
    one["counted"] = counts_as_leak(group, options_.strict);
    const Frame* frame = naming_frame(*group.stack);
    name(group, frame, &one);
    one["at"] = frame != nullptr ? Json(0) : Json();
    one["stack"] = frame != nullptr ? frames_.numbers_of({frame}) : Json::array();
    one["shortened"] = true;
    return one;
  }

  // Its part of the page's address, and the library that lists name it by.
  void name(const Group& group, const Frame* named, Json* one) const {
    (*one)["anchor"] = names_.of(group);
    (*one)["in"] = named != nullptr ? library_name(*named) : "";
  }

  Json page_group(const Group& group) {
    Json one = group_json(group, words_of(report_, group.cause).may_be_freed, to_numbers_);
    one["counted"] = counts_as_leak(group, options_.strict);
    const std::vector<const Frame*>& frames = group.stack->frames;
    const auto named = std::find(frames.begin(), frames.end(), naming_frame(*group.stack));
    name(group, named == frames.end() ? nullptr : *named, &one);
    one["at"] = named == frames.end() ? Json() : Json(named - frames.begin());
    std::size_t shown = 0;
    for (auto frame = named; frame != frames.end() && shown < kFramesWithSource; ++frame, ++shown) want(*frame);
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
    const std::vector<SourceFile> files = sources_.read();
    std::size_t bytes = 0;
    for (const SourceFile& file : files) {
      Json blocks = Json::array();
      for (const SourceBlock& block : file.blocks) blocks.push_back({{"first", block.first}, {"lines", block.lines}});
      Json one = {{"file", frames_.number_of(file.path)}, {"changed", file.changed}, {"blocks", std::move(blocks)}};
      bytes += page_bytes(text_of(one));
      if (!fits(bytes, 0)) break;
      list.push_back(std::move(one));
    }
    if (list.size() < files.size()) {
      trimmed_.push_back("The lines of " + amount_of(list.size(), files.size()) + " source files are in this page.");
      tell("the lines of " + plural(files.size() - list.size(), "source file", "source files"));
    }
    if (list.empty() && sources_.lacks_folder()) {
      trimmed_.push_back(
          "Source lines are missing, because this page may be of a program of another machine: give the folder of its "
          "sources with --source-dir.");
    }
    write_member("sources", list, out);
  }

  const Report& report_;
  const GroupNames names_;
  const RenderOptions& options_;
  std::size_t most_;
  std::size_t written_ = 0;       // without what frames_ will write
  Json trimmed_ = Json::array();  // sentences for the page
  std::string left_out_;
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
  std::vector<const Report*> all;
  for (const Report& report : reports) all.push_back(&report);
  const bool has_leaks =
      std::any_of(reports.begin(), reports.end(), [](const Report& report) { return report.summary.groups != 0; });
  const std::string title =
      has_leaks ? format_bytes(bytes) + " " + (all_may_be_freed ? words.fate : "leaked") : sentence_without_leaks(all);
  if (reports.size() == 1) {
    const std::string& executable = reports.front().process.executable;
    return title + " · " + std::string(base_name(executable)) + " · culprit";
  }
  return title + " · " + std::to_string(reports.size()) + " processes · culprit";
}

// The processes of all reports, for the view by rank: [report, its place there or null, rank or null, pid, host, leaked
// bytes, peak]. Lists of numbers, because a job may have many thousands. Empty for a single process.
std::string job_text_of(const std::vector<Report>& reports) {
  Json processes = Json::array();
  Json hosts = Json::array();
  std::map<std::string, std::size_t> numbers;
  const auto add = [&](std::size_t report, const Json& place, const std::optional<unsigned>& rank, std::uint32_t pid,
                       const std::string& host, std::uint64_t leaked, std::uint64_t peak) {
    const auto [at, is_new] = numbers.try_emplace(host, numbers.size());
    if (is_new) hosts.push_back(host);
    processes.push_back({report, place, rank ? Json(*rank) : Json(), pid, at->second, leaked, peak});
  };
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const Report& report = reports[i];
    if (report.job.empty()) {
      const ProcessInfo& process = report.process;
      add(i, Json(), process.rank, process.pid, process.host, report.summary.leaked_bytes,
          most_recorded_use(report.devices));
    }
    for (std::size_t place = 0; place < report.job.size(); ++place) {
      const JobProcess& process = report.job[place];
      add(i, place, process.rank, process.pid, process.host, process.leaked_bytes, process.peak_live_bytes);
    }
  }
  if (processes.size() < 2) return {};
  return page_text({{"hosts", hosts}, {"processes", processes}});
}

// Writes the data of all reports. Returns PageData::left_out() of all.
std::string write_reports_data(const std::vector<Report>& reports, const RenderOptions& options, std::ostream& data) {
  data << "{\"view\": \"report\", \"strict\": " << (options.strict ? "true" : "false") << ", \"reports\": [";
  std::size_t room = kMostPageDataBytes;
  const std::string job = job_text_of(reports);
  room -= std::min(room / 2, job.size());
  std::string left_out;
  std::size_t done = 0;
  for (; done < reports.size() && (done == 0 || room > kLeastForReport); ++done) {
    // Every process gets an equal part, and the room that the others did not need.
    const std::size_t part = std::max(room / (reports.size() - done), kLeastForReport);
    PageData page(reports[done], options, std::min(room, part));
    data << (done == 0 ? "\n{" : ",\n{");
    room -= std::min(room, page.write(data));
    data << "}";
    if (left_out.empty()) left_out = page.left_out();
  }
  data << "]";
  if (!job.empty()) data << ", \"job\": " << job;
  if (done < reports.size()) {
    const std::size_t missing = reports.size() - done;
    data << ", \"reports_left_out\": " << missing;
    left_out += (left_out.empty() ? "" : ", ") + plural(missing, "process", "processes");
  }
  data << "}\n";
  return left_out;
}

}  // namespace

void render_html(const std::vector<Report>& reports, const RenderOptions& options, std::ostream& out) {
  std::string left_out;
  write_html_page(
      title_of(reports), [&](std::ostream& data) { left_out = write_reports_data(reports, options, data); }, out);
  if (!left_out.empty() && options.left_out != nullptr)
    options.left_out->push_back("left out of the page, which takes 20,000 entries of a list and stays below 25 MB: " +
                                left_out + "; --format json has everything");
}

}  // namespace culprit::report
