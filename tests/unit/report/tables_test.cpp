// Each row of a table of report/ has its words wherever a user meets it: a row that was added without them fails here.
#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "report/commands/commands.h"
#include "report/manual/manual.h"
#include "report/model/causes.h"
#include "report/render/formats.h"
#include "report/render/html/render_html.h"
#include "tests/catch.h"
#include "tests/support/pattern.h"
#include "tests/unit/report/fixture.h"
#include "tests/unit/report/shell.h"

using namespace culprit::report;
using namespace culprit::test;

namespace {

std::string text_of_file(const std::string& path_in_report) {
  std::ifstream file(std::string(CULPRIT_GOLDEN_DIR) + "/../../report/" + path_in_report);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  REQUIRE_FALSE(text.empty());
  return text;
}

std::string all_of_manual() {
  std::string text;
  for (const std::string& topic : manual_topics()) text += manual_page(topic);
  return text;
}

// The lines that begin with `begin`.
std::string lines_with(const std::string& text, const std::string& begin) {
  std::istringstream in(text);
  std::string found;
  for (std::string line; std::getline(in, line);) {
    if (line.compare(0, begin.size(), begin) == 0) found += line + "\n";
  }
  return found;
}

std::string page() {
  DumpBuilder dump;
  const FakeSymbols symbols;
  std::ostringstream out;
  render_html({report_of(dump, symbols)}, {}, out);
  return out.str();
}

std::string in_ticks(const std::string& name) { return "`" + name + "`"; }

}  // namespace

TEST_CASE("every cause has its words in the documents and in the page", "[report][tables]") {
  const std::string whole = page();
  const std::string begin = "<script type=\"application/json\" id=\"causes\">";
  const std::size_t from = whole.find(begin);
  REQUIRE(from != std::string::npos);
  const std::size_t to = whole.find("</script>", from);
  const nlohmann::json words = nlohmann::json::parse(whole.substr(from + begin.size(), to - from - begin.size()));
  const std::string counted = lines_with(text_of_file("manual/reading.md"), "| ");
  const std::string schema = text_of_file("SCHEMA.md");
  std::set<std::string> names;
  for (const Cause cause : kCauses) {
    const CauseRow& row = row_of(cause);
    INFO(row.name);
    CHECK(names.insert(row.name).second);
    CHECK(matches(row.name, "[a-z]+(-[a-z]+)*"));
    CHECK(matches(row.colour, "#[0-9a-f]{6}"));
    CHECK(matches(row.sentence, "Memory .*[^.]\\."));
    CHECK(words["causes"][row.name] == nlohmann::json{{"title", row.title}, {"running", row.title_while_running}});
    CHECK(matches(row.title, "[A-Z][a-z ]+"));
    CHECK(matches(row.title_while_running, "[A-Z][a-z ]+"));
    CHECK(has(whole, "\n.cause-" + std::string(row.name) + " { --fill: " + row.colour));
    CHECK(has(lines_with(schema, "**Cause**: "), in_ticks(row.name)));
    std::string title = row.title;
    for (char& c : title) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    CHECK(has(counted, in_ticks(title)));
  }
  CHECK(words["causes"].size() == std::size(kCauses));
}

TEST_CASE("every type of evidence has its words in the documents and in the page", "[report][tables][one-thread]") {
  const std::string whole = page();
  const std::string schema = text_of_file("SCHEMA.md");
  std::set<Cause> causes = {Cause::kCached, Cause::kNeverFreed};  // need no evidence
  std::set<std::string> names;
  for (const EvidenceType type : kEvidenceTypes) {
    const EvidenceRow& row = row_of(type);
    INFO(row.name);
    CHECK(names.insert(row.name).second);
    // The scripts of the page take the words from its data.
    CHECK_FALSE(has_match(whole, "(case|[!=]==) *\"" + std::string(row.name) + "\""));
    CHECK_FALSE(lines_with(schema, "| " + in_ticks(row.name) + " |").empty());
    if (row.cause != Cause::kNeverFreed) CHECK(row.label[0] != '\0');
    causes.insert(row.cause);
  }
  for (const Cause cause : kCauses) {
    INFO(cause_name(cause));
    CHECK(causes.count(cause) == 1);
  }
}

TEST_CASE("every format is in the help and in the documents", "[report][tables]") {
  const std::string help = shell("CULPRIT report --help 2>/dev/null").out;
  const std::string diff_help = shell("CULPRIT diff --help 2>/dev/null").out;
  const std::string table = lines_with(text_of_file("manual/ci.md"), "| `--format ");
  const std::vector<std::string> of_diff = diff_formats();
  for (const std::string& name : report_formats()) {
    INFO(name);
    const std::string word = "[ ,{]" + name + "[ ,;}]";
    CHECK(has_match(help, word));
    CHECK(has(table, "| `--format " + name + "`"));
    const bool for_diffs = std::find(of_diff.begin(), of_diff.end(), name) != of_diff.end();
    CHECK(has_match(lines_with(diff_help, "  --format"), word) == for_diffs);
    REQUIRE(find_format(name) != nullptr);
    CHECK(find_format(name)->write != nullptr);
    CHECK((find_format(name)->write_diff != nullptr) == for_diffs);
  }
}

TEST_CASE("every sub-command is in the help and in the documents", "[report][tables][one-thread]") {
  const std::string help = shell("CULPRIT --help 2>/dev/null").out;
  const std::string manual = all_of_manual();
  for (const Command& command : make_commands()) {
    const std::string& name = command.options.command();
    INFO(name);
    CHECK(has_match(help, "\n  " + name + " +" + command.options.help().substr(0, 20)));
    CHECK(has_match(manual, "culprit( -[-a-z]+)* " + name + "\\b"));
    const Finished own = shell("CULPRIT " + name + " --help 2>/dev/null");
    CHECK(own.exit_code == 0);
    CHECK(has(own.out, command.options.help()));
    CHECK(has(own.out, "Exit codes"));
  }
}
