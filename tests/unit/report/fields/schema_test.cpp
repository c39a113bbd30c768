// SCHEMA.md, report JSON and merged files have the fields that the lists of report/fields/ have.
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "report/merge/merged_file.h"
#include "report/render/json/render_json.h"
#include "tests/catch.h"
#include "tests/support/pattern.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"
#include "tests/unit/report/fields/documenter.h"
#include "tests/unit/report/fields/filler.h"
#include "tests/unit/report/findings/examples.h"
#include "tests/unit/report/golden.h"

using namespace culprit::report;
using namespace culprit::test;
using Json = nlohmann::json;

namespace {

const char* const kSchemaFile = CULPRIT_SOURCE_DIR "/report/SCHEMA.md";

// The tables of SCHEMA.md by the name in the comment above them.
const std::map<std::string, Documenter>& tables() {
  static const std::map<std::string, Documenter> all = {
      {"Frame", documented<Frame>()},
      {"ThreadInfo", documented<ThreadInfo>()},
      {"MemoryReading", documented<culprit::format::MemoryReading>()},
      {"Report", documented<Report>()},
      {"ProcessInfo", documented<ProcessInfo>()},
      {"JobProcess", documented<JobProcess>()},
      {"DeviceInfo", documented<DeviceInfo>()},
      {"Breakdown", documented<Breakdown>()},
      {"CacheInside", documented<CacheInside>()},
      {"Keeper", documented<Keeper>()},
      {"GpuCharges", documented<GpuCharges>()},
      {"Balance", documented<Balance>()},
      {"CallCharge", documented<CallCharge>()},
      {"ContextInfo", documented<ContextInfo>()},
      {"Overwritten", documented<Overwritten>()},
      {"Audit", documented<Audit>()},
      {"HolderSearchInfo", documented<HolderSearchInfo>()},
      {"Group", documented<Group>()},
      {"ErrorGroup", documented<ErrorGroup>()},
      {"FailedAllocation", documented<FailedAllocation>()},
  };
  return all;
}

std::string begin_of(const std::string& name) { return "<!-- fields of " + name + " -->\n"; }

// The text of SCHEMA.md that is about reports of one process or job.
std::string text_about_reports() {
  const std::string text = file_text(kSchemaFile);
  const std::size_t from = text.find("\n## Parts that many objects have\n");
  const std::size_t to = text.find("\n## culprit.reports/1\n");
  REQUIRE(from < to);
  return text.substr(from, to - from);
}

// The names in `code`, without [] and the objects that they stand in.
std::set<std::string> names_in_code(const std::string& text) {
  std::set<std::string> names;
  for (const std::string& path : first_groups(text, "`([a-z_.\\[\\]]+)`")) {
    std::size_t dot = 0;
    for (std::size_t next = 0; next != std::string::npos; dot = next + 1) {
      next = path.find('.', dot);
      std::string name = path.substr(dot, next == std::string::npos ? next : next - dot);
      if (name.size() > 2 && name.substr(name.size() - 2) == "[]") name.resize(name.size() - 2);
      names.insert(name);
      if (next == std::string::npos) break;
    }
  }
  return names;
}

void add_keys(const Json& json, std::set<std::string>* keys) {
  if (json.is_object()) {
    for (const auto& [key, value] : json.items()) keys->insert(key);
  }
  for (const Json& value : json) {
    if (value.is_structured()) add_keys(value, keys);
  }
}

// Reports of a process and of a job in which every member of report JSON occurs.
class Examples {
 public:
  Examples() {
    frame_.function = "keep";
    frame_.file = "/src/app.cu";
    frame_.line = 31;
    frame_.module = &module_;
    frame_.symbol_offset = 4;
    frame_.approximate = true;
    stack_.frames = {&frame_};
    variable_.module = &module_;
  }
  // All that merged files have, and what is left out of them.
  Report filled(bool job) const {
    Report report;
    Filler filler(&stack_);
    fields(filler, &report);
    if (!job) report.job.clear();
    for (const auto add : kExamples) add({&stack_, "cuThing"}, 0, &report);
    fill_rest(&report);
    return report;
  }
  Report mergeable() const {
    Report report;
    Filler filler(&stack_);
    fields(filler, &report);
    return report;
  }

 private:
  using AddExample = void (*)(const Names& names, unsigned rank, Report* report);
  static constexpr AddExample kExamples[] = {
#define FINDING(enumerator, ...) add_example<FindingKind::enumerator>,
#include "report/findings/findings.def"
  };

