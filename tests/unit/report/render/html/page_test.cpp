// HTML reports: the content of the page. tests/browser tests it with a browser, on the pages that "[.pages]" writes.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "report/merge/report_merger.h"
#include "report/render/html/render_html.h"
#include "report/select/render_options.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"
#include "tests/unit/report/fixture.h"
#include "tests/unit/report/page_data.h"

using namespace culprit::report;
using namespace culprit::format;
using namespace culprit::test;

namespace {

std::string page_of(const std::vector<Report>& reports, const RenderOptions& options = {}) {
  std::ostringstream out;
  render_html(reports, options, out);
  return out.str();
}

constexpr char kHostile[] = "</script><script>window.hacked=1</script><!--\"'><img src=x onerror=\"window.hacked=1\">";

// A program all of whose names try to become markup.
Report hostile_report() {
  DumpBuilder dump;
  FakeSymbols symbols;
  const Ref text = dump.add_string(kHostile);
  dump.header().executable = text;
  dump.header().command_line = text;
  dump.header().working_directory = text;
  const std::uint32_t module = dump.add_module(kHostile, {}, kModuleExecutable);
  symbols.add(kHostile, 0x1000, kHostile, kHostile, 7);
  const Ref stack = dump.add_stack({DumpBuilder::frame(module, 0x1000)});
  AllocationRecord record = live_allocation(stack, 4096);
  record.api = dump.add_api("<b>cuMemAlloc");
  record.thread = dump.add_thread(1, "<i>\"thread'");
  ThrowRecord thrown = {};
  thrown.state = 1;
  thrown.type = thrown.what = text;
  thrown.stack = thrown.catch_stack = stack;
  thrown.count = 1;
  thrown.flags = kThrowCaught;
  thrown.first_ns = thrown.last_ns = 5;
  EvidenceRecord evidence = {};
  evidence.state = 1;
  evidence.thrown = dump.add_throw(thrown);
  evidence.thrown_owner = 1;
  record.evidence = dump.add_evidence(evidence);
  dump.add_allocation(record);
  return report_of(dump, symbols);
}

void add_two_devices(DumpBuilder* dump) {
  for (unsigned ordinal = 0; ordinal < 2; ++ordinal) {
    DeviceRecord device = {};
    device.state = 1;
    device.ordinal = ordinal;
    std::strcpy(device.name, "NVIDIA H200");
    device.uuid[0] = static_cast<std::uint8_t>(ordinal);
    device.first = {1000, 139ULL << 30, 140ULL << 30};
    device.peak_live_bytes = 90ULL << 30;
    dump->add_device(device);
    TimeLineRecord line = {};
    line.state = 2;
    line.device = ordinal;
    line.bucket_ns = 1 << 27;
    line.used = 447;
    for (std::uint64_t i = 0; i < line.used; ++i) {
      const std::uint64_t bytes = (i + i % 40) * (184ULL << 20);
      line.buckets[i] = {bytes / 2, bytes, bytes / 2 + i};
      if (bytes > line.peak_bytes) line.peak_bytes = bytes;
      if (bytes == line.peak_bytes) line.peak_ns = i * line.bucket_ns + 1000;
    }
    dump->add_time_line(line);
  }
}

// Every fourth leak was left by an exception, and every fourth by a failed call. `caught`: the stack of the handler.
Ref evidence_of(unsigned number, const AllocationRecord& record, Ref caught, DumpBuilder* dump) {
  EvidenceRecord evidence = {};
  evidence.state = 1;
  if (number % 4 == 1) {
    ThrowRecord thrown = {};
    thrown.state = 1;
    thrown.type = dump->add_string("St13runtime_error");
    thrown.what = dump->add_string("the residual is NaN in step " + std::to_string(number));
    thrown.stack = record.stack;
    thrown.catch_stack = caught;
    thrown.count = 1;
    thrown.flags = kThrowCaught;
    thrown.first_ns = thrown.last_ns = record.time_ns + 5000;
    evidence.thrown = dump->add_throw(thrown);
    evidence.thrown_owner = 20;
    return dump->add_evidence(evidence);
  }
  if (number % 4 == 2) {
    FailedCallRecord call = {};
    call.state = 1;
    call.stack = record.stack;
    call.code = 2;
    call.api = record.api;
    call.count = 1;
    call.first_ns = call.last_ns = record.time_ns + 7000;
    evidence.failed_call = dump->add_failed_call(call);
    evidence.failed_call_owner = 20;
    return dump->add_evidence(evidence);
  }
  return 0;
}

// `groups` leaks of all causes, on two GPUs, in five libraries, below stacks of 30 frames that share their outer parts.
Report large_report(unsigned groups) {
  DumpBuilder dump;
  FakeSymbols symbols;
  dump.header().executable = dump.add_string("/srv/train/bin/train");
  dump.header().command_line =
      dump.add_string(std::string_view("train\0--epochs\0"
                                       "90",
                                       17));
  dump.header().end_time_ns = 60000000000;
  const char* const libraries[] = {"/srv/train/bin/train", "/srv/train/lib/libsolver.so", "/srv/train/lib/libio.so.2",
                                   "/opt/third/libthird.so.4", "/opt/vision/libvision.so"};
  const char* const words[] = {"advance", "assemble",     "batch",   "convolve",
                               "gather",  "precondition", "scatter", "solve"};
  std::vector<std::uint32_t> modules;
  for (const char* library : libraries)
    modules.push_back(dump.add_module(library, {}, modules.empty() ? kModuleExecutable : 0U));
  const std::uint32_t runtime = dump.add_module("/usr/local/cuda/lib64/libcudart.so.13");
  symbols.add("/usr/local/cuda/lib64/libcudart.so.13", 0x4000, "cudaMalloc");
  add_two_devices(&dump);
  const std::uint16_t api = dump.add_api("cuMemAlloc_v2");
  const std::uint32_t thread = dump.add_thread(4242, "train");
  // One function a number; those of equal number stand in one library.
  std::set<unsigned> known;
  auto frame = [&](unsigned number) {
    const unsigned library = number % 5;
    const std::uint64_t at = 0x10000 + number * 0x40ULL;
    if (known.insert(number).second) {
      symbols.add(libraries[library], at, std::string("train::") + words[number % 8] + "_" + std::to_string(number),
                  "/src/train/" + std::string(words[number / 8 % 8]) + ".cu", number % 900 + 1);
    }
    return DumpBuilder::frame(modules[library], at);
  };
  for (unsigned i = 0; i < groups; ++i) {
    std::vector<std::uint64_t> frames = {DumpBuilder::frame(runtime, 0x4000), frame(1000 + i)};
    for (unsigned depth = 28; depth > 0; --depth) frames.push_back(frame(depth * 8 + i % (depth / 4 + 1)));
    const Ref stack = dump.add_stack(frames);
    AllocationRecord record = live_allocation(stack, 4096 + (i * 7919ULL % 100003) * 64);
    record.api = api;
    record.thread = thread;
    record.device = static_cast<std::uint8_t>(i % 3 == 0);
    record.time_ns = 1000000ULL * (i % 50000);
    record.evidence = evidence_of(i, record, dump.add_stack({frames[3], frames[4]}), &dump);
    dump.add_allocation(record);
  }
  return report_of(dump, symbols);
}

// `stacks` leaks whose stacks have little in common, as those of a program that calls itself in many ways.
Report many_stacks_report(unsigned stacks) {
  DumpBuilder dump;
  FakeSymbols symbols;
  dump.header().executable = dump.add_string("/srv/train/bin/train");
  const std::uint32_t module = dump.add_module("/srv/train/bin/train", {}, kModuleExecutable);
  const unsigned functions = 3000;
  for (unsigned i = 0; i < functions; ++i) {
    symbols.add("/srv/train/bin/train", 0x10000 + i * 0x40ULL, "train::Layer<float>::step_" + std::to_string(i),
                "/src/train/layer_" + std::to_string(i % 100) + ".cu", i % 900 + 1);
  }
  std::uint32_t random = 1;
  for (unsigned i = 0; i < stacks; ++i) {
    std::vector<std::uint64_t> frames;
    for (unsigned depth = 0; depth < 20; ++depth) {
      random = random * 1664525 + 1013904223;
      frames.push_back(DumpBuilder::frame(module, 0x10000 + (random >> 8) % functions * 0x40ULL));
    }
    dump.add_allocation(live_allocation(dump.add_stack(frames), 4096 + i % 5000 * 256));
  }
  return report_of(dump, symbols);
}

Report long_names_report() {
  Program program;
  std::vector<std::uint64_t> frames;
  std::uint64_t at = 0x100000;
  for (const char* name : {"train::Solver<double, train::Layout::kRowMajor, train::Preconditioner<double>>::assemble",
                           "train::run_all_steps_of_the_solver_until_the_residual_is_small"}) {
    program.symbols.add("/bin/app", at += 0x1000, name, "/src/train/solver_with_a_long_name_of_its_own.cu", 1234);
    frames.push_back(DumpBuilder::frame(program.module, at));
  }
  program.dump.add_allocation(live_allocation(program.dump.add_stack(frames), 1 << 20));
  return program.report();
}

// The reports of a job's ranks, of which number 5 leaks ten times as much as the others.
std::vector<Report> ranks_of(unsigned ranks) {
  std::vector<Report> reports;
  for (unsigned rank = 0; rank < ranks; ++rank) {
    Program program;
    program.dump.header().pid = 1000 + rank;
    program.dump.header().rank = rank + 1;
    program.dump.header().job_size = ranks;
    std::snprintf(program.dump.header().host, sizeof(Header::host), "node%u", rank / 8);
    DeviceRecord device = {};
    device.state = 1;
    device.uuid[0] = static_cast<std::uint8_t>(rank);
    device.peak_live_bytes = rank == 9 ? 60ULL << 30 : 20ULL << 30;
    program.dump.add_device(device);
    program.dump.add_allocation(live_allocation(program.stack({"assemble", "main"}), rank == 5 ? 10 << 20 : 1 << 20));
    if (rank % 4 == 1) program.dump.add_allocation(live_allocation(program.stack({"gather", "main"}), 4096));
    reports.push_back(program.report());
  }
  return reports;
}

Report job_report(unsigned ranks) {
  ReportMerger merger;
  for (Report& report : ranks_of(ranks)) merger.add(std::move(report));
  return merger.finish(false);
}

}  // namespace

