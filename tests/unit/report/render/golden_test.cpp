// Whole reports against the files in tests/golden: dump in, text and JSON out. CULPRIT_APPROVE=1 rewrites them.
#include <cstring>
#include <sstream>

#include "report/render/html/render_html.h"
#include "report/render/json/render_json.h"
#include "report/render/render_folded.h"
#include "report/render/render_gcc.h"
#include "report/render/render_github.h"
#include "report/render/render_junit.h"
#include "report/render/render_markdown.h"
#include "report/render/render_memory_viz.h"
#include "report/render/render_perfetto.h"
#include "report/render/render_pprof.h"
#include "report/render/render_sarif.h"
#include "report/render/text/render_text.h"
#include "report/select/render_options.h"
#include "tests/catch.h"
#include "tests/support/text.h"
#include "tests/unit/report/fixture.h"
#include "tests/unit/report/golden.h"
#include "tests/unit/report/page_data.h"

using namespace culprit::report;
using namespace culprit::format;
using namespace culprit::test;

namespace {

std::string text_of(const std::vector<Report>& reports, bool resources = false) {
  RenderOptions options;
  options.resources = resources;
  std::ostringstream out;
  render_text(reports, options, out);
  return out.str();
}

std::string json_text_of(const std::vector<Report>& reports) {
  std::ostringstream out;
  render_json(reports, out);
  return out.str();
}

MemoryReading reading(std::uint64_t time_ns, std::uint64_t free_gib) { return {time_ns, free_gib << 30, 140ULL << 30}; }

// A program with every sort of thing in it: an own leak, one inside a third-party library, a refused free, a torn-down
// context, a library's workspace, two bad frees and some streams.
struct Everything {
  DumpBuilder dump;
  FakeSymbols symbols;

  Everything() {
    describe_process();
    add_stacks();
    add_leaks();
    add_errors();
    add_teardown();
    add_device();
    add_balance();
  }

 private:
  Ref solve_stack_, drop_stack_, third_stack_, reset_stack_, cublas_stack_, stream_stack_;
  std::uint32_t main_thread_, worker_;
  std::uint16_t alloc_api_;

  void describe_process() {
    const Ref executable = dump.add_string("/home/me/train");
    const Ref command =
        dump.add_string(std::string_view("./train\0--epochs\0"
                                         "3\0",
                                         19));
    const Ref folder = dump.add_string("/home/me");
    const Ref version = dump.add_string("0.1.0");
    Header& header = dump.header();
    header.executable = executable;
    header.command_line = command;
    header.working_directory = folder;
    header.tool_version = version;
    header.allocations = 120;
    header.frees = 100;
    header.late_frees = 2;
    main_thread_ = dump.add_thread(4242, "train");
    worker_ = dump.add_thread(4250, "worker-3", ThreadState::kEnded);
    alloc_api_ = dump.add_api("cuMemAlloc_v2");
  }

  std::uint64_t code(std::uint32_t module, const char* path, std::uint64_t at, const char* function,
                     const char* file = "", unsigned line = 0) {
    symbols.add(path, at, function, file, line);
    return DumpBuilder::frame(module, at);
  }

