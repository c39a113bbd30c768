// Small files that ask for much: within 10 seconds and 512 MiB each is reported or refused.
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "report/base/failure.h"
#include "report/base/file_error.h"
#include "report/base/json_input.h"
#include "report/base/parallel.h"
#include "report/select/suppressions.h"
#include "report/symbols/demangle.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/report/fixture.h"
#include "tests/unit/report/shell.h"
#include "tests/unit/sanitized.h"

using namespace culprit::report;
using namespace culprit::format;
using namespace culprit::test;

namespace {

// Of address space, which a test can limit; the 512 MiB that are promised are of memory in use. A sanitizer takes
// terabytes of addresses and many times the time.
constexpr const char* kLimited = kSanitized ? "timeout 200 " : "ulimit -v 900000; timeout 120 ";

struct DumpFiles {
  TemporaryFolder folder;
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder.file(name), std::ios::binary) << text;
    return folder.file(name);
  }
  std::string write(const std::string& name, DumpBuilder& dump) const {
    dump.write(folder.file(name));
    return folder.file(name);
  }
};

// Runs the command within the limits. Returns its exit code.
int report_within_limits(const std::string& path, const char* format) {
  INFO(format);
  const Finished run =
      shell(std::string(kLimited) + "CULPRIT report --format " + format + " -o /dev/null " + path + " 2>&1");
  INFO(run.out);
  CHECK((run.exit_code == 3 || run.exit_code == 0));
  CHECK_FALSE(has(run.out, "more memory"));
  return run.exit_code;
}

constexpr const char* kLargeFormats[] = {"text --all", "json", "html"};

void check_limits(const std::string& path) {
  for (const char* format : kLargeFormats) report_within_limits(path, format);
}

// A refused file has no report in any of them.
void check_refused(const std::string& path) {
  for (const char* format : kLargeFormats) CHECK(report_within_limits(path, format) == 3);
}

std::string repeated(const std::string& text, std::size_t times) {
  std::string result;
  for (std::size_t i = 0; i < times; ++i) result += text;
  return result;
}

// A C++ name of `doublings` types, each of which has the one before twice.
std::string exponential_name(int doublings) {
  const char* const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  std::string name = "_Z1f1A";
  std::string last = "S_";
  for (int i = 0; i < doublings; ++i) {
    // Each template-id adds the name of the template and itself to the substitutions.
    name += "1BI" + last + last + "E";
    last = std::string("S") + digits[2 * i + 1] + "_";
  }
  return name;
}

std::string merged_file(const std::string& report, const std::string& stacks = "[{}]") {
  return R"({"schema":"culprit.merged/2","modules":[],"frames":[],"variables":[],"stacks":)" + stacks +
         ",\"report\":{" + report + "}}";
}

}  // namespace

TEST_CASE("mangled names that double themselves stay mangled", "[report][hostile][limits]") {
  const auto begin = std::chrono::steady_clock::now();
  const std::string name = exponential_name(17);
  CHECK(name.size() < 300);
  CHECK(function_name(name.c_str()) == name);
  CHECK(type_name(name) == name);
  CHECK(function_name(("_ZN" + std::string(100000, '1') + "E").c_str()).size() <= 4096);
  CHECK((kSanitized || std::chrono::steady_clock::now() - begin < std::chrono::seconds(10)));
  // References as such are usual.
  CHECK(function_name("_Z1fNSt6vectorIiSaIiEEES1_S1_S1_S1_S1_S1_S1_S1_S1_S1_S1_S1_") == "f");
  CHECK(variable_name("_ZN1aILi1E1bS0_S0_S0_S0_S0_S0_S0_S0_S0_S0_E") != "");
}

TEST_CASE("hundreds of names that nearly double too often take seconds", "[report][hostile][limits]") {
  if (kSanitized) return;
  DumpFiles files;
  DumpBuilder dump;
  const std::uint32_t module = dump.add_module("/bin/app", {}, kModuleExecutable);
  const Ref stack = dump.add_stack({DumpBuilder::frame(module, 0x1000)});
  for (int i = 0; i < 20000; ++i) {
    ThrowRecord thrown = {};
    thrown.state = 1;
    thrown.type = dump.add_string(exponential_name(13 + i % 2).substr(4) + std::to_string(i));
    thrown.stack = thrown.catch_stack = stack;
    thrown.flags = kThrowCaught;
    thrown.count = 1;
    EvidenceRecord evidence = {};
    evidence.state = 1;
    evidence.thrown = dump.add_throw(thrown);
    evidence.thrown_owner = 1;
    AllocationRecord record = live_allocation(stack, 4096);
    record.evidence = dump.add_evidence(evidence);
    dump.add_allocation(record);
  }
  check_limits(files.write("names.dump", dump));
  // In this process, without a dump: the names that fit are demangled, until the time is over.
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 2000; ++i) function_name(exponential_name(14).c_str());
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(60));
  CHECK(function_name("_ZN3app4stepEv") == "app::step");
}

