// culprit diff: dumps, JSON reports and baselines, each with each.
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "report/render/html/render_diff_html.h"
#include "report/render/json/render_diff_json.h"
#include "report/render/json/render_json.h"
#include "report/render/text/render_diff.h"
#include "report/select/diff.h"
#include "report/select/render_options.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"
#include "tests/unit/report/fixture.h"
#include "tests/unit/report/golden.h"
#include "tests/unit/report/page_data.h"
#include "tests/unit/report/shell.h"

using namespace culprit::report;
using namespace culprit::format;
using namespace culprit::test;

namespace {

// A program that leaks these sizes in these functions.
std::vector<Report> leaks_of(const std::vector<std::pair<std::string, std::uint64_t>>& leaks) {
  Program program;
  for (const auto& [function, bytes] : leaks)
    program.dump.add_allocation(live_allocation(program.stack({function, "main"}), bytes));
  std::vector<Report> reports;
  reports.push_back(program.report());
  return reports;
}

struct DiffFiles {
  TemporaryFolder folder;
  std::string path(const char* name) const { return folder.file(name); }
  void write(const char* name, const std::string& text) const { std::ofstream(path(name)) << text; }
  void write_json(const char* name, const std::vector<Report>& reports) const {
    std::ofstream file(path(name));
    render_json(reports, file);
  }
  // Two dumps without stacks: 1 leak, and one of another kind beside it.
  DiffFiles() {
    DumpBuilder dump;
    dump.add_allocation(live_allocation(0, 11001));
    dump.write(path("old.dump"));
    dump.add_allocation(live_allocation(0, 64, Kind::kManaged));
    dump.write(path("new.dump"));
  }
};

const std::vector<Report> kBefore = leaks_of({{"same", 1000}, {"grows", 2000}, {"shrinks", 3000}, {"goes", 4000}});
const std::vector<Report> kNow = leaks_of({{"same", 1000}, {"grows", 2500}, {"shrinks", 300}, {"comes", 7000}});

// kNow against kBefore, which is in a file of the given form; with fixed file names.
Diff diff_against(const DiffFiles& files, bool baseline) {
  const std::string old_file = files.path(baseline ? "old.baseline" : "old.json");
  if (baseline) {
    Baseline commented = baseline_of(kBefore, false);
    for (auto& [id, leak] : commented.leaks) leak.comment = "known since <May>";
    write_baseline(old_file, commented);
  } else {
    files.write_json("old.json", kBefore);
  }
  files.write_json("new.json", kNow);
  Diff diff =
      diff_of(read_leak_list(old_file, LoadOptions()), read_leak_list(files.path("new.json"), LoadOptions()), Growth());
  diff.before.path = baseline ? "leaks.baseline" : "/nightly/monday.json";
  diff.now.path = "/nightly/tuesday.json";
  return diff;
}

template <typename Render>
std::string rendered(Render render) {
  std::ostringstream out;
  render(out);
  return out.str();
}

std::string functions(const Diff& diff, Change change) {
  std::string text;
  for (const DiffEntry& entry : diff.with(change)) text += entry.shown().leak.where + ";";
  return text;
}

}  // namespace

TEST_CASE("a diff tells new from grown from shrunk from gone", "[report][diff]") {
  DiffFiles files;
  files.write_json("old.json", kBefore);
  files.write_json("new.json", kNow);
  write_baseline(files.path("old.baseline"), baseline_of(kBefore, false));
  write_baseline(files.path("new.baseline"), baseline_of(kNow, false));
  const LoadOptions options;
  for (const char* before : {"old.json", "old.baseline"}) {
    for (const char* now : {"new.json", "new.baseline"}) {
      INFO(before << " " << now);
      auto compared = [&](const Growth& allowed) {
        return diff_of(read_leak_list(files.path(before), options), read_leak_list(files.path(now), options), allowed);
      };
      const Diff diff = compared({});
      CHECK(functions(diff, Change::kNew) == "comes in app;");
      CHECK(functions(diff, Change::kGrown) == "grows in app;");
      CHECK(functions(diff, Change::kShrunk) == "shrinks in app;");
      CHECK(functions(diff, Change::kGone) == "goes in app;");
      CHECK(functions(diff, Change::kSame) == "same in app;");
      CHECK(diff.with(Change::kShrunk)[0].difference() == 2700);
      CHECK(diff.before.bytes() == 10000);
      CHECK(diff.now.bytes() == 10800);
      CHECK(functions(compared({50, 0}), Change::kGrown).empty());
    }
  }
}

TEST_CASE("the diff of a run with itself is empty", "[report][diff]") {
  DiffFiles files;
  files.write_json("a.json", kBefore);
  for (const char* file : {"a.json", "new.dump"}) {
    const Finished finished = shell("CULPRIT diff --fail-on new " + files.path(file) + " " + files.path(file));
    CHECK(finished.exit_code == 0);
    CHECK(has(finished.out, std::string("\nNOTHING NEW OR GROWN, ") + (file[0] == 'a' ? "4" : "2") + " unchanged · "));
  }
}