  void fill_rest(Report* report) const {
    ThreadInfo thread;
    report->dump_path = "app.dump";
    report->process.attached = "redirect";
    report->process.status.ended = Ended::kKilled;
    report->devices.front().time_line.buckets.resize(1);
    report->suppressed.resize(1);
    report->filtered.emplace();
    report->baseline.emplace();
    report->baseline->knows_keepers = true;
    report->baseline->keepers.resize(1);
    report->snapshot_ns = 1;
    report->marked.resize(1);
    report->since_mark.asked = report->before_mark.asked = "epoch";
    report->recording.off = true;
    report->recording.spans.resize(1);
    report->shared.resize(1);
    report->shared.front().opened = &stack_;
    report->shared.front().exporter.emplace();
    report->audit.state = culprit::format::AuditState::kOn;
    report->contexts.front().thread = thread;
    report->errors.front().free_thread = thread;
    report->summary.totals.resize(1);
    report->summary.caches = {{report->leaks.front().pool, 1, 1}};
    for (std::vector<CacheInside>* list : {&report->caches_inside, &report->ran_out})
      for (CacheInside& inside : *list) inside.segments.resize(1);
    report->caches_inside.front().pool = report->leaks.front().pool->name;
    for (Balance& balance : report->balances) {
      balance.items.front().what = BalancePart::kGraphExecutables;
      balance.share.problem = culprit::format::GpuProblem::kNone;
    }
    for (Breakdown& breakdown : report->breakdowns) {
      for (CacheInside& cache : breakdown.caches) cache.pool = report->leaks.front().pool->name;
      for (GpuCharges& charges : breakdown.charges) charges.problem.clear();
    }
    Group& group = report->leaks.front();
    group.kind = culprit::format::Kind::kRegion;
    group.comparison = Comparison::kGrown;
    group.threads = {thread};
    group.handles = {1};
    report->library.front().kind = culprit::format::Kind::kVmmPhysical;
    Evidence evidence = group.evidence.front();
    evidence.variable = &variable_;
    evidence.caught = &stack_;
    evidence.owner = &frame_;
    evidence.thread = thread;
    evidence.first_ns = 1;
    group.evidence.clear();
    for (const EvidenceType type : kEvidenceTypes) {
      evidence.type = type;
      group.evidence.push_back(evidence);
    }
  }

  Module module_;
  Frame frame_;
  ResolvedStack stack_;
  Variable variable_;
};

std::string json_text(const Report& report) {
  std::ostringstream out;
  render_json({report}, out);
  return out.str();
}

}  // namespace

TEST_CASE("the tables of SCHEMA.md are those of the lists of fields", "[report][schema]") {
  std::string text = file_text(kSchemaFile);
  std::string expected = text;
  for (const auto& [name, documenter] : tables()) {
    INFO(name);
    const std::size_t from = expected.find(begin_of(name));
    REQUIRE(from != std::string::npos);
    const std::size_t table = from + begin_of(name).size();
    std::size_t to = table;
    while (to < expected.size() && expected[to] == '|') to = expected.find('\n', to) + 1;
    expected.replace(table, to - table, documenter.table());
  }
  if (std::getenv("CULPRIT_APPROVE") != nullptr) std::ofstream(kSchemaFile) << (text = expected);
  if (text != expected)
    FAIL_CHECK("SCHEMA.md (-) differs from the lists (+); CULPRIT_APPROVE=1 rewrites its tables\n"
               << LineDifferences(text, expected).text());
}

TEST_CASE("every key of report JSON is documented, and every documented field occurs", "[report][schema]") {
  const Examples examples;
  std::set<std::string> keys;
  for (const bool job : {false, true}) add_keys(Json::parse(json_text(examples.filled(job))), &keys);
  const std::set<std::string> documented = names_in_code(text_about_reports());
  for (const std::string& key : keys) {
    INFO(key);
    CHECK(documented.count(key) == 1);
  }
  // The first columns of all tables, but those of values.
  std::string fields_of_tables;
  std::istringstream lines(text_about_reports());
  bool of_fields = false;
  for (std::string line; std::getline(lines, line);) {
    if (line == "| field | meaning |") of_fields = true;
    if (line.empty()) of_fields = false;
    if (of_fields && line.rfind("| `", 0) == 0) fields_of_tables += line.substr(0, line.find(" | ")) + "\n";
  }
  for (const std::string& name : names_in_code(fields_of_tables)) {
    INFO(name);
    CHECK((keys.count(name) == 1 || name == "more"));  // only in the data of a page
  }
}

TEST_CASE("a member whose value is not known is null", "[report][schema]") {
  const Examples examples;
  Report report = examples.filled(false);
  report.devices.front() = DeviceInfo();
  report.balances.clear();
  for (Breakdown& breakdown : report.breakdowns) breakdown.memory = {};
  for (ContextInfo& context : report.contexts) context.bytes = 0;
  report.process.driver_version = 0;
  report.errors.front().kind = culprit::format::Kind::kNone;
  report.errors.front().allocation_handle = 0;
  const Json json = Json::parse(json_text(report));
  for (const char* const name : {"name", "pool_reserved_bytes", "pool_used_bytes", "time_line"})
    CHECK(json["devices"][0][name].is_null());
  for (const char* const name : {"first", "peak", "exit"}) CHECK(json["devices"][0]["memory"][name].is_null());
  CHECK(json["devices"][0]["balance"] == Json::array());
  for (const char* const list : {"pictures", "out_of_memory"}) CHECK(json[list][0]["memory"].is_null());
  CHECK(json["contexts"][0]["bytes"].is_null());
  CHECK(json["process"]["driver_version"].is_null());
  CHECK(json["errors"][0]["kind"].is_null());
  CHECK(json["errors"][0]["allocation_handle"].is_null());
}

TEST_CASE("golden: the names of the fields of merged files", "[report][schema][golden]") {
  const TemporaryFolder folder;
  write_merged_file(folder.file("job.json"), Examples().mergeable());
  check_golden("merged_fields.json", Json::parse(file_text(folder.file("job.json"))).dump(1) + "\n");
}
