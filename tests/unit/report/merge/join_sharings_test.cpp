// Memory that one process of a job gave to another one.
#include "report/merge/join_sharings.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "report/findings/sharing_words.h"
#include "report/merge/load_many.h"
#include "report/merge/merged_file.h"
#include "report/merge/report_merger.h"
#include "report/render/json/render_json.h"
#include "report/render/text/render_text.h"
#include "report/select/render_options.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/report/fixture.h"
#include "tests/unit/report/shell.h"

using namespace culprit::report;
using namespace culprit::format;
using namespace culprit::test;

namespace {

constexpr std::uint64_t kMiB = 1 << 20;

struct Process : Program {
  explicit Process(unsigned number, bool rank = true) {
    dump.header().pid = 100 + number;
    dump.header().rank = rank ? number + 1 : 0;
    dump.header().job_size = rank ? 3 : 0;
    dump.header().start_realtime_ns = 1000000000000 + number;
    std::snprintf(dump.header().host, sizeof(Header::host), "node");
    DeviceRecord device = {};
    device.state = 1;
    device.uuid[0] = 7;
    dump.add_device(device);
  }
  Process& exports(std::uint64_t key, std::uint64_t time_ns, std::uint64_t freed_ns = 0,
                   std::uint64_t bytes = 512 * kMiB, SharingType type = SharingType::kIpcHandle) {
    SharingRecord record = sharing(key, time_ns, type, SharingRole::kExport);
    record.bytes = bytes;
    record.stack = stack({"allocate", "main"}, 4);
    record.export_stack = stack({"give", "main"}, 5);
    record.end_stack = freed_ns != 0 ? stack({"free_it", "main"}, 7) : 0;
    record.ended_ns = freed_ns;
    dump.add_sharing(record);
    return *this;
  }
  Process& opens(std::uint64_t key, std::uint64_t time_ns, std::uint64_t bytes = 0,
                 SharingType type = SharingType::kIpcHandle) {
    SharingRecord record = sharing(key, time_ns, type, SharingRole::kImport);
    record.bytes = bytes;
    record.kind = Kind::kIpcMemory;
    record.stack = stack({"open_it", "main"}, 9);
    dump.add_sharing(record);
    return *this;
  }
  Process& runs() {
    dump.header().process_state = ProcessState::kRunning;
    return *this;
  }

 private:
  static SharingRecord sharing(std::uint64_t key, std::uint64_t time_ns, SharingType type, SharingRole role) {
    SharingRecord record = {};
    record.state = 1;
    record.type = type;
    record.role = role;
    record.key = key;
    record.time_ns = time_ns;
    record.count = 1;
    return record;
  }
};

// Of separate reports.
std::vector<Report> joined(std::vector<Report> reports) {
  std::vector<Report*> all;
  for (Report& report : reports) all.push_back(&report);
  join_sharings(all);
  return reports;
}

Report job_of(std::vector<Report> reports) {
  ReportMerger merger;
  for (Report& report : reports) merger.add(std::move(report));
  return merger.finish(false);
}

Report joined_job(std::vector<Report> reports) {
  Report report = job_of(std::move(reports));
  join_sharings({&report});
  return report;
}

std::string text_with_resources(const Report& report, bool all = false) {
  std::ostringstream out;
  RenderOptions options;
  options.resources = true;
  options.all = all;
  render_text({report}, options, out);
  return out.str();
}

nlohmann::json parsed_json(const Report& report) {
  std::ostringstream out;
  render_json({report}, out);
  return nlohmann::json::parse(out.str());
}

}  // namespace

