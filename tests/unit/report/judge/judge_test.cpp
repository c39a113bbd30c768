// The judge's rules, one by one: what is a leak, with which cause, and what is not.
#include "report/judge/judge.h"

#include "report/judge/fingerprint.h"
#include "tests/catch.h"
#include "tests/unit/report/fixture.h"

using namespace culprit::report;
using namespace culprit::format;
using namespace culprit::test;

TEST_CASE("allocations of one place are one group, worst first", "[report][judge]") {
  Program program;
  const Ref small = program.stack({"small", "main"});
  const Ref big = program.stack({"big", "main"});
  AllocationRecord record = live_allocation(small, 100);
  record.time_ns = 7;
  program.dump.add_allocation(record);
  record.time_ns = 5;
  program.dump.add_allocation(record);
  program.dump.add_allocation(live_allocation(big, 1000));
  const Report report = program.report();
  REQUIRE(report.leaks.size() == 2);
  CHECK(report.leaks[0].bytes == 1000);
  CHECK(report.leaks[1].bytes == 200);
  CHECK(report.leaks[1].count == 2);
  CHECK(report.leaks[1].first_ns == 5);
  CHECK(report.leaks[1].last_ns == 7);
  CHECK(report.leaks[1].cause == Cause::kNeverFreed);
  CHECK(report.summary.leaked_bytes == 1200);
  CHECK(report.summary.leaked_allocations == 3);
  CHECK(report.summary.groups == 2);
}

TEST_CASE("kind, device and API keep groups apart", "[report][judge]") {
  Program program;
  const Ref stack = program.stack({"make", "main"});
  AllocationRecord record = live_allocation(stack, 64);
  record.api = program.dump.add_api("cuMemAlloc_v2");
  program.dump.add_allocation(record);
  record.device = 1;
  program.dump.add_allocation(record);
  record.kind = Kind::kManaged;
  record.api = program.dump.add_api("cuMemAllocManaged");
  program.dump.add_allocation(record);
  const Report report = program.report();
  REQUIRE(report.leaks.size() == 3);
  CHECK(report.summary.totals.size() == 3);
  CHECK(report.leaks[0].id != report.leaks[1].id);
}

TEST_CASE("pinned host memory is counted apart from the device's", "[report][judge]") {
  Program program;
  AllocationRecord record = live_allocation(program.stack({"pin", "main"}), 4096, Kind::kPinnedHost);
  record.device = kNoDevice;
  program.dump.add_allocation(record);
  program.dump.add_allocation(live_allocation(program.stack({"make", "main"}), 100));
  const Report report = program.report();
  CHECK(report.summary.leaked_host_bytes == 4096);
  CHECK(report.summary.leaked_device_bytes == 100);
  CHECK(report.summary.leaked_bytes == 4196);
  CHECK_FALSE(report.leaks[0].device.has_value());
}

TEST_CASE("a refused free is the cause, with the refused call", "[report][judge]") {
  Program program;
  ErrorRecord error = {};
  error.state = 1;
  error.type = ErrorType::kFailedFree;
  error.code = 1;
  error.api = program.dump.add_api("cuMemFree_v2");
  error.stack = program.stack({"drop", "main"});
  error.allocation_stack = program.stack({"make", "main"});
  error.count = 2;
  const Ref failed = program.dump.add_error(error);
  AllocationRecord record = live_allocation(error.allocation_stack, 64);
  program.dump.add_allocation(record);
  record.flags = kFlagFreeFailed;
  EvidenceRecord evidence = {};
  evidence.state = 1;
  evidence.error = failed;
  record.evidence = program.dump.add_evidence(evidence);
  program.dump.add_allocation(record);
  const Report report = program.report();
  REQUIRE(report.leaks.size() == 2);
  const Group& group = report.leaks[0].cause == Cause::kFailedFree ? report.leaks[0] : report.leaks[1];
  REQUIRE(group.cause == Cause::kFailedFree);
  REQUIRE(group.evidence.size() == 1);
  CHECK(group.evidence[0].api == "cuMemFree");
  CHECK(group.evidence[0].code_name == "CUDA_ERROR_INVALID_VALUE");
  CHECK(group.evidence[0].stack->frames[0]->function == "drop");
  REQUIRE(report.errors.size() == 1);
  CHECK(report.errors[0].allocation_stack->frames[0]->function == "make");
  CHECK(report.summary.errors == 2);
}