  void add_stacks() {
    const std::uint32_t app = dump.add_module("/home/me/train", {0xaa, 0xbb}, kModuleExecutable);
    const std::uint32_t runtime = dump.add_module("/usr/local/cuda/lib64/libcudart.so.13");
    const std::uint32_t third =
        dump.add_module("/opt/third/libthird.so.2", {0x9a, 0x77, 0xc1, 0x00, 0x11, 0x22, 0x33, 0x44});
    const std::uint32_t cublas = dump.add_module("/usr/local/cuda/lib64/libcublas.so.13");
    const std::uint32_t libc = dump.add_module("/lib/x86_64-linux-gnu/libc.so.6");

    const char* exe = "/home/me/train";
    const auto start = code(libc, "/lib/x86_64-linux-gnu/libc.so.6", 0x29d90, "__libc_start_main");
    const auto main_solve = code(app, exe, 0x1100, "main", "/src/train.cu", 88);
    const auto main_third = code(app, exe, 0x1120, "main", "/src/train.cu", 90);
    const auto main_reset = code(app, exe, 0x1140, "main", "/src/train.cu", 95);
    CodeLocation grow;
    grow.function = "Buffer::grow";
    grow.file = "/src/buffer.h";
    grow.line = 12;
    grow.inlined = true;
    symbols.add(exe, 0x2200, grow);
    const auto step = code(app, exe, 0x2200, "Solver::step", "/src/solver.cu", 31);
    const auto drop = code(app, exe, 0x2300, "Solver::drop", "/src/solver.cu", 60);
    const char* cudart = "/usr/local/cuda/lib64/libcudart.so.13";
    const auto cuda_malloc = code(runtime, cudart, 0x4000, "cudaMalloc");
    const auto cuda_free = code(runtime, cudart, 0x4100, "cudaFree");
    const auto cuda_reset = code(runtime, cudart, 0x4200, "cudaDeviceReset");
    const auto cuda_stream = code(runtime, cudart, 0x4300, "cudaStreamCreate");
    const auto third_solve = code(third, "/opt/third/libthird.so.2", 0x5000, "third_solve");
    const auto cublas_create = code(cublas, "/usr/local/cuda/lib64/libcublas.so.13", 0x6000, "cublasCreate_v2");

    solve_stack_ = dump.add_stack({cuda_malloc, step, main_solve, start});
    drop_stack_ = dump.add_stack({cuda_free, drop, main_solve, start});
    third_stack_ = dump.add_stack({cuda_malloc, third_solve, main_third, start}, kStackTruncated, 103);
    reset_stack_ = dump.add_stack({cuda_reset, main_reset, start});
    cublas_stack_ = dump.add_stack({cuda_malloc, cublas_create, main_solve, start});
    stream_stack_ = dump.add_stack({cuda_stream, main_solve, start});
  }

  void add_leak(Ref stack, std::uint64_t bytes, std::uint32_t thread, std::uint64_t time_ns) {
    AllocationRecord record = live_allocation(stack, bytes);
    record.api = alloc_api_;
    record.thread = thread;
    record.time_ns = time_ns;
    dump.add_allocation(record);
  }

  void add_leaks() {
    add_leak(solve_stack_, 1ULL << 30, worker_, 12400000000);
    for (std::uint64_t time : {2000000000ULL, 3000000000ULL, 4000000000ULL})
      add_leak(third_stack_, 256ULL << 20, main_thread_, time);
    add_leak(cublas_stack_, 8ULL << 20, main_thread_, 500000000);
    AllocationRecord record = live_allocation(stream_stack_, 0, Kind::kStream);
    record.api = dump.add_api("cuStreamCreate");
    record.thread = main_thread_;
    record.time_ns = 600000000;
    dump.add_allocation(record);
    dump.add_allocation(record);
  }

  // A refused free, whose allocation is a leak, and a double free.
  void add_errors() {
    ErrorRecord error = {};
    error.state = 1;
    error.type = ErrorType::kFailedFree;
    error.kind = Kind::kDevice;
    error.api = dump.add_api("cuMemFree_v2");
    error.code = 700;
    error.stack = drop_stack_;
    error.allocation_stack = solve_stack_;
    error.handle = 0x7f1000000000;
    error.bytes = 11001;
    error.count = 1;
    error.first_ns = error.last_ns = 15000000000;
    error.thread = main_thread_;
    const Ref failed = dump.add_error(error);
    AllocationRecord record = live_allocation(solve_stack_, 11001);
    record.api = alloc_api_;
    record.thread = main_thread_;
    record.time_ns = 14000000000;
    record.flags = kFlagFreeFailed;
    EvidenceRecord evidence = {};
    evidence.state = 1;
    evidence.error = failed;
    record.evidence = dump.add_evidence(evidence);
    dump.add_allocation(record);
    error.type = ErrorType::kDoubleFree;
    error.code = 1;
    error.free_stack = drop_stack_;
    error.free_thread = worker_;
    error.first_ns = error.last_ns = 16000000000;
    error.count = 2;
    dump.add_error(error);
  }