TEST_CASE("views from inside a framework are bounded", "[report][hostile][limits]") {
  DumpFiles files;
  DumpBuilder dump;
  const std::uint32_t module = dump.add_module("/bin/app", {}, kModuleExecutable);
  const Ref stack = dump.add_stack({DumpBuilder::frame(module, 0x1000)});
  for (int i = 0; i < 50000; ++i) {
    AllocationRecord record = live_allocation(stack, 4096);
    record.handle = 4096;
    dump.add_allocation(record);
  }
  const std::string path = files.write("view.dump", dump);
  const auto view = [&](const std::string& members) {
    files.write("view.dump.python.json", R"({"schema":"culprit.python/1","taken":"exit",)" + members + "}");
    check_limits(path);
  };
  SECTION("with many lists") { view("\"objects\":[{}" + repeated(",{}", 3300000) + "]"); }
  SECTION("with many pools and objects") {
    view("\"pools\":[{\"framework\":\"x\"}" + repeated(R"(,{"framework":"cupy"})", 220000) +
         R"(],"objects":[{"address":4096})" + repeated(R"(,{"address":4096,"holders":["h"],"type":"cupy.a"})", 100000) +
         "]");
  }
  SECTION("with many blocks and objects without holders") {
    view(R"("caches":[{"framework":"torch","segments":[{"address":4096,"bytes":4096,"blocks":[{})" +
         repeated(R"(,{"address":4096,"bytes":1000000})", 130000) + R"(]}]}],"objects":[{"address":4097})" +
         repeated(R"(,{"address":4097})", 270000) + "]");
  }
  SECTION("with many segments at one place") {
    view(R"("caches":[{"framework":"torch","segments":[{"address":4096,"bytes":4096})" +
         repeated(R"(,{"address":4096,"bytes":4096})", 300000) + "]}]");
  }
}

TEST_CASE("stacks that overlap are not multiplied", "[report][hostile][limits]") {
  DumpFiles files;
  DumpBuilder dump;
  const std::uint32_t module = dump.add_module("/bin/app", {}, kModuleExecutable);
  // Words that are frames, and at the same time headers of stacks that reach to the end.
  std::vector<std::uint64_t> words;
  for (std::uint32_t i = 0; i < 60000; ++i) words.push_back(DumpBuilder::frame(module, 0x1000 + 8 * i));
  const Ref first = dump.add_stack(words);
  std::vector<Ref> stacks;
  for (std::uint32_t i = 2; i < 40000; i += 2) {
    auto* header = reinterpret_cast<StackRecord*>(const_cast<char*>(dump.bytes().data()) + first * kRefUnit) + 0;
    auto* word = reinterpret_cast<char*>(header) + sizeof(StackRecord) + (i - 2) * 8;
    StackRecord record = {};
    record.frame_count = 20000;
    // Overlapping headers take turns: each is written over the frames of the one before.
    if (reinterpret_cast<std::uintptr_t>(word) % kRefUnit != 0) continue;
    std::memcpy(word, &record, sizeof(record));
    stacks.push_back(first + static_cast<Ref>((sizeof(StackRecord) + (i - 2) * 8) / kRefUnit));
  }
  REQUIRE(stacks.size() > 1000);
  for (const Ref stack : stacks) dump.add_allocation(live_allocation(stack, 4096));
  check_limits(files.write("stacks.dump", dump));
  const Finished text = shell("CULPRIT report " + files.folder.file("stacks.dump"));
  CHECK(has(text.out, "the dump is damaged"));
}

TEST_CASE("strings that overlap are not multiplied", "[report][hostile][limits]") {
  DumpFiles files;
  DumpBuilder dump;
  const std::string name(1 << 20, 'n');
  const Ref text = dump.add_string(name);
  for (unsigned i = 0; i < 8000; ++i) {
    const Ref mark = dump.add_mark("m", MarkKind::kMark, i);
    auto* made = reinterpret_cast<MarkRecord*>(const_cast<char*>(dump.bytes().data()) + std::size_t{mark} * kRefUnit);
    made->name = text;
    const Ref frame = dump.add_python_frame("f", "f", i);
    auto* python =
        reinterpret_cast<PythonFrameRecord*>(const_cast<char*>(dump.bytes().data()) + std::size_t{frame} * kRefUnit);
    python->file = python->function = text;
    dump.add_allocation(live_allocation(dump.add_stack({DumpBuilder::python_frame(frame)}), 4096));
  }
  check_limits(files.write("strings.dump", dump));
  CHECK(has(shell("CULPRIT report " + files.folder.file("strings.dump")).out, "its texts overlap"));
}

