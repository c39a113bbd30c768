#include "tests/process/table_of_kinds.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "tests/catch.h"
#include "tests/support/text.h"

namespace culprit::test {
namespace {

// Bytes by row, as the subject printed them; rows that the driver does not support are left out.
std::map<std::string, std::uint64_t> done_rows(const Run& run, const std::vector<ExpectedKind>& expected) {
  std::map<std::string, std::uint64_t> rows;
  std::string unsupported;
  std::istringstream lines(run.out);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string row;
    std::string value;
    words >> row >> value;
    if (value == "unsupported") {
      if (on_gpu()) WARN("skipped on this driver: " << line);
      unsupported += "\n  " + line;
    } else {
      rows[row] = std::stoull(value);
    }
  }
  INFO("not supported:" << unsupported);
  CHECK((on_gpu() || unsupported.empty()));
  for (const ExpectedKind& kind : expected) {
    INFO("the subject has no row " << kind.row << " (it ended with " << run.exit_code << ", stderr: " << run.err
                                   << ")");
    CHECK(has(run.out, std::string(kind.row) + " "));
  }
  return rows;
}

std::string describe(const std::vector<Group>& groups) {
  std::string text;
  for (const Group& group : groups) {
    text += "\n  " + group.kind + " " + group.api + " " + std::to_string(group.count) + "x " +
            std::to_string(group.bytes) + " bytes";
  }
  return text.empty() ? " nothing" : text;
}

}  // namespace

void check_leaked_rows(const Run& run, const std::vector<ExpectedKind>& expected) {
  INFO("stderr: " << run.err);
  REQUIRE(run.exit_code == 0);
  const std::map<std::string, std::uint64_t> rows = done_rows(run, expected);
  const Report report = read_report(run.dump());
  for (const ExpectedKind& kind : expected) {
    const auto row = rows.find(kind.row);
    if (row == rows.end()) continue;
    const std::vector<Group> groups = report.through(std::string("make_") + kind.row);
    const auto found =
        std::find_if(groups.begin(), groups.end(), [&](const Group& group) { return group.kind == kind.kind; });
    INFO("row " << kind.row << ", expected " << kind.kind << " by " << kind.api
                << ", in the report:" << describe(groups));
    CHECK(found != groups.end());
    if (found == groups.end()) continue;
    CHECK(found->api == kind.api);
    CHECK(found->count == 1);
    CHECK(found->bytes == row->second);
  }
  // Memory is not counted twice, whatever helper calls the rows made.
  std::uint64_t bytes = 0;
  for (const ExpectedKind& kind : expected) bytes += rows.count(kind.row) != 0 ? rows.at(kind.row) : 0;
  INFO("all leaks:" << describe(report.leaks));
  CHECK(report.leaked_bytes() == bytes);
  CHECK(report.json.at("summary").at("leaked_bytes") == bytes);
  CHECK(report.error_count() == 0);
}

void check_freed_rows(const Run& run, const std::vector<ExpectedKind>& expected) {
  INFO("stderr: " << run.err);
  REQUIRE(run.exit_code == 0);
  const std::map<std::string, std::uint64_t> rows = done_rows(run, expected);
  const Report report = read_report(run.dump());
  for (const auto& [row, bytes] : rows) {
    const std::vector<Group> groups = report.through("make_" + row);
    INFO("row " << row << " left" << describe(groups));
    CHECK(groups.empty());
  }
  INFO("all leaks:" << describe(report.leaks));
  CHECK(report.leaks.empty());
  // A record whose end was missed may have been replaced by a later one at its address; NVIDIA's runtime keeps some.
  const nlohmann::json& summary = report.json.at("summary");
  if (!on_gpu()) {
    CHECK(summary.at("frees") == summary.at("allocations"));
    CHECK(summary.at("object_frees") == summary.at("objects"));
  }
  CHECK(report.error_count() == 0);
}

}  // namespace culprit::test