  void add_teardown() {
    ReleaseRecord release = {};
    release.state = 1;
    release.stack = solve_stack_;
    release.teardown_stack = reset_stack_;
    release.kind = Kind::kManaged;
    release.api = alloc_api_;
    release.teardown_api = dump.add_api("cuDevicePrimaryCtxReset_v2");
    release.count = 4;
    release.bytes = 4ULL << 20;
    release.first_ns = 1000000000;
    release.last_ns = 1500000000;
    release.teardown_ns = 17000000000;
    release.thread = main_thread_;
    dump.add_release(release);
  }

  void add_device() {
    DeviceRecord device = {};
    device.state = 1;
    device.uuid[0] = 0x5f;
    device.uuid[1] = 0x3a;
    std::strcpy(device.name, "NVIDIA H200");
    device.first = reading(1000, 139);
    device.peak = reading(13000000000, 120);
    device.exit = reading(20000000000, 137);
    device.flags |= kDevicePoolRead;
    device.pool_reserved = 64ULL << 20;
    device.pool_used = 16ULL << 20;
    dump.add_device(device);
    TimeLineRecord line = {};
    line.state = 4;
    line.bucket_ns = 5000000000;
    line.used = 3;
    line.buckets[0] = {0, 1 << 20, 1 << 20};
    line.buckets[1] = {1 << 20, 3 << 20, 2 << 20};
    line.buckets[2] = {2 << 20, 2 << 20, 2 << 20};
    line.peak_bytes = 3 << 20;
    line.peak_ns = 6000000000;
    dump.add_time_line(line);
  }

  CallChargeRecord charge(DriverMemory what, Ref stack, const char* api, std::int64_t bytes, std::uint64_t count) {
    CallChargeRecord record = {};
    record.state = 1;
    record.stack = stack;
    record.bytes = bytes;
    record.count = count;
    record.api = dump.add_api(api);
    record.what = what;
    return record;
  }

  void add_context(std::uint8_t device, std::uint16_t flags, std::uint64_t bytes) {
    ContextRecord context = {};
    context.state = ContextState::kAlive;
    context.stack = reset_stack_;
    context.device = device;
    context.kind = Kind::kPrimaryContext;
    context.api = dump.add_api("cuDevicePrimaryCtxRetain");
    context.flags = flags;
    context.thread = main_thread_;
    context.bytes = bytes;
    context.created_ns = 1000000ULL * (device + 1U);
    dump.add_context(context);
  }

  // The exit's: 3 GiB in use; and a second GPU with a context and nothing else.
  void add_balance() {
    DeviceRecord device = {};
    device.state = 1;
    device.ordinal = 1;
    device.uuid[0] = 0x5f;
    device.uuid[1] = 0x3b;
    std::strcpy(device.name, "NVIDIA H200");
    dump.add_device(device);
    add_context(0, kContextFirst, 527ULL << 20);
    add_context(1, kContextMeasured, 524ULL << 20);
    dump.add_call_charge(charge(DriverMemory::kContexts, reset_stack_, "cuDevicePrimaryCtxRetain", 527LL << 20, 1));
    dump.add_call_charge(
        charge(DriverMemory::kGraphExecutables, solve_stack_, "cuGraphInstantiateWithFlags", 109LL << 20, 2));
    dump.add_call_charge(charge(DriverMemory::kStreams, stream_stack_, "cuStreamCreate", 1LL << 20, 2));
    BalanceRecord balance = {};
    balance.state = 1;
    balance.moment = Moment::kExit;
    balance.flags = kBalancePools | kBalanceLimits;
    balance.time_ns = 20000000000;
    balance.free_bytes = 137ULL << 30;
    balance.total_bytes = 140ULL << 30;
    balance.allocated = (1800ULL << 20) + 11001;
    balance.in_blocks = 1802ULL << 20;
    balance.default_reserved = 64ULL << 20;
    balance.default_used = 16ULL << 20;
    balance.stack_limit = 1024;
    balance.multiprocessors = 132;
    balance.threads = 2048;
    balance.unmeasured = 3;
    balance.taken[static_cast<int>(DriverMemory::kContexts)] = 527LL << 20;
    balance.taken[static_cast<int>(DriverMemory::kGraphExecutables)] = 109LL << 20;
    balance.taken[static_cast<int>(DriverMemory::kStreams)] = 1LL << 20;
    dump.add_balance(balance);
  }
};

}  // namespace