TEST_CASE("the headline of a diff says bad things first, and no number that is 0", "[report][diff][headline]") {
  DiffFiles files;
  const std::vector<Report> gone = leaks_of({{"same", 1000}});
  files.write_json("before.json", kBefore);
  files.write_json("gone.json", gone);
  files.write_json("none.json", leaks_of({}));
  files.write_json("grown.json", leaks_of({{"same", 2000}}));
  std::vector<Report> unknown = leaks_of({{"same", 1000}});
  unknown[0].not_joined.emplace_back("a rank is missing");
  files.write_json("unknown.json", unknown);
  struct Row {
    const char* before;
    const char* now;
    const char* text;
    const char* markdown;
  };
  const Row rows[] = {
      {"gone.json", "before.json", "3 new, 1 unchanged · leaked", "### 3 new\n"},
      {"gone.json", "grown.json", "1 grown · leaked", "### 1 grown\n"},
      {"before.json", "gone.json", "NOTHING NEW OR GROWN, 3 gone, 1 unchanged · leaked",
       "### Nothing new or grown, 3 gone\n"},
      {"none.json", "none.json", "NOTHING NEW OR GROWN · leaked", "### Nothing new or grown\n"},
      {"gone.json", "unknown.json",
       "NOT KNOWN: nothing new or grown among the recorded allocations, 1 unchanged · leaked",
       "### Not known; nothing new or grown among the recorded allocations\n"},
      {"none.json", "unknown.json", "1 new · NOT KNOWN what else · leaked", "### 1 new, not known what else\n"},
  };
  for (const Row& row : rows) {
    INFO(row.before << " " << row.now);
    const std::string both = files.path(row.before) + " " + files.path(row.now);
    const std::string text = shell("CULPRIT diff " + both).out;
    CHECK(has(text, std::string("\n") + row.text));
    CHECK((std::string(row.now) != "unknown.json" || text.rfind("NOT KNOWN: ", 0) == 0));
    CHECK(shell("CULPRIT diff --format markdown " + both).out.rfind(row.markdown, 0) == 0);
  }
}

TEST_CASE("a diff has the words of its sources", "[report][diff]") {
  DiffFiles files;
  files.write_json("old.json", kBefore);
  files.write_json("new.json", kNow);
  const std::string both = files.path("old.json") + " " + files.path("new.json");
  const std::string text = shell("CULPRIT diff " + both).out;
  CHECK(has(text, "1 new, 1 grown, 1 shrunk, 1 gone, 1 unchanged · leaked 9.77 KiB, then 10.5 KiB (+800 B)"));
  CHECK(has(text, "NEW\n\n1  6.84 KiB  1x"));
  CHECK(has(text, "allocated  app.cu:10  comes\n              app.cu:10  main"));
  CHECK(has(text, "1.95 KiB -> 2.44 KiB  1x"));
  const std::string markdown = shell("CULPRIT diff --format markdown " + both).out;
  CHECK(has(markdown, "### 1 new, 1 grown, 1 shrunk, 1 gone"));
  CHECK(has(markdown, "| 1.95 KiB → 2.44 KiB | 1x | app.cu:10 grows |"));
  const auto json = nlohmann::json::parse(shell("CULPRIT diff --format json " + both).out);
  CHECK(json["schema"] == "culprit.diff/1");
  CHECK(json["summary"]["unchanged"] == 1);
  REQUIRE(json["changes"].size() == 4);
  CHECK(json["changes"][0]["change"] == "new");
  CHECK(json["changes"][0]["old"].is_null());
  CHECK(json["changes"][0]["stack"][0]["function"] == "comes");
  CHECK(json["changes"][1]["old"]["bytes"] == 2000);
  CHECK(json["changes"][1]["new"]["bytes"] == 2500);
}

TEST_CASE("dumps are compared with the other forms of themselves", "[report][diff]") {
  DiffFiles files;
  auto diff = [&](const std::string& before, const std::string& now) {
    const Finished finished =
        shell("CULPRIT diff --format json --fail-on new " + files.path(before.c_str()) + " " + files.path(now.c_str()));
    const auto json = nlohmann::json::parse(finished.out);
    return std::to_string(finished.exit_code) + " " + json["summary"]["new"].dump() + " " +
           json["summary"]["gone"].dump() + " " + json["summary"]["unchanged"].dump();
  };
  shell("CULPRIT report --format json -o " + files.path("old.json") + " " + files.path("old.dump"));
  shell("CULPRIT report --write-baseline " + files.path("old.baseline") + " " + files.path("old.dump"));
  for (const char* before : {"old.dump", "old.json", "old.baseline"}) {
    INFO(before);
    CHECK(diff(before, "new.dump") == "1 1 0 1");
    CHECK(diff("new.dump", before) == "0 0 1 1");
  }
  // Several processes in one report count as one side.
  shell("CULPRIT report --format json -o " + files.path("both.json") + " " + files.path("old.dump") + " " +
        files.path("old.dump"));
  const auto json = nlohmann::json::parse(
      shell("CULPRIT diff --format json " + files.path("old.dump") + " " + files.path("both.json")).out);
  CHECK(json["summary"]["grown"] == 1);
  CHECK(json["new"]["leaked_bytes"] == 22002);
}