TEST_CASE("a refused free whose record found no room is still the cause", "[report][judge]") {
  Program program;
  AllocationRecord record = live_allocation(program.stack({"make", "main"}), 64);
  record.flags = kFlagFreeFailed;
  program.dump.add_allocation(record);
  CHECK(program.report().leaks.at(0).cause == Cause::kFailedFree);
}

TEST_CASE("memory that went with its context is a leak with that cause", "[report][judge]") {
  Program program;
  ReleaseRecord release = {};
  release.state = 1;
  release.kind = Kind::kDevice;
  release.stack = program.stack({"make", "main"});
  release.teardown_stack = program.stack({"reset", "main"});
  release.teardown_api = program.dump.add_api("cuDevicePrimaryCtxReset_v2");
  release.count = 3;
  release.bytes = 300;
  program.dump.add_release(release);
  const Report report = program.report();
  REQUIRE(report.leaks.size() == 1);
  CHECK(report.leaks[0].cause == Cause::kContextTeardown);
  CHECK(report.leaks[0].count == 3);
  REQUIRE(report.leaks[0].evidence.size() == 1);
  CHECK(report.leaks[0].evidence[0].api == "cuDevicePrimaryCtxReset");
  CHECK(report.leaks[0].evidence[0].stack->frames[0]->function == "reset");
}

TEST_CASE("the first cause of the order wins", "[report][judge]") {
  std::vector<Evidence> evidence(3);
  CHECK(decide_cause({}) == Cause::kNeverFreed);
  evidence[0].points_to = Cause::kContextTeardown;
  evidence[1].points_to = Cause::kFailedFree;
  evidence[2].points_to = Cause::kException;
  CHECK(decide_cause(evidence) == Cause::kFailedFree);
  CHECK(Cause::kCached < Cause::kFailedFree);
  CHECK(Cause::kFailedFree < Cause::kHeld);
  CHECK(Cause::kHeld < Cause::kException);
  CHECK(Cause::kException < Cause::kErrorReturn);
  CHECK(Cause::kErrorReturn < Cause::kContextTeardown);
  CHECK(Cause::kContextTeardown < Cause::kNeverFreed);
}

TEST_CASE("streams, events, reservations and imports are resources, not leaks", "[report][judge]") {
  Program program;
  const Ref stack = program.stack({"make", "main"});
  for (Kind kind : {Kind::kStream, Kind::kEvent, Kind::kVmmReservation, Kind::kVmmMapping, Kind::kIpcMemory,
                    Kind::kMemoryPool, Kind::kGraphExec, Kind::kTextureObject}) {
    program.dump.add_allocation(live_allocation(stack, 0, kind));
  }
  const Report report = program.report();
  CHECK(report.leaks.empty());
  CHECK(report.resources.size() == 8);
  CHECK(report.summary.resources == 8);
  CHECK(report.summary.leaked_bytes == 0);
}

TEST_CASE("graph memory counts once it is physical", "[report][judge]") {
  Program program;
  const Ref stack = program.stack({"make", "main"});
  AllocationRecord record = live_allocation(stack, 512, Kind::kGraphMemory);
  record.flags = kFlagNotPhysical;
  program.dump.add_allocation(record);
  SECTION("not yet") {
    const Report report = program.report();
    CHECK(report.leaks.empty());
    REQUIRE(report.resources.size() == 1);
    CHECK(report.resources[0].bytes == 0);
  }
  SECTION("one of two") {
    record.flags = 0;
    program.dump.add_allocation(record);
    const Report report = program.report();
    REQUIRE(report.leaks.size() == 1);
    CHECK(report.leaks[0].bytes == 512);
  }
}

