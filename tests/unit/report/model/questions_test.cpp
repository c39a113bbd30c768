// Links from reports to the answers in examples/README.md lead to headings that exist.
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "report/findings/answers.h"
#include "report/model/questions.h"
#include "tests/catch.h"
#include "tests/support/text.h"
#include "tests/unit/report/fixture.h"

using namespace culprit::report;
using namespace culprit::test;

namespace {

std::string examples_readme() {
  std::ifstream file(std::string(CULPRIT_GOLDEN_DIR) + "/../../examples/README.md");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  REQUIRE_FALSE(text.empty());
  return text;
}

// The anchors of a document's headings: lower case, no punctuation, a dash for each blank.
std::set<std::string> anchors_in(const std::string& document) {
  std::set<std::string> anchors;
  std::istringstream lines(document);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t level = line.find_first_not_of('#');
    if (level == 0 || level == std::string::npos || line[level] != ' ') continue;
    std::string anchor;
    for (const char c : line.substr(level + 1)) {
      if (c == ' ') anchor += '-';
      if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-') anchor += c;
      if (c >= 'A' && c <= 'Z') anchor += static_cast<char>(c - 'A' + 'a');
    }
    anchors.insert(anchor);
  }
  return anchors;
}

}  // namespace

TEST_CASE("each link to an answer leads to a heading", "[report][questions]") {
  const std::string document = examples_readme();
  const std::set<std::string> anchors = anchors_in(document);
  for (const Question question : {
#define QUESTION(enumerator, heading) Question::enumerator,
#include "report/model/questions.def"
       }) {
    const std::string link = answer_link(question);
    INFO(link);
    const std::size_t hash = link.find('#');
    REQUIRE(hash != std::string::npos);
    CHECK(link.substr(0, hash) == "examples/README.md");
    CHECK(anchors.count(link.substr(hash + 1)) == 1);
  }
  // The links inside the document, too.
  for (std::size_t at = document.find("](#"); at != std::string::npos; at = document.find("](#", at + 1)) {
    const std::string anchor = document.substr(at + 3, document.find(')', at) - at - 3);
    INFO(anchor);
    CHECK(anchors.count(anchor) == 1);
  }
}

TEST_CASE("a stray context leads to the answer about GPUs", "[report][questions]") {
  Report report;
  static const ResolvedStack kUnknown;
  report.contexts.emplace_back().stack = &kUnknown;
  CHECK(answer_links(report).empty());
  report.contexts[0].stray = true;
  CHECK(answer_links(report) == std::vector<std::string>{answer_link(Question::kWhichGpu)});
}

TEST_CASE("a report links to the answers for what it shows", "[report][questions]") {
  Report report;
  CHECK(answer_links(report).empty());
  Group group;
  group.kind = culprit::format::Kind::kPinnedHost;
  report.leaks.push_back(group);
  group.kind = culprit::format::Kind::kDevice;
  group.device = 0;
  report.leaks.push_back(group);
  CHECK(answer_links(report) == std::vector<std::string>{answer_link(Question::kPinnedMemory)});
  group.device = 1;
  group.cause = Cause::kContextTeardown;
  report.leaks.push_back(group);
  report.summary.thread_ended_bytes = 1;
  CHECK(answer_links(report) ==
        std::vector<std::string>{answer_link(Question::kReset), answer_link(Question::kThreadEnd),
                                 answer_link(Question::kWhichGpu), answer_link(Question::kPinnedMemory)});
  DeviceInfo device;
  device.pool_reserved = std::uint64_t{65} << 20;
  device.pool_used = std::uint64_t{2} << 20;
  report.devices = {device};
  CHECK(answer_links(report).front() == answer_link(Question::kReset));
  report.devices[0].pool_used = std::uint64_t{1} << 20;
  CHECK(answer_links(report).front() == answer_link(Question::kMemoryNotCleared));
}