TEST_CASE("one long stack is not shown for each of a thousand leaks", "[report][hostile][limits]") {
  DumpFiles files;
  DumpBuilder dump;
  const Ref frame = dump.add_python_frame(std::string(1000, 'f') + ".py", std::string(1000, 'g'), 7);
  const Ref stack = dump.add_stack(std::vector<std::uint64_t>(50000, DumpBuilder::python_frame(frame)));
  for (const Kind kind : {Kind::kDevice, Kind::kManaged, Kind::kPinnedHost}) {
    for (unsigned device = 0; device < 250; ++device) {
      AllocationRecord record = live_allocation(stack, 4096, kind);
      record.device = static_cast<std::uint8_t>(device);
      dump.add_allocation(record);
    }
  }
  check_limits(files.write("long.dump", dump));
  CHECK(has(shell("CULPRIT report " + files.folder.file("long.dump")).out, "many times larger than the dump"));
  std::string leaks;
  for (int i = 0; i < 1000; ++i)
    leaks += (i == 0 ? "" : ",") + std::string(R"({"stack":1,"cause":"never-freed","shares":[0,1,1],"api":")") +
             std::to_string(i) + "\"}";
  const std::string job =
      files.write("job.json", R"({"schema":"culprit.merged/2","modules":[],"frames":[{"function":"f"}],"variables":[],)"
                              R"("stacks":[{"frames":[1)" +
                                  repeated(",1", 50000) +
                                  R"(]}],"report":{"processes":[{"ended":"unknown"}],"leaks":[)" + leaks + "]}}");
  check_limits(job);
  CHECK(has(shell("CULPRIT report " + job + " 2>&1").out, "many times larger"));
}

TEST_CASE("merged files with more objects than text are refused", "[report][hostile][limits]") {
  DumpFiles files;
  for (const char* list : {"devices", "processes", "marks", "leaks", "pictures", "errors", "unseen", "notes"}) {
    INFO(list);
    check_refused(
        files.write("many.json", merged_file("\"" + std::string(list) + "\":[{}" + repeated(",{}", 3000000) + "]")));
  }
  check_limits(files.write(
      "evidence.json",
      merged_file(R"("processes":[{"ended":"unknown"}],"leaks":[{"stack":1,"shares":[0,1,1],"evidence":[{"stack":1})" +
                  repeated(R"(,{"stack":1})", 800000) + "]}]")));
  check_limits(files.write("stacks.json", merged_file("\"processes\":[{}]", "[{}" + repeated(",{}", 3000000) + "]")));
}

