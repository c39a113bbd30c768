#include "report/select/selection.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "report/base/byte_size.h"
#include "report/base/environment.h"
#include "report/base/log.h"
#include "report/base/output_file.h"
#include "report/cuda/kinds.h"
#include "report/model/not_recorded.h"
#include "report/model/report.h"
#include "report/model/sum_up.h"

namespace culprit::report {
namespace {

bool is_in(const std::vector<std::string>& list, const std::string& one) {
  return std::find(list.begin(), list.end(), one) != list.end();
}

// Whether the memory is on one of these GPUs, by number, or on the host. For a merged group, of any process.
bool is_on(const Group& group, const std::vector<std::string>& devices) {
  if (kind_class(group.kind) == KindClass::kHostMemory) return is_in(devices, "host");
  if (group.device) return is_in(devices, std::to_string(*group.device));
  return std::any_of(group.devices.begin(), group.devices.end(),
                     [&](unsigned device) { return is_in(devices, std::to_string(device)); });
}

}  // namespace

std::vector<std::string> SelectionOptions::suppression_files() const {
  const std::string file = value_or("CULPRIT_SUPPRESSIONS", "");
  return suppressions.empty() && !file.empty() ? std::vector<std::string>{file} : suppressions;
}

std::vector<std::string> SelectionOptions::files() const {
  std::vector<std::string> files = suppression_files();
  if (!baseline.empty()) files.push_back(baseline);
  return files;
}

Selection::Selection(const SelectionOptions& options) : options_(options) {
  for (const std::string& file : options.suppression_files()) suppressions_.read(file);
  min_bytes_ = parse_bytes(options.min_bytes).value_or(0);
  growth_ = parse_growth(options.allow_growth).value_or(Growth());
  if (!options.baseline.empty()) baseline_ = read_baseline(options.baseline);
  // Checked now rather than after a run of an hour.
  check_output_file(options.write_baseline, options.suppression_files());
  if (!options.write_baseline.empty() && ::access(options.write_baseline.c_str(), F_OK) == 0)
    read_baseline(options.write_baseline);
}

bool Selection::wanted(const Group& group, bool memory) const {
  if (!options_.id.empty() && group.id != options_.id) return false;
  if (memory && group.bytes < min_bytes_) return false;
  if (memory && !options_.causes.empty() && !is_in(options_.causes, cause_name(group.cause))) return false;
  if (!options_.kinds.empty() && !is_in(options_.kinds, kind_name(group.kind))) return false;
  return options_.devices.empty() || is_on(group, options_.devices);
}

void Selection::filter(Report* report) const {
  const bool all = min_bytes_ == 0 && options_.causes.empty() && options_.kinds.empty() && options_.devices.empty();
  if (all && options_.id.empty()) return;
  report->filtered = HiddenTotal();
  for (std::vector<Group>* groups : {&report->leaks, &report->library, &report->resources}) {
    const bool memory = groups != &report->resources;
    auto kept = groups->begin();
    for (Group& group : *groups) {
      if (wanted(group, memory)) {
        if (&*kept != &group) *kept = std::move(group);
        ++kept;
      } else if (memory) {
        report->filtered->add(group);
      }
    }
    groups->erase(kept, groups->end());
  }
}

void Selection::sort(Report* report) const {
  if (options_.sort == "bytes") return;  // already sorted
  const bool by_count = options_.sort == "count";
  for (std::vector<Group>* groups : {&report->leaks, &report->library, &report->resources}) {
    std::stable_sort(groups->begin(), groups->end(), [by_count](const Group& left, const Group& right) {
      return by_count ? left.count > right.count : left.first_ns < right.first_ns;
    });
  }
}

void Selection::apply(bool strict, std::vector<Report>* reports) {
  for (Report& report : *reports) {
    suppressions_.apply(&report);
    filter(&report);
    sum_up(strict, &report);
    sort(&report);
  }
  // Over all reports together: a suppression may match in only one of the processes.
  if (!reports->empty()) {
    for (const std::string& line : suppressions_.unused())
      reports->back().notes.push_back("this suppression hid nothing: " + line);
  }
  if (baseline_) compare(*baseline_, options_.baseline, growth_, strict, reports);
}

bool Selection::write(bool strict, const std::vector<Report>& reports) const {
  const std::string& path = options_.write_baseline;
  if (path.empty()) return true;
  std::error_code error;
  if (!std::all_of(reports.begin(), reports.end(), is_complete) && std::filesystem::exists(path, error)) {
    log::error(path + ": was not replaced, because not everything was recorded");
    return false;
  }
  for (const std::string& sentence : write_baseline(path, baseline_of(reports, strict)))
    log::note(std::string(path).append(": ").append(sentence));
  return true;
}

}  // namespace culprit::report