TEST_CASE("memory that was freed while another rank had it open is named with both lines", "[report][sharing]") {
  Process exporter(0), importer(1);
  exporter.exports(77, 10, 30);
  importer.opens(77, 20);
  const Report report = joined_job({exporter.report(), importer.report()});
  REQUIRE(report.shared.size() == 1);
  CHECK(report.shared[0].state == SharedState::kStays);
  CHECK(text_with_resources(report).find(
            "SHARED MEMORY: freed by rank 0 at app.cu:7, still mapped by rank 1 when it ended, opened "
            "at app.cu:9: 512 MiB stayed\n") != std::string::npos);
  const auto json = parsed_json(report)["shared"];
  REQUIRE(json.size() == 1);
  CHECK(json[0]["state"] == "stays");
  CHECK(json[0]["type"] == "ipc-handle");
  CHECK(json[0]["certain"] == true);
  CHECK(json[0]["bytes"] == 512 * kMiB);
  CHECK(json[0]["exporter"]["process"] == 0);
  CHECK(json[0]["exporter"]["rank"] == 0);
  CHECK(json[0]["exporter"]["freed_ns"] == 30);
  CHECK(json[0]["exporter"]["stack"][0]["function"] == "give");
  CHECK(json[0]["exporter"]["allocation_stack"][0]["function"] == "allocate");
  CHECK(json[0]["exporter"]["free_stack"][0]["function"] == "free_it");
  CHECK(json[0]["importer"]["process"] == 1);
  CHECK(json[0]["importer"]["running"] == false);
  CHECK(json[0]["importer"]["stack"][0]["function"] == "open_it");
  CHECK(json[0]["text"] == shared_memory_text(report.shared[0]));
}

TEST_CASE("the sentence of memory that another process maps", "[report][sharing]") {
  struct Row {
    std::string name;
    Process exporter, importer;
    std::string text;
  };
  std::vector<Row> rows;
  rows.push_back({"both run", std::move(Process(0).exports(7, 1, 3).runs()), std::move(Process(1).opens(7, 2).runs()),
                  "freed by rank 0 at app.cu:7, still mapped by rank 1, opened at app.cu:9: 512 MiB stay"});
  rows.push_back({"not freed", std::move(Process(0).exports(7, 1).runs()), std::move(Process(1).opens(7, 2).runs()),
                  "still mapped by rank 1, opened at app.cu:9, exported by rank 0 at app.cu:5: 512 MiB"});
  rows.push_back({"the exporter ended", std::move(Process(0).exports(7, 1)), std::move(Process(1).opens(7, 2).runs()),
                  "of rank 0, which has ended, still mapped by rank 1, opened at app.cu:9: 512 MiB stay"});
  rows.push_back({"no export", std::move(Process(0).exports(8, 1)), std::move(Process(1).opens(7, 2).runs()),
                  "still mapped by rank 1, opened at app.cu:9, its export is in no dump here: memory of unknown size"});
  rows.push_back({"exported later", std::move(Process(0).exports(7, 3000000000)),
                  std::move(Process(1).opens(7, 2).runs()),
                  "still mapped by rank 1, opened at app.cu:9, its export is in no dump here: memory of unknown size"});
  rows.push_back({"a descriptor", std::move(Process(0).exports(0, 1, 3, 512 * kMiB, SharingType::kFileDescriptor)),
                  std::move(Process(1).opens(0, 2, 512 * kMiB, SharingType::kFileDescriptor).runs()),
                  "freed by rank 0 at app.cu:7, still mapped by rank 1, opened at app.cu:9: 512 MiB may stay"});
  rows.push_back({"a descriptor of another size",
                  std::move(Process(0).exports(0, 1, 3, 512 * kMiB, SharingType::kFileDescriptor)),
                  std::move(Process(1).opens(0, 2, 2 * kMiB, SharingType::kFileDescriptor).runs()),
                  "still mapped by rank 1, opened at app.cu:9, its export is in no dump here: 2.00 MiB"});
  for (Row& row : rows) {
    INFO(row.name);
    std::vector<Report> reports = {row.exporter.report(), row.importer.report()};
    // Whether a process runs is asked of the machine.
    if (row.exporter.dump.header().process_state == ProcessState::kRunning)
      reports[0].process.status.ended = Ended::kRunning;
    reports[1].process.status.ended = Ended::kRunning;
    const Report report = joined_job(std::move(reports));
    REQUIRE(report.shared.size() == 1);
    CHECK(shared_memory_text(report.shared[0]) == row.text);
  }
}