TEST_CASE("contexts: the user's are resources, the primary one is never counted", "[report][judge]") {
  Program program;
  const std::uint32_t thread = program.dump.add_thread(9, "main");
  ContextRecord context = {};
  context.state = ContextState::kAlive;
  context.stack = program.stack({"make", "main"});
  context.api = program.dump.add_api("cuCtxCreate_v4");
  context.thread = thread;
  context.kind = Kind::kContext;
  program.dump.add_context(context);
  context.kind = Kind::kPrimaryContext;
  program.dump.add_context(context);
  context.kind = Kind::kContext;
  context.state = ContextState::kDestroyed;
  program.dump.add_context(context);
  context.state = ContextState::kAlive;
  context.thread = kNoIndex;  // made before recording began
  program.dump.add_context(context);
  const Report report = program.report();
  REQUIRE(report.resources.size() == 1);
  CHECK(report.resources[0].api == "cuCtxCreate");
  CHECK(report.resources[0].count == 1);
}

TEST_CASE("libraries that the runtime loads for itself are never counted", "[report][judge]") {
  Program program;
  const std::uint32_t runtime = program.dump.add_module("/lib/libcudart.so.13");
  auto loaded_through = [&](const std::string& api) {
    const std::uint64_t inner = program.frame("/lib/libcudart.so.13", runtime, api, 0);
    const std::uint64_t outer = program.frame("/bin/app", program.module, "main", 5);
    program.dump.add_allocation(live_allocation(program.dump.add_stack({inner, outer}), 0, Kind::kLibrary));
  };
  loaded_through("cudaLaunchKernel");
  CHECK(program.report().resources.empty());
  loaded_through("cudaLibraryLoadData");
  CHECK(program.report().resources.size() == 1);
  program.dump.add_allocation(live_allocation(program.stack({"load", "main"}), 0, Kind::kLibrary));
  CHECK(program.report().resources.size() == 2);
}

TEST_CASE("what a library holds for itself has its own section", "[report][judge]") {
  Program program;
  const std::uint32_t cublas = program.dump.add_module("/lib/libcublas.so.13");
  const std::uint64_t inner = program.frame("/lib/libcublas.so.13", cublas, "cublasCreate_v2", 0);
  const std::uint64_t outer = program.frame("/bin/app", program.module, "main", 5);
  program.dump.add_allocation(live_allocation(program.dump.add_stack({inner, outer}), 4096));
  SECTION("not counted") {
    const Report report = program.report();
    CHECK(report.leaks.empty());
    REQUIRE(report.library.size() == 1);
    CHECK(report.library[0].library == "cuBLAS");
    CHECK(report.summary.library_bytes == 4096);
    CHECK(report.summary.leaked_bytes == 0);
  }
  SECTION("--strict counts it and keeps the name") {
    JudgeOptions options;
    options.strict = true;
    const Report report = program.report(options);
    REQUIRE(report.leaks.size() == 1);
    CHECK(report.leaks[0].library == "cuBLAS");
  }
  SECTION("--no-default-suppressions makes it the program's") {
    JudgeOptions options;
    options.default_suppressions = false;
    const Report report = program.report(options);
    REQUIRE(report.leaks.size() == 1);
    CHECK(report.leaks[0].library.empty());
  }
}

TEST_CASE("a group says how often its call was freed before", "[report][judge]") {
  Program program;
  program.symbols.add("/bin/app", 0x500, "make", "/src/app.cu", 3);
  const Ref stack = program.dump.add_stack({DumpBuilder::frame(program.module, 0x500)}, 0, 90);
  program.dump.add_allocation(live_allocation(stack, 64));
  program.dump.header().allocations = 100;
  program.dump.header().frees = 50;
  ThreadCounters counters = {};
  counters.allocations = 8;
  counters.frees = 7;
  counters.stacks[5].stack = stack;
  counters.stacks[5].allocations = 8;
  program.dump.add_counters(counters);
  const Report report = program.report();
  CHECK(report.leaks.at(0).made == 98);
  CHECK(report.leaks[0].freed == 97);
  CHECK(report.summary.allocations == 108);
  CHECK(report.summary.frees == 57);
}