TEST_CASE("a file that cannot be compared is named", "[report][diff]") {
  DiffFiles files;
  const std::string good = files.path("old.dump");
  files.write("text", "hello");
  files.write("other.json", "{\"schema\": \"culprit.sweep/1\"}");
  files.write("damaged.json", "{\"schema\": \"culprit.report/1\", \"leaks\": [{\"id\": 5, \"cause\": \"held\"}]}");
  files.write("inner.json", "{\"schema\": \"culprit.reports/1\", \"reports\": [{\"schema\": \"x\", \"leaks\": []}]}");
  files.write("short.dump", "CULPRIT\nand no more");
  files.write("empty", "");
  for (const char* bad : {"text", "other.json", "damaged.json", "inner.json", "short.dump", "empty", "none", "."}) {
    INFO(bad);
    for (const std::string& both : {files.path(bad) + " " + good, good + " " + files.path(bad)}) {
      const Finished finished = shell("CULPRIT diff " + both + " 2>&1");
      CHECK(finished.exit_code == 3);
      CHECK(has(finished.out, files.path(bad)));
    }
  }
  CHECK(shell("CULPRIT diff " + good + " 2>&1").exit_code == 2);
  CHECK(shell("CULPRIT diff --allow-growth ten " + good + " " + good + " 2>&1").exit_code == 2);
  CHECK(shell("CULPRIT diff --fail-on leaks " + good + " " + good + " 2>&1").exit_code == 2);
}

TEST_CASE("golden: a diff in all formats", "[report][diff][golden]") {
  const DiffFiles files;
  const Diff diff = diff_against(files, false);
  const RenderOptions options;
  check_golden("diff.txt", rendered([&](std::ostream& out) { render_diff_text(diff, options, out); }));
  check_golden("diff.md", rendered([&](std::ostream& out) { render_diff_markdown(diff, options, out); }));
  check_golden("diff.json", rendered([&](std::ostream& out) { render_diff_json(diff, out); }));
  const std::string page = rendered([&](std::ostream& out) { render_diff_html(diff, out); });
  CHECK(has(page, "<title>1 new, 1 grown, 1 shrunk, 1 gone · tuesday.json"));
  check_golden("diff.page.json", page_data(page));
}

TEST_CASE("the page of a diff has what a baseline knows", "[report][diff][html]") {
  const DiffFiles files;
  const Diff diff = diff_against(files, true);
  const auto data = nlohmann::json::parse(page_data(rendered([&](std::ostream& out) { render_diff_html(diff, out); })));
  CHECK(data["view"] == "diff");
  REQUIRE(data["changes"].size() == 5);  // including the unchanged one
  CHECK(data["changes"][0]["old_stack"].is_null());
  CHECK_FALSE(data["changes"][0].contains("comment"));
  CHECK(data["changes"][1]["old_stack"].is_null());
  CHECK(data["changes"][1]["stack"].size() == 2);
  CHECK(data["changes"][1]["comment"] == "known since <May>");
  CHECK(data["changes"][3]["stack"].is_null());
}

TEST_CASE("the pages of diffs that the browser test looks at", "[.pages]") {
  const char* folder = std::getenv("CULPRIT_PAGES");
  REQUIRE(folder != nullptr);
  const DiffFiles files;
  for (const bool baseline : {false, true}) {
    std::ofstream file(std::string(folder) + (baseline ? "/diff_baseline.html" : "/diff.html"));
    Diff diff = diff_against(files, baseline);
    const auto keeper = [&](const char* path, const char* id, std::uint64_t before, std::uint64_t now) {
      GrownKeeper grown;
      grown.keeper.kind = KeeperKind::kVariable;
      grown.keeper.path = path;
      grown.keeper.id = id;
      grown.before = before;
      grown.now = now;
      diff.keepers.push_back(grown);
    };
    if (!baseline) {
      keeper("`losses`, a list of <b>20</b>", "00000000000000aa", 0, 513 << 20);
      keeper("`history`", "00000000000000bb", 64 << 20, 128 << 20);
      keeper("`last_error`", "00000000000000cc", 3 << 20, 0);
    }
    render_diff_html(diff, file);
  }
}
