// Writes the first inputs of each target into FOLDER/TARGET/: make_corpus FOLDER
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "report/merge/merged_file.h"
#include "report/merge/report_merger.h"
#include "report/render/formats.h"
#include "report/select/baseline.h"
#include "report/select/render_options.h"
#include "tests/unit/report/fixture.h"

using namespace culprit::report;
using namespace culprit::format;
using namespace culprit::test;

namespace {

// A job's process with one record of each type.
void fill(DumpBuilder* dump, unsigned rank) {
  dump->header().rank = rank;
  dump->header().job_size = 2;
  dump->header().pid = 100 + rank;
  dump->header().executable = dump->add_string(CULPRIT_SUBJECT_DIR "/symbol_subject");
  dump->header().command_line = dump->add_string(std::string_view("app\0--option", 12));
  dump->header().unseen_users = dump->add_string("\x01/lib/libother.so");
  const std::uint32_t module = dump->add_module(CULPRIT_SUBJECT_DIR "/symbol_subject", {}, kModuleExecutable);
  const std::uint32_t split = dump->add_module(CULPRIT_SUBJECT_DIR "/split");
  DeviceRecord device = {};
  device.state = 1;
  dump->add_device(device);
  TimeLineRecord line = {};
  line.state = 2;
  line.bucket_ns = 1000;
  line.used = 2;
  dump->add_time_line(line);
  ContextRecord context = {};
  context.state = ContextState::kAlive;
  dump->add_context(context);
  const std::uint32_t thread = dump->add_thread(100, "worker", ThreadState::kEnded);
  std::vector<std::uint64_t> frames;
  for (std::uint64_t address = 0x1100; address < 0x1800; address += 0x71)
    frames.push_back(DumpBuilder::frame(address % 3 == 0 ? split : module, address));
  const Ref native = dump->add_stack(frames);
  const Ref python =
      dump->add_stack({DumpBuilder::python_frame(dump->add_python_frame("train.py", "step", 7)), frames[0], frames[1]});
  const std::uint16_t api = dump->add_api("cuMemAlloc_v2");
  const Ref mark = dump->add_mark("epoch", MarkKind::kMark, 5);
  const Ref asleep = dump->add_mark("asleep", MarkKind::kMoment, 7, 9, 2);
  dump->add_mark_time(asleep, 1, 7);
  MarkSumsRecord sums = {};
  sums.state = sums.blocks = 2;
  sums.mark = asleep;
  sums.number = 2;
  sums.used = 1;
  sums.shares[0] = {native, 0, Kind::kDevice, 0, 100, 1};
  dump->add_mark_sums(sums);
  sums.block = 1;
  dump->add_mark_sums(sums);
  const Ref label = dump->add_label(mark, dump->add_mark("range", MarkKind::kRange, 6));
  ThrowRecord thrown = {};
  thrown.state = 1;
  thrown.type = dump->add_string("St13runtime_error");
  thrown.what = dump->add_string("NaN");
  thrown.stack = thrown.catch_stack = native;
  thrown.flags = kThrowCaught;
  thrown.count = 1;
  FailedCallRecord failed = {};
  failed.state = 1;
  failed.stack = native;
  failed.api = api;
  failed.count = 1;
  ErrorRecord error = {};
  error.state = 1;
  error.type = ErrorType::kDoubleFree;
  error.stack = error.allocation_stack = error.free_stack = native;
  error.count = 1;
  EvidenceRecord evidence = {};
  evidence.state = 1;
  evidence.error = dump->add_error(error);
  Ref reasons[4] = {};
  reasons[1] = dump->add_evidence(evidence);
  evidence = {};
  evidence.state = 1;
  evidence.thrown = dump->add_throw(thrown);
  evidence.thrown_owner = 2;
  reasons[2] = dump->add_evidence(evidence);
  evidence = {};
  evidence.state = 1;
  evidence.failed_call = dump->add_failed_call(failed);
  reasons[3] = dump->add_evidence(evidence);
  for (const Ref reason : reasons) {
    AllocationRecord record = live_allocation(reason == reasons[2] ? python : native, 4096 + reason);
    record.api = api;
    record.thread = thread;
    record.label = label;
    record.evidence = reason;
    const Ref made = dump->add_allocation(record);
    if (reason != 0) continue;
    HolderRecord holder = {};
    holder.state = record.state;
    holder.allocation = made;
    holder.place = DumpBuilder::frame(module, 0x4010);
    dump->add_holder(holder);
    LastHolderRecord last = {};
    last.state = record.state;
    last.allocation = made;
    last.place = holder.place;
    last.offset = -24;
    last.depth = 1;
    dump->add_last_holder(last);
  }
  dump->add_allocation(live_allocation(native, 0, Kind::kStream));
  ReleaseRecord release = {};
  release.state = 1;
  release.stack = release.teardown_stack = native;
  release.count = 2;
  release.bytes = 100;
  release.evidence = reasons[3];
  release.label = label;
  dump->add_release(release);
  for (const SharingType type : {SharingType::kIpcHandle, SharingType::kFileDescriptor}) {
    for (const SharingRole role : {SharingRole::kExport, SharingRole::kImport}) {
      SharingRecord sharing = {};
      sharing.state = 1;
      sharing.type = type;
      sharing.role = role;
      sharing.key = type == SharingType::kIpcHandle ? 77 : 0;
      sharing.bytes = 4096;
      sharing.time_ns = static_cast<std::uint64_t>(role);
      sharing.ended_ns = role == SharingRole::kExport ? 5 : 0;
      sharing.count = 1;
      sharing.stack = sharing.export_stack = sharing.end_stack = native;
      dump->add_sharing(sharing);
    }
  }
  BreakdownRecord breakdown = {};
  breakdown.state = 1;
  breakdown.reason = BreakdownReason::kOutOfMemory;
  breakdown.stack = native;
  breakdown.times = 1;
  breakdown.live_bytes = 4096;
  breakdown.shares[0] = {native, api, Kind::kDevice, 0, 4096, 1};
  dump->add_breakdown(breakdown);
}

std::ofstream file(const std::filesystem::path& folder, const std::string& target, const std::string& name) {
  std::filesystem::create_directories(folder / target);
  return std::ofstream(folder / target / name, std::ios::binary);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "make_corpus FOLDER\n";
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  ReportMerger merger;
  std::vector<Report> reports;
  LoadOptions options;
  options.machine.proc = "/nonexistent";
  for (const unsigned rank : {1U, 2U}) {
    DumpBuilder dump;
    fill(&dump, rank);
    file(folder, "dump", "rank" + std::to_string(rank))
        .write(dump.bytes().data(), static_cast<std::streamsize>(dump.bytes().size()));
    const Dump read = Dump::from_bytes(dump.bytes().data(), dump.bytes().size(), "a.dump");
    reports.push_back(load_report(read, options));
    merger.add(load_report(read, options));
  }
  DumpBuilder empty;
  file(folder, "dump", "empty").write(empty.bytes().data(), static_cast<std::streamsize>(empty.bytes().size()));
  file(folder, "merged", "job");
  write_merged_file((folder / "merged" / "job").string(), merger.finish(false));
  std::ofstream json = file(folder, "report_json", "reports");
  find_format("json")->write(reports, RenderOptions(), json);
  reports.resize(1);
  json = file(folder, "report_json", "report");
  find_format("json")->write(reports, RenderOptions(), json);
  file(folder, "baseline", "baseline");
  std::filesystem::remove(folder / "baseline" / "baseline");
  write_baseline((folder / "baseline" / "baseline").string(), baseline_of(reports, true));
  file(folder, "suppressions", "rules") << "# known\nleak:^Solver::*step$\nmax-bytes:64K\nmodule:libsolver\n"
                                           "cause:never-freed\nkind:device\n";
  file(folder, "options", "report") << "report\n--format\njson\n--min-bytes\n1.5GiB\na.dump\n";
  file(folder, "options", "run") << "run\n--fail-call\ncuMemAlloc_v2:1:2\n--allow-growth\n10%\n--\n./app\n";
  file(folder, "patterns", "pattern") << "^*a*b?c$\naaaabbbb\n";
  file(folder, "patterns", "path") << "a%p.%q{RANK}[*]%%.dump\n";
  file(folder, "patterns", "symbol") << "_Z1f1A1BIS_S_E1BIS1_S1_E1BIS3_S3_E _ZNSt6vectorIiSaIiEE9push_backERKi\n"
                                        "_ZZ5tablevE5cache.1 St13runtime_error\n";
  return 0;
}