TEST_CASE("a place that was loaded twice is one group", "[report][judge]") {
  Program program;
  const std::uint32_t first = program.dump.add_module("/lib/libplugin.so");
  const std::uint32_t again = program.dump.add_module("/lib/libplugin.so");
  program.symbols.add("/lib/libplugin.so", 0x500, "plug", "/src/p.cu", 3);
  for (std::uint32_t module : {first, again}) {
    program.dump.add_allocation(live_allocation(program.dump.add_stack({DumpBuilder::frame(module, 0x500)}), 64));
  }
  const Report report = program.report();
  REQUIRE(report.leaks.size() == 1);
  CHECK(report.leaks[0].count == 2);
  CHECK(report.leaks[0].bytes == 128);
}

TEST_CASE("threads of a group are listed once, with their end", "[report][judge]") {
  Program program;
  const std::uint32_t first = program.dump.add_thread(10, "main");
  const std::uint32_t second = program.dump.add_thread(11, "worker", ThreadState::kEnded);
  AllocationRecord record = live_allocation(program.stack({"make", "main"}), 64);
  for (std::uint32_t thread : {first, second, second}) {
    record.thread = thread;
    program.dump.add_allocation(record);
  }
  const Report report = program.report();
  REQUIRE(report.leaks.at(0).threads.size() == 2);
  CHECK_FALSE(report.leaks[0].threads[0].ended);
  CHECK(report.leaks[0].threads[1].ended);
  CHECK(report.leaks[0].threads[1].name == "worker");
}

TEST_CASE("fingerprints do not depend on addresses, lines, paths and versions", "[report][judge]") {
  auto make = [](const std::string& path, std::uint64_t address, unsigned line, const std::string& function) {
    DumpBuilder dump;
    FakeSymbols symbols;
    const std::uint32_t module = dump.add_module(path);
    symbols.add(path, address, function, "/src/x.cu", line);
    AllocationRecord record = live_allocation(dump.add_stack({DumpBuilder::frame(module, address)}), 100 + line);
    record.api = dump.add_api("cuMemAlloc_v2");
    dump.add_allocation(record);
    return report_of(dump, symbols).leaks.at(0).id;
  };
  const std::string id = make("/usr/lib/libfoo.so.1.2", 0x1000, 5, "foo");
  CHECK(id.size() == 16);
  CHECK(id.find_first_not_of("0123456789abcdef") == std::string::npos);
  CHECK(make("/opt/lib/libfoo.so.1.3", 0x2000, 6, "foo") == id);
  CHECK(make("/usr/lib/libfoo.so.1.2", 0x1000, 5, "bar") != id);
  CHECK(make("/usr/lib/libbar.so.1.2", 0x1000, 5, "foo") != id);
}

TEST_CASE("two calls in one function have two ids, the first as if it were alone", "[report][judge]") {
  auto ids = [](const std::vector<std::uint64_t>& addresses) {
    DumpBuilder dump;
    FakeSymbols symbols;
    const std::uint32_t module = dump.add_module("/bin/app");
    std::map<std::uint64_t, std::string> result;
    for (std::uint64_t address : addresses) {
      symbols.add("/bin/app", address, "main", "/src/x.cu", static_cast<unsigned>(address));
      dump.add_allocation(live_allocation(dump.add_stack({DumpBuilder::frame(module, address)}), address));
    }
    for (const Group& group : report_of(dump, symbols).leaks) result[group.bytes] = group.id;
    return result;
  };
  const auto both = ids({0x30, 0x20});
  CHECK(both.at(0x20) != both.at(0x30));
  CHECK(both.at(0x20) == ids({0x20}).at(0x20));
}
