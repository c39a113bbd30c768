// Every name that culprit did not make itself is poisoned: terminal escapes, bidi overrides and bytes that are no
// UTF-8, in all fields of all inputs, and the bytes of all formats and messages are looked at.
#include <algorithm>
#include <cstring>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "report/base/printable.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"
#include "tests/unit/report/fixture.h"
#include "tests/unit/report/hostile/elf_file.h"
#include "tests/unit/report/page_data.h"
#include "tests/unit/report/shell.h"

using namespace culprit::report;
using namespace culprit::format;
using namespace culprit::test;

namespace {

using Json = nlohmann::json;

// Each kind of poison stands after a 'P', so that it is found in a binary format, too.
const std::string kPoison = "P\x1b[31mP\x1b]0;tP\x07P\u009b31mP\u009d0;tP\u202eabP\u2066cP\xff-P\xc3-P\rP\x7fP\u2028P";
const std::string kShort = "P\x1b[1mP\u009b1P\u202eP\xffP";  // for fields of 16 bytes

template <std::size_t kSize>
void fill(const std::string& text, char (&field)[kSize]) {
  std::memset(field, 0, kSize);
  std::memcpy(field, text.data(), std::min(text.size(), kSize - 1));
}

// A dump whose every text is poison.
void poison(DumpBuilder* dump) {
  const Ref text = dump->add_string(kPoison);
  Header& header = dump->header();
  header.executable = dump->add_string("/bin/" + kPoison);
  header.command_line = dump->add_string(kPoison + std::string(1, '\0') + kPoison);
  dump->header().working_directory = text;
  dump->header().tool_version = text;
  dump->header().unseen_users = dump->add_string("\x01/lib/" + kPoison);
  dump->header().stop_reason = StopReason::kNoSpace;
  dump->header().dropped_allocations = 5;
  fill(kPoison, dump->header().host);
  DeviceRecord device = {};
  device.state = 1;
  fill(kPoison, device.name);
  device.first = device.peak = device.exit = {1, 100, 1000};
  dump->add_device(device);
  const std::uint32_t module = dump->add_module("/lib/" + kPoison + ".so", {}, 0);
  const std::uint32_t thread = dump->add_thread(7, kShort, ThreadState::kEnded);
  const Ref python = dump->add_python_frame("/src/" + kPoison + ".py", kPoison, 3);
  const Ref native = dump->add_stack({DumpBuilder::frame(module, 0x1000)});
  const Ref mixed = dump->add_stack({DumpBuilder::python_frame(python), DumpBuilder::frame(module, 0x2000)});
  const std::uint16_t api = dump->add_api("cu" + kPoison);
  const Ref mark = dump->add_mark(kPoison, MarkKind::kMark, 5);
  const Ref test = dump->add_mark("test: " + kPoison, MarkKind::kMark, 6);
  const Ref range = dump->add_mark(kPoison, MarkKind::kRange, 7);
  ThrowRecord thrown = {};
  thrown.state = 1;
  thrown.type = thrown.what = dump->add_string(kPoison);
  thrown.stack = thrown.catch_stack = native;
  thrown.flags = kThrowCaught;
  thrown.count = 1;
  thrown.first_ns = thrown.last_ns = 5;
  EvidenceRecord evidence = {};
  evidence.state = 1;
  evidence.thrown = dump->add_throw(thrown);
  evidence.thrown_owner = 1;
  const Ref why = dump->add_evidence(evidence);
  for (const Ref stack : {native, mixed}) {
    for (const Ref label : {dump->add_label(mark, range), dump->add_label(test, 0)}) {
      AllocationRecord record = live_allocation(stack, 4096);
      record.api = api;
      record.thread = thread;
      record.label = label;
      if (stack == native) record.evidence = why;
      dump->add_allocation(record);
    }
  }
  ErrorRecord error = {};
  error.state = 1;
  error.type = ErrorType::kDoubleFree;
  error.stack = error.allocation_stack = error.free_stack = native;
  error.api = api;
  error.count = 1;
  dump->add_error(error);
  FailedCallRecord failed = {};
  failed.state = 1;
  failed.api = api;
  failed.code = 201;
  failed.stack = native;
  failed.count = failed.bytes = 1;
  dump->add_failed_call(failed);
  BreakdownRecord breakdown = {};
  breakdown.state = 1;
  breakdown.reason = BreakdownReason::kOutOfMemory;
  breakdown.api = api;
  breakdown.stack = mixed;
  breakdown.asked_bytes = breakdown.live_bytes = 4096;
  breakdown.live_count = breakdown.times = 1;
  breakdown.shares[0] = {native, api, Kind::kDevice, 0, 4096, 1};
  dump->add_breakdown(breakdown);
}

// Whether all strings of the value are printable, or, for JSON that loses nothing, whether it has the poison.
void look_at(const Json& json, bool lossless, bool* poisoned) {
  if (json.is_structured()) {
    for (const Json& one : json) look_at(one, lossless, poisoned);
  } else if (json.is_string()) {
    std::string text = json.get<std::string>();
    if (text.find("P\x1b[31mP") != std::string::npos) *poisoned = true;
    text.erase(std::remove(text.begin(), text.end(), '\t'), text.end());
    if (!lossless) CHECK(printable_lines(text) == text);
  }
}

// The bytes of an output or a message: nothing that a terminal carries out, and valid UTF-8.
void check_bytes(std::string text) {
  text.erase(std::remove(text.begin(), text.end(), '\t'), text.end());
  const std::string clean = printable_lines(text);
  const auto at = std::mismatch(text.begin(), text.end(), clean.begin(), clean.end()).first - text.begin();
  INFO("at " << at << ": " << clean.substr(at < 80 ? 0 : static_cast<std::size_t>(at) - 80, 160));
  CHECK((text == clean));
}

void check_output(const std::string& format, const std::string& text) {
  INFO(format);
  CHECK(text.size() > 50);
  if (format == "pprof" || format == "perfetto" || format == "memory-viz") {
    for (const char* bad : {"P\x1b", "P\x07", "P\xc2\x9b", "P\xc2\x9d", "P\xe2\x80\xae", "P\xff", "P\xc3-", "P\x7f"}) {
      CHECK((text.find(bad) == std::string::npos));
    }
    CHECK((text.find("P?[31mP") != std::string::npos));
    return;
  }
  check_bytes(text);
  bool poisoned = false;
  if (format == "json") {
    look_at(Json::parse(text), true, &poisoned);
    CHECK(poisoned);
  } else if (format == "sarif") {
    look_at(Json::parse(text), false, &poisoned);
  } else if (format == "html") {
    look_at(Json::parse(page_data(text)), false, &poisoned);
  }
  if (format != "json") CHECK((text.find("P?[31m") != std::string::npos || text.find("P?\\[31m") != std::string::npos));
}

struct Poisoned {
  TemporaryFolder folder;
  std::string name = kPoison;
  std::string dump = folder.file(name + ".dump");