TEST_CASE("of descriptors of the same size one that was not freed is taken for the export", "[report][sharing]") {
  constexpr SharingType kType = SharingType::kFileDescriptor;
  Process exporter(0), other(2), importer(1);
  exporter.exports(0, 5, 30, kMiB, kType);
  importer.opens(0, 20, kMiB, kType).exports(0, 6, 0, kMiB, kType);
  SECTION("all were freed") {
    other.exports(0, 1, 40, kMiB, kType);
    const Report report = joined_job({exporter.report(), importer.report(), other.report()});
    CHECK(report.shared.at(0).state == SharedState::kStays);
    CHECK_FALSE(report.shared[0].certain);
    CHECK(report.shared[0].exporter->rank == 0);
    CHECK(text_with_resources(report).find("MiB may have stayed") != std::string::npos);
  }
  SECTION("one was not") {
    other.exports(0, 1, 0, kMiB, kType);
    const Report report = joined_job({exporter.report(), importer.report(), other.report()});
    CHECK(report.shared.at(0).state == SharedState::kOpen);
    CHECK(report.shared[0].exporter->rank == 2);
    CHECK(text_with_resources(report).find("SHARED MEMORY") == std::string::npos);
  }
}

TEST_CASE("the importer's resource says who exported it", "[report][sharing]") {
  Process exporter(0), importer(1);
  exporter.exports(77, 10);
  importer.opens(77, 20);
  importer.dump.add_allocation(live_allocation(importer.stack({"open_it", "main"}, 9), 0, Kind::kIpcMemory));
  const std::string text = text_with_resources(joined_job({exporter.report(), importer.report()}));
  CHECK(text.find("shared     exported by rank 0 at app.cu:5: 512 MiB\n") != std::string::npos);
}

TEST_CASE("processes that are no ranks are joined, too, and each report has the entry", "[report][sharing]") {
  Process exporter(0, false), importer(1, false);
  exporter.exports(77, 10, 30);
  importer.opens(77, 20);
  const std::vector<Report> reports = joined({exporter.report(), importer.report()});
  for (const Report& report : reports) {
    REQUIRE(report.shared.size() == 1);
    CHECK(shared_memory_text(report.shared[0]) ==
          "freed by process 100 at app.cu:7, still mapped by process 101 when it ended, opened at app.cu:9: 512 MiB "
          "stayed");
  }
  CHECK_FALSE(reports[0].shared[0].importer.in_report);
  CHECK(reports[0].shared[0].exporter->in_report);
  CHECK_FALSE(parsed_json(reports[0])["shared"][0]["exporter"].contains("process"));
}

TEST_CASE("equal entries are added up, and memory that is opened twice stays once", "[report][sharing]") {
  Process exporter(0), importer(1);
  const Ref freed = exporter.stack({"free_it", "main"}, 7);
  const Ref opened = importer.stack({"open_it", "main"}, 9);
  for (std::uint64_t key = 1; key <= 3; ++key) {
    SharingRecord record = {};
    record.state = 1;
    record.type = SharingType::kPoolPointer;
    record.role = SharingRole::kExport;
    record.key = key;
    record.bytes = 10 * key;
    record.ended_ns = 5;
    record.stack = record.export_stack = record.end_stack = freed;
    exporter.dump.add_sharing(record);
    record.role = SharingRole::kImport;
    record.bytes = record.ended_ns = 0;
    record.stack = opened;
    record.export_stack = record.end_stack = 0;
    importer.dump.add_sharing(record);
    if (key == 3) importer.dump.add_sharing(record);
  }
  const Report report = joined_job({exporter.report(), importer.report()});
  REQUIRE(report.shared.size() == 1);
  CHECK(report.shared[0].count == 3);
  CHECK(report.shared[0].bytes == 60);
  CHECK(shared_memory_text(report.shared[0]).find(": 60 B in 3 allocations stayed") != std::string::npos);
}