TEST_CASE("golden: everything, as text", "[report][golden]") {
  Everything everything;
  check_golden("everything.txt", text_of({report_of(everything.dump, everything.symbols)}));
}

TEST_CASE("golden: everything, with resources listed", "[report][golden]") {
  Everything everything;
  check_golden("everything_resources.txt", text_of({report_of(everything.dump, everything.symbols)}, true));
}

TEST_CASE("golden: everything, as JSON", "[report][golden]") {
  Everything everything;
  check_golden("everything.json", json_text_of({report_of(everything.dump, everything.symbols)}));
}

TEST_CASE("golden: everything, in the other formats", "[report][golden]") {
  Everything everything;
  const std::vector<Report> reports = {report_of(everything.dump, everything.symbols)};
  auto in_format = [&](auto render) {
    RenderOptions options;
    options.working_folders = {"/src/build", "/src"};
    options.repository_folders = {"/src"};
    std::ostringstream out;
    render(reports, options, out);
    return out.str();
  };
  check_golden("everything.md", in_format(render_markdown));
  check_golden("everything.junit.xml", in_format(render_junit));
  check_golden("everything.sarif", in_format(render_sarif));
  check_golden("everything.pprof.gz", in_format(render_pprof));
  check_golden("everything.folded", in_format(render_folded));
  check_golden("everything.pftrace", in_format(render_perfetto));
  check_golden("everything.github", in_format(render_github));
  check_golden("everything.gcc", in_format(render_gcc));
}

TEST_CASE("golden: everything, as a snapshot for memory_viz", "[report][golden]") {
  Everything everything;
  LoadOptions options;
  options.each = true;
  std::ostringstream out;
  render_memory_viz({report_of(everything.dump, everything.symbols, options)}, RenderOptions(), out);
  check_golden("everything.pickle", out.str());
}

TEST_CASE("golden: everything, as the data of an HTML page", "[report][golden]") {
  Everything everything;
  std::ostringstream out;
  render_html({report_of(everything.dump, everything.symbols)}, RenderOptions(), out);
  check_golden("everything.page.json", culprit::test::page_data(out.str()));
}

TEST_CASE("golden: nothing leaked", "[report][golden]") {
  DumpBuilder dump;
  dump.header().allocations = 3;
  dump.header().frees = 3;
  check_golden("clean.txt", text_of({report_of(dump, FakeSymbols())}));
}

TEST_CASE("golden: two processes, one of them incomplete", "[report][golden]") {
  Everything everything;
  DumpBuilder dump;
  dump.header().pid = 4300;
  dump.header().dropped_allocations = 12;
  dump.header().dropped_stacks = 1;
  dump.header().stop_reason = StopReason::kFileSizeLimit;
  dump.header().stop_time_ns = 1500000000;
  const std::vector<Report> reports = {report_of(dump, FakeSymbols()), report_of(everything.dump, everything.symbols)};
  check_golden("two_processes.txt", text_of(reports));
}

TEST_CASE("text that is no UTF-8 becomes valid JSON", "[report][golden]") {
  DumpBuilder dump;
  const Ref name = dump.add_string("\xff\xfe bad \x80");
  dump.header().executable = name;
  CHECK(has(json_text_of({report_of(dump, FakeSymbols())}), "bad"));
}

TEST_CASE("colours only when they are asked for", "[report][golden]") {
  Everything everything;
  const Report report = report_of(everything.dump, everything.symbols);
  CHECK_FALSE(has(text_of({report}), "\x1b"));
  RenderOptions options;
  options.colours = true;
  std::ostringstream out;
  render_text({report}, options, out);
  CHECK(has(out.str(), "\x1b[1;31mLEAKED\x1b[0m"));
}