TEST_CASE("a page needs nothing but itself", "[report][html]") {
  Program program;
  program.dump.add_allocation(live_allocation(program.stack({"f", "main"}), 4096));
  const std::string page = page_of({program.report()});
  CHECK(page.find("{{") == page.find("{{", page.find("<script>")));  // only scripts may hold what looks like a marker
  CHECK_FALSE(has(page, "<script src"));
  CHECK_FALSE(has(page, "href=\"http"));
  CHECK_FALSE(has(page, "@import"));
  CHECK(has(page, "default-src 'none'"));
  CHECK(has(page, "Mike Bostock"));  // D3's licence
  CHECK(has(page, "<title>4.00 KiB leaked"));
}

TEST_CASE("a page has every script and every style of the folder", "[report][html]") {
  const std::string page = page_of({});
  std::size_t files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(CULPRIT_SOURCE_DIR) + "/report/render/html")) {
    const std::string ending = entry.path().extension().string();
    if (ending != ".js" && ending != ".css") continue;
    INFO(entry.path());
    CHECK((page.find(file_text(entry.path().string())) != std::string::npos));
    ++files;
  }
  CHECK(files > 10);
}

TEST_CASE("names cannot become markup", "[report][html]") {
  const std::string page = page_of({hostile_report()});
  CHECK_FALSE(has(page, "<script>window.hacked"));
  CHECK_FALSE(has(page, "<img src=x"));
  const nlohmann::json data = nlohmann::json::parse(page_data(page));
  CHECK(data["reports"][0]["leaks"][0]["evidence"][0]["what"] == kHostile);
}

