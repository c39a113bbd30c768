// The columns of reports stay columns when names are Chinese, have combining marks or are emoji.
#include <sstream>

#include "report/base/text_width.h"
#include "report/render/render_markdown.h"
#include "report/render/text/render_text.h"
#include "report/select/render_options.h"
#include "tests/catch.h"
#include "tests/unit/report/fixture.h"

using namespace culprit::report;
using namespace culprit::format;
using namespace culprit::test;

namespace {

// Of functions, their files and their module, and of the thread.
const char* const kNames[] = {"plain", "割り当て", "e\u0301te\u0301", "\U0001f468\u200d\U0001f469\u200d\U0001f467",
                              "größe"};

std::string plain_text(const std::vector<Report>& reports) {
  std::ostringstream out;
  render_text(reports, {}, out);
  return out.str();
}

// The column at which `part` begins in the line of `text` that has it.
std::size_t column_in(const std::string& text, const std::string& part) {
  const std::size_t at = text.rfind(part);
  REQUIRE(at != std::string::npos);
  const std::size_t begin = text.rfind('\n', at) + 1;
  return columns_of(std::string_view(text).substr(begin, at - begin));
}

// A leak of a stack with a function and a file of each name.
Report leak_of_names() {
  Program program;
  std::vector<std::uint64_t> frames;
  std::uint64_t address = 0x100000;
  for (const char* name : kNames) {
    address += 0x1000;
    program.symbols.add("/bin/app", address, std::string("f_") + name, std::string("/src/") + name + ".cu", 7);
    frames.push_back(DumpBuilder::frame(program.module, address));
  }
  AllocationRecord record = live_allocation(program.dump.add_stack(frames), 1 << 20);
  record.thread = program.dump.add_thread(77, kNames[1]);
  program.dump.add_allocation(record);
  return program.report();
}

}  // namespace

TEST_CASE("functions stand in one column whatever their files are called", "[report][width]") {
  const std::string text = plain_text({leak_of_names()});
  INFO(text);
  const std::size_t column = column_in(text, "f_plain");
  for (const char* name : kNames) CHECK(column_in(text, std::string("f_") + name) == column);
  CHECK(text.find(std::string("\"") + kNames[1] + "\"") != std::string::npos);
}

TEST_CASE("functions of a markdown report stand in one column", "[report][width]") {
  std::ostringstream out;
  render_markdown({leak_of_names()}, {}, out);
  const std::size_t column = column_in(out.str(), "f_plain");
  for (const char* name : kNames) CHECK(column_in(out.str(), std::string("f_") + name) == column);
}

TEST_CASE("a command is cut between two characters", "[report][width]") {
  Report report = leak_of_names();
  std::string word;
  for (int i = 0; i < 100; ++i) word += kNames[3];
  report.process.command = {"x", word};
  const std::string text = plain_text({report});
  const std::string line = text.substr(0, text.find(" ["));
  CHECK(columns_of(line) == columns_of("culprit · x ") + 118 + 3);
  CHECK(line.substr(line.size() - 3) == "...");
  CHECK(line.find('?') == std::string::npos);
  // Not in the middle of the family: the last one is whole.
  const std::string family = kNames[3];
  CHECK(line.substr(line.size() - 3 - family.size(), family.size()) == family);
}