TEST_CASE("JSON of endless depth is refused", "[report][hostile][limits]") {
  DumpFiles files;
  for (const std::string& beginning : {std::string("{\"schema\":\"culprit.merged/2\",\"x\":"), std::string()}) {
    const std::string file = files.write("deep.json", beginning + repeated("[", 9000000));
    const Finished diff = shell(std::string(kLimited) + "CULPRIT diff " + file + " " + file + " 2>&1");
    CHECK(diff.exit_code == 3);
    CHECK_FALSE(has(diff.out, "more memory"));
    CHECK(shell(std::string(kLimited) + "CULPRIT report --baseline " + file + " x 2>&1").exit_code == 3);
  }
  std::string problem;
  CHECK(parse_json(repeated("[", 101) + repeated("]", 101), &problem).is_discarded());
  CHECK(problem == "its lists are nested too deeply");
  CHECK(parse_cbor(repeated("\x81", 99) + "\x80").is_array());
  CHECK(parse_cbor(repeated("\x81", 1000000)).is_discarded());
  CHECK(parse_cbor("\xbb\xff\xff\xff\xff\xff\xff\xff\xfe").is_discarded());
  CHECK_FALSE(parse_json(R"({"a": "[[[[[[[[[[[[[[\"]"})").is_discarded());
}

TEST_CASE("suppressions are bounded in number and length", "[report][hostile][limits]") {
  DumpFiles files;
  const std::string many = files.write("many.supp", repeated("leak:a\n", 1000000));
  CHECK_THROWS_WITH(Suppressions().read(many), Catch::Contains("more than 10000 rules"));
  const std::string lengthy = files.write("long.supp", "leak:" + repeated("*a", 3000) + "\n");
  CHECK_THROWS_WITH(Suppressions().read(lengthy), Catch::Contains("longer than 4096 characters"));
  const std::string wrong = files.write("wrong.supp", repeated("x\n", 4000000));
  try {
    Suppressions().read(wrong);
    FAIL("it was taken");
  } catch (const FileError& error) {
    CHECK(std::strlen(error.what()) < 100000);
  }
}

TEST_CASE("a lack of memory is an error message in every command", "[report][hostile][limits]") {
  if (kSanitized) return;
  DumpFiles files;
  const std::string huge = files.folder.file("huge");
  std::ofstream(huge) << "{\"schema\":\"culprit.merged/2\"";
  REQUIRE(::truncate(huge.c_str(), 3LL << 30) == 0);
  for (const std::string& command :
       {"CULPRIT report --suppressions " + huge + " x", "CULPRIT report --baseline " + huge + " x",
        "CULPRIT report " + huge, "CULPRIT report --jobs 4 " + huge + " " + huge + " " + huge,
        "CULPRIT merge " + huge + " -o " + files.folder.file("out"), "CULPRIT diff " + huge + " " + huge,
        "CULPRIT run --baseline " + huge + " -- true"}) {
    INFO(command);
    const Finished run = shell("ulimit -v 1000000; timeout 120 " + command + " 2>&1");
    INFO(run.out);
    CHECK(run.exit_code == 3);
    CHECK(has(run.out, "more memory is needed than there is"));
  }
}

TEST_CASE("an exception of a thread reaches the caller", "[report][hostile][limits]") {
  CHECK_THROWS_AS(parallel_for(100000,
                               [](std::size_t i) {
                                 if (i == 77777) throw std::bad_alloc();
                               }),
                  std::bad_alloc);
  std::ostringstream out;
  CHECK_THROWS_AS(write_in_order(100000, out,
                                 [] {
                                   return [](std::size_t i, std::string* text) {
                                     if (i == 50000) throw std::length_error("x");
                                     *text += 'x';
                                   };
                                 }),
                  std::length_error);
  CHECK(has(failure_text(std::length_error("x")), "more memory"));
  CHECK(failure_text(std::runtime_error("a\x1b")) == "a?");
  CHECK(std::string(failure_words(std::bad_alloc())) == kNoMemory);
}

TEST_CASE("ten thousand suppressions on deep stacks take seconds", "[report][hostile][limits]") {
  const DumpFiles files;
  // A merged file of 1,500 functions and as many modules with long names in common, and 15,000 leaks of 50 of them.
  nlohmann::json frames = nlohmann::json::array();
  nlohmann::json modules = nlohmann::json::array();
  for (int i = 0; i < 1500; ++i) {
    nlohmann::json frame = nlohmann::json::object();
    frame["function"] = "company::project::detail::solver_step_" + std::to_string(i * 7919 % 100000);
    frame["module"] = i + 1;
    frames.push_back(frame);
    const std::string name = "libcompany_project_detail_solver_" + std::to_string(i) + ".so";
    modules.push_back(nlohmann::json::object({{"name", name}, {"path", "/opt/" + name}, {"state", "found"}}));
  }
  std::string stacks;
  std::string leaks;
  for (int i = 0; i < 15000; ++i) {
    std::string list;
    for (int k = 0; k < 50; ++k) list += (k == 0 ? "" : ",") + std::to_string((i * 31 + k * 17) % 1500 + 1);
    stacks += (i == 0 ? "" : ",") + ("{\"frames\":[" + list + "]}");
    leaks += (i == 0 ? "" : ",") + ("{\"stack\":" + std::to_string(i + 1)) +
             R"(,"cause":"never-freed","bytes":1000,"count":1,"shares":[0,1000,1],"api":"a"})";
  }
  const std::string path =
      files.write("job.json", R"({"schema":"culprit.merged/2","modules":)" + modules.dump() +
                                  ",\"frames\":" + frames.dump() + ",\"variables\":[],\"stacks\":[" + stacks +
                                  R"(],"report":{"processes":[{"ended":"unknown"}],"leaks":[)" + leaks + "]}}");
  for (const char* prefix :
       {"leak:q", "leak:project*q", "module:q", "module:project*q", "module:^libcompany*solver*q"}) {
    std::string rules;
    for (int i = 0; i < 9998; ++i) rules += prefix + std::to_string(i) + "\n";
    rules += "leak:solver_step_7919$\n";
    const Finished run = shell(std::string(kLimited) + "CULPRIT report --suppressions " +
                               files.write("many.supp", rules) + " --format json -o /dev/null " + path + " 2>&1");
    INFO(prefix << ": " << run.out.substr(0, 1000));
    CHECK(run.exit_code == 4);  // no call of CUDA
  }
  // Patterns that nearly match everywhere are refused, not tried for hours.
  std::string rules;
  for (int i = 0; i < 9998; ++i) rules += "leak:e*e*" + repeated("t*", 1 + i % 1000) + "z\n";
  const Finished run = shell(std::string(kLimited) + "CULPRIT report --suppressions " +
                             files.write("slow.supp", rules) + " --format json -o /dev/null " + path + " 2>&1");
  CHECK((run.exit_code == 4 || has(run.out, "take too long")));
}