TEST_CASE("another host has other handles, except for fabric handles, and a process does not give to itself",
          "[report][sharing]") {
  const SharingType type = GENERATE(SharingType::kIpcHandle, SharingType::kFabricHandle);
  Process exporter(0), importer(1);
  exporter.exports(77, 10, 30, kMiB, type).opens(77, 40, 0, type);
  importer.opens(77, 20, 0, type);
  std::snprintf(importer.dump.header().host, sizeof(Header::host), "other");
  const Report report = joined_job({exporter.report(), importer.report()});
  REQUIRE(report.shared.size() == 1);
  CHECK(report.shared[0].importer.rank == 1);
  CHECK(report.shared[0].exporter.has_value() == (type == SharingType::kFabricHandle));
}

TEST_CASE("joining does not mind the order, and works from merged files", "[report][sharing]") {
  Process a(0), b(1), c(2);
  a.exports(1, 10, 30).opens(3, 50);
  b.exports(2, 11).opens(1, 20);
  c.exports(3, 12, 60).opens(2, 20).opens(1, 21);
  const nlohmann::json expected = parsed_json(joined_job({a.report(), b.report(), c.report()}))["shared"];
  REQUIRE(expected.size() == 4);
  CHECK(parsed_json(joined_job({c.report(), a.report(), b.report()}))["shared"] == expected);
  TemporaryFolder folder;
  write_merged_file(folder.file("ab"), job_of({b.report(), a.report()}));
  CHECK(parsed_json(joined_job({c.report(), read_merged_file(folder.file("ab"), {})}))["shared"] == expected);
}

TEST_CASE("records of shared memory that make no sense are left out", "[report][sharing][damage]") {
  Process process(0);
  SharingRecord record = {};
  record.state = 1;
  record.type = SharingType::kIpcHandle;
  record.role = SharingRole::kImport;
  record.stack = record.export_stack = 0xfffffff0;
  process.dump.add_sharing(record);  // without a stack
  record.role = static_cast<SharingRole>(9);
  process.dump.add_sharing(record);
  record.role = SharingRole::kExport;
  record.type = static_cast<SharingType>(200);
  process.dump.add_sharing(record);
  record.type = SharingType::kIpcHandle;
  record.bytes = ~0ULL;
  process.dump.add_sharing(record);
  const Report report = joined({process.report()})[0];
  REQUIRE(report.sharings.size() == 1);
  REQUIRE(report.shared.size() == 1);
  CHECK(shared_memory_text(report.shared[0]) ==
        "still mapped by rank 0 when it ended, opened, its export is in no dump here: memory of unknown "
        "size");
  CHECK_FALSE(text_with_resources(report).empty());
}

TEST_CASE("ever so many equal records take no time, and few entries are kept", "[report][sharing][damage]") {
  const SharingType type = GENERATE(SharingType::kIpcHandle, SharingType::kFileDescriptor);
  Process exporter(0), importer(1);
  SharingRecord record = {};
  record.state = 1;
  record.type = type;
  record.key = type == SharingType::kIpcHandle ? 5 : 0;
  record.bytes = 4096;
  for (unsigned i = 0; i < 20000; ++i) {
    record.role = SharingRole::kExport;
    record.ended_ns = 5;
    exporter.dump.add_sharing(record);
    record.role = SharingRole::kImport;
    record.stack = importer.dump.add_stack({DumpBuilder::frame(importer.module, i + 1)});
    importer.dump.add_sharing(record);
    record.stack = 0;
  }
  const Report report = joined_job({exporter.report(), importer.report()});
  CHECK(report.shared.size() == 1000);
  REQUIRE(report.notes.size() >= 1);
  CHECK(report.notes.back() == "too many mappings of other processes' memory: 7192 entries are left out");
}