  Poisoned() {
    DumpBuilder builder;
    poison(&builder);
    builder.write(dump);
    // The view from inside Python, beside it.
    std::ofstream(dump + ".python.json") << Json{{"schema", name}}.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  std::string write(const std::string& file, const std::string& text) const {
    std::ofstream(folder.file(file)) << text;
    return folder.file(file);
  }
  static std::string quoted(const std::string& word) { return " '" + word + "' "; }
};

// Runs the command; its output and its messages must be harmless.
std::string checked(const std::string& command, int exit_code = 0) {
  INFO(printable(command));
  const Finished both = shell(command + " 2>&1");
  check_bytes(both.out);
  CHECK(both.exit_code == exit_code);
  return both.out;
}

}  // namespace

TEST_CASE("no format passes on what a dump poisons", "[report][poison]") {
  Poisoned files;
  for (const std::string format : {"text", "text --all --resources --strict --full-stacks", "text --at peak",
                                   "text --group-by thread", "text --group-by mark", "text --group-by library", "json",
                                   "html", "markdown", "sarif", "junit", "folded", "pprof", "perfetto", "memory-viz"}) {
    const std::string to = files.folder.file("out");
    const Finished run =
        shell("CULPRIT report --format " + format + " -o " + to + Poisoned::quoted(files.dump) + "2>&1");
    check_bytes(run.out);
    CHECK(run.exit_code == 0);
    check_output(format.substr(0, format.find(' ')), file_text(to));
    // The same on stdout.
    const Finished out = shell("CULPRIT report --format " + format + Poisoned::quoted(files.dump));
    check_output(format.substr(0, format.find(' ')), out.out);
  }
  checked("CULPRIT report --suggest-suppressions" + Poisoned::quoted(files.dump));
  checked("CULPRIT top" + Poisoned::quoted(files.dump));
}

TEST_CASE("no format passes on what programs and views from inside frameworks poison", "[report][poison]") {
  TemporaryFolder folder;
  // A symbol that cannot be printed, in a program with such a name and build ID.
  const std::string symbol = "symbol" + kPoison;
  const std::string program = folder.file("program" + kPoison);
  ElfFile file;
  file.add_symbols({ElfFile::kCode}, symbol);
  file.add_build_id("\x1b[31m\xff\x9b-12345678901");
  file.write(program);
  DumpBuilder builder;
  const std::uint32_t module = builder.add_module(program, {}, kModuleExecutable);
  const Ref native = builder.add_stack({DumpBuilder::frame(module, ElfFile::kCode + 1)});
  for (std::uint64_t i = 0; i < 4; ++i) {
    AllocationRecord record = live_allocation(native, 4096);
    record.handle = 0x10000 * (i + 1);
    builder.add_allocation(record);
  }
  BreakdownRecord breakdown = {};
  breakdown.state = 1;
  breakdown.reason = BreakdownReason::kOutOfMemory;
  builder.add_breakdown(breakdown);
  const std::string dump = folder.file("view" + kPoison + ".dump");
  builder.write(dump);
  const Json answers = {{"schema", "culprit.gpu/1"},
                        {"pid", builder.header().pid},
                        {"start_realtime_ns", builder.header().start_realtime_ns},
                        {"answers",
                         {{{"device", 0}, {"others", {{{"pid", 1}, {"name", "neighbour" + kPoison}, {"bytes", 5}}}}},
                          {{"device", 1}, {"problem", kPoison}}}}};
  std::ofstream(dump + ".gpu.json") << answers.dump(-1, ' ', false, Json::error_handler_t::replace);
  const auto in_view = [](const char* before) { return before + kPoison; };
  const Json view = {
      {"schema", "culprit.python/1"},
      {"taken", in_view("exit")},
      {"caches",
       {{{"framework", "torch"},
         {"segments",
          {{{"address", 0x10000},
            {"bytes", 4096},
            {"live_bytes", 100},
            {"blocks",
             {{{"address", 0x10000},
               {"bytes", 100},
               {"file", in_view("block")},
               {"line", 3},
               {"function", in_view("inside")}}}}}}}}}},
      {"pools", {{{"framework", "cupy"}, {"used_bytes", 1}, {"total_bytes", 2}}, {{"framework", in_view("pool")}}}},
      {"objects",
       {{{"address", 0x10000}, {"bytes", 10}, {"type", in_view("type")}, {"holders", {in_view("tensor")}}},
        {{"address", 0x20000}, {"bytes", 10}, {"type", in_view("type")}, {"holders", {in_view("holder")}}},
        {{"address", 0x30000}, {"bytes", 10}, {"type", "cupy." + kPoison}, {"holders", {in_view("array")}}}}}};
  std::ofstream(dump + ".python.json") << view.dump(-1, ' ', false, Json::error_handler_t::replace);
  for (const std::string format :
       {"text --all --full-stacks", "text --group-by function", "text --group-by library", "json", "html", "markdown",
        "sarif", "junit", "folded", "pprof", "perfetto", "memory-viz", "github", "gcc"}) {
    const Finished out = shell("CULPRIT report --format " + format + Poisoned::quoted(dump));
    CHECK(out.exit_code == 0);
    INFO(format);
    const std::string name = format.substr(0, format.find(' '));
    if (name == "github" || name == "gcc") {
      check_bytes(out.out);
    } else {
      check_output(name, out.out);
    }
    if (format != "text --group-by library") CHECK(has(out.out, name == "json" ? "symbolP\\u001b" : "symbolP"));
    if (format == "text --all --full-stacks") CHECK(has(out.out, "holderP"));
    if (format == "text --all --full-stacks") CHECK(has(out.out, "by 1 (neighbourP"));
  }
  // The commands read each other's output; their messages count, too.
  const std::string json = folder.file("new" + kPoison + ".json");
  const std::string job = folder.file("job" + kPoison + ".json");
  checked("CULPRIT -vv report --format json -o" + Poisoned::quoted(json) + Poisoned::quoted(dump));
  checked("CULPRIT -vv merge -o" + Poisoned::quoted(job) + Poisoned::quoted(dump));
  check_bytes(file_text(job));
  checked("CULPRIT diff" + Poisoned::quoted(json) + Poisoned::quoted(job));
  for (const char* by : {"stack", "function", "library", "thread", "device", "cause", "mark"})
    checked(std::string("CULPRIT top --group-by ") + by + Poisoned::quoted(dump));
  for (const char* format : {"text", "json", "html", "markdown", "sarif", "junit", "folded"}) {
    const Finished out = shell(std::string("CULPRIT report --format ") + format + Poisoned::quoted(job));
    CHECK(out.exit_code == 0);
    check_output(format, out.out);
  }
}

TEST_CASE("no sweep and no command line passes on what a program poisons", "[report][poison]") {
  const std::string name = Poisoned::quoted("name" + kPoison);
  for (const char* format : {"text", "json"}) {
    // Any file serves as the library: nothing is recorded.
    checked(std::string("CULPRIT_LIBRARY=" CULPRIT_COMMAND " CULPRIT sweep --format ") + format + " -- true" + name, 0);
    checked(std::string("CULPRIT_LIBRARY=" CULPRIT_COMMAND " CULPRIT run --format ") + format + " -- true" + name, 0);
    checked(std::string("CULPRIT_LIBRARY=" CULPRIT_COMMAND " CULPRIT sweep --format ") + format + " --" + name, 127);
    checked("HOSTNAME=" + name.substr(1) + "CULPRIT_LIBRARY=" + name.substr(1) + "CULPRIT run -- true", 3);
  }
  checked("CULPRIT attach" + name, 2);
  checked("CULPRIT start" + name, 2);
  checked("CULPRIT sweep --site" + name + "-- true", 2);
  checked("CULPRIT run --fail-call" + name + "-- true", 2);
}

TEST_CASE("no format passes on what a merged file poisons", "[report][poison]") {
  Poisoned files;
  const std::string job = files.folder.file("job.json");
  CHECK(checked("CULPRIT merge -o " + job + Poisoned::quoted(files.dump)).empty());
  std::string text = file_text(job);
  check_bytes(text);
  // Each string of the file, whether or not a dump could have had it.
  Json all = Json::parse(text);
  const std::set<std::string> names = {"cause", "type", "points_to", "ended", "state"};  // of causes and the like
  const std::function<void(Json*)> spoil = [&](Json* json) {
    if (json->is_object()) {
      for (auto& [key, value] : json->items()) {
        if (names.count(key) == 0) spoil(&value);
      }
    } else if (json->is_array()) {
      for (Json& one : *json) spoil(&one);
    } else if (json->is_string()) {
      *json = json->get<std::string>() + "P\x1b[31mP\u009b31mP\u202eP";
    }
  };
  for (const char* member : {"modules", "frames", "variables", "stacks"}) spoil(&all[member]);
  for (auto& [key, value] : all["report"].items()) spoil(&value);
  std::string order = R"({"schema":"culprit.merged/2")";
  for (const char* member : {"modules", "frames", "variables", "stacks", "report"})
    order += std::string(",\"") + member + "\":" + all[member].dump();
  files.write("job.json", order + "}");
  for (const std::string format : {"text --all", "text --group-by rank", "json", "html", "markdown", "sarif", "junit",
                                   "folded", "pprof", "perfetto"}) {
    const Finished out = shell("CULPRIT report --format " + format + " " + job);
    CHECK(out.exit_code == 0);
    check_output(format.substr(0, format.find(' ')), out.out);
  }
}

TEST_CASE("no diff passes on what reports and baselines poison", "[report][poison]") {
  Poisoned files;
  const std::string report = files.folder.file(files.name + ".json");
  const std::string baseline = files.folder.file(files.name + ".baseline");
  checked("CULPRIT report --format json -o" + Poisoned::quoted(report) + "--write-baseline" +
          Poisoned::quoted(baseline) + Poisoned::quoted(files.dump));
  check_bytes(file_text(baseline));
  Json known = Json::parse(file_text(baseline));
  for (Json& leak : known["leaks"]) {
    leak["comment"] = leak["where"] = leak["api"] = leak["cause"] = leak["kind"] = "P\x1b[31mP\u009b31mP\u202eP";
    leak["bytes"] = 1;
  }
  std::ofstream(baseline) << known.dump();
  Json grown = Json::parse(file_text(report));
  for (Json& leak : grown["leaks"]) leak["id"] = "P\x1b[31mP\u009b31mP\u202eP" + leak["id"].get<std::string>();
  std::ofstream(report) << grown.dump();
  for (const std::string& old : {report, baseline, files.dump}) {
    for (const char* format : {"text", "json", "html", "markdown"}) {
      const Finished out = shell(std::string("CULPRIT diff --all --format ") + format + Poisoned::quoted(old) +
                                 Poisoned::quoted(files.dump));
      INFO(format);
      CHECK(out.exit_code == 0);
      check_bytes(out.out);
      bool poisoned = false;
      if (std::string(format) == "html") look_at(Json::parse(page_data(out.out)), false, &poisoned);
    }
  }
  for (const char* format : {"text", "markdown", "html", "junit", "sarif"})
    checked(std::string("CULPRIT report --format ") + format + " --baseline" + Poisoned::quoted(baseline) +
                Poisoned::quoted(files.dump),
            4);  // the dump names libraries whose calls were not seen
}

TEST_CASE("no message passes on what names, lines and the environment poison", "[report][poison]") {
  Poisoned files;
  const std::string rules = files.folder.file(files.name + ".supp");
  std::ofstream(rules) << "leak:" << files.name << "\nmodule:" << files.name << "*\n";
  checked("CULPRIT report --suppressions" + Poisoned::quoted(rules) + Poisoned::quoted(files.dump));
  checked("CULPRIT_SUPPRESSIONS=" + Poisoned::quoted(rules).substr(1) + "CULPRIT report --format markdown" +
          Poisoned::quoted(files.dump));
  std::ofstream(rules) << files.name << ":x\n" << files.name << "\ncause:" << files.name << "\n";
  checked("CULPRIT report --suppressions" + Poisoned::quoted(rules) + Poisoned::quoted(files.dump), 3);
  const std::string missing = Poisoned::quoted(files.folder.file("missing" + files.name));
  checked("CULPRIT report" + missing, 3);
  checked("CULPRIT report --baseline" + missing + "x", 3);
  checked("CULPRIT diff" + missing + missing, 3);
  checked("CULPRIT merge" + missing + "-o x", 3);
  // Any file serves as the library: nothing is run.
  checked("CULPRIT_LIBRARY=" CULPRIT_COMMAND " CULPRIT run --" + missing, 127);
  checked("CULPRIT report --since-mark" + missing + Poisoned::quoted(files.dump), 3);
  checked("CULPRIT report -o" + Poisoned::quoted("/nonexistent/" + files.name) + Poisoned::quoted(files.dump), 3);
  checked("CULPRIT" + Poisoned::quoted(files.name), 2);
  checked("CULPRIT report --format" + Poisoned::quoted(files.name) + "x", 2);
  checked("CULPRIT top" + Poisoned::quoted(files.name), 3);
  std::ofstream(files.folder.file("bad")) << "{\"schema\":\"culprit.merged/2\",\"" << files.name;
  checked("CULPRIT report " + files.folder.file("bad"), 3);
  std::ofstream(files.folder.file("bad")) << "{\"schema\":\"" << files.name << "\", x";
  checked("CULPRIT report --baseline " + files.folder.file("bad") + " x", 3);
}