TEST_CASE("stacks of a page share their frames and strings", "[report][html]") {
  Program program;
  const auto main = program.frame("/bin/app", program.module, "main", 90);
  for (const char* name : {"f", "g"}) {
    const auto inner = program.frame("/bin/app", program.module, name, 12);
    program.dump.add_allocation(live_allocation(program.dump.add_stack({inner, main}), 4096));
  }
  const nlohmann::json report = nlohmann::json::parse(page_data(page_of({program.report()})))["reports"][0];
  CHECK(report["frames"].size() == 3);
  REQUIRE(report["leaks"].size() == 2);
  CHECK(report["leaks"][0]["stack"][1] == report["leaks"][1]["stack"][1]);
  const auto& frame = report["frames"][report["leaks"][0]["stack"][1].get<std::size_t>()];
  CHECK(report["strings"][frame[0].get<std::size_t>()] == "main");
  CHECK(frame[2] == 90);
}

TEST_CASE("source lines stand in a page unless they are not wanted", "[report][html]") {
  TemporaryFolder folder;
  std::ofstream(folder.file("app.cu")) << "one\ntwo\nthree</script>\nfour\n";
  Program program;
  program.dump.add_allocation(live_allocation(program.stack({"f", "main"}, 2), 4096));
  RenderOptions options;
  options.source_dirs = {folder.path().string()};
  const std::string with = page_data(page_of({program.report()}, options));
  CHECK(has(with, "three\\u003c/script>"));
  options.source = false;
  CHECK_FALSE(has(page_data(page_of({program.report()}, options)), "three"));
}

TEST_CASE("the pages that the browser test looks at", "[.pages]") {
  const char* folder = std::getenv("CULPRIT_PAGES");
  REQUIRE(folder != nullptr);
  std::ofstream(std::string(folder) + "/hostile.html") << page_of({hostile_report()});
  Program clean;
  std::ofstream(std::string(folder) + "/clean.html") << page_of({clean.report()});
  Report with_finding = large_report(12);
  ContextInfo context;
  context.stack = with_finding.leaks.front().stack;
  context.stray = true;
  context.allocates_on = {1};
  with_finding.contexts.push_back(context);
  std::ofstream(std::string(folder) + "/finding.html") << page_of({with_finding});
  Report killed = large_report(12);
  killed.process.status.ended = Ended::kKilled;
  std::ofstream(std::string(folder) + "/killed.html") << page_of({killed});
  std::ofstream(std::string(folder) + "/long_names.html") << page_of({long_names_report()});
  std::ofstream(std::string(folder) + "/job.html") << page_of({job_report(1024)});
  std::ofstream(std::string(folder) + "/job_apart.html") << page_of(ranks_of(16));
  std::ofstream(std::string(folder) + "/two.html") << page_of({clean.report(), large_report(12)});
}

// Seconds: in a case of its own, for html_test.py only.
TEST_CASE("the large pages that the browser test looks at", "[.large_pages]") {
  const char* folder = std::getenv("CULPRIT_PAGES");
  REQUIRE(folder != nullptr);
  std::ofstream(std::string(folder) + "/large.html") << page_of({large_report(5000)});
  std::ofstream(std::string(folder) + "/many_stacks.html") << page_of({many_stacks_report(100000)});
}
