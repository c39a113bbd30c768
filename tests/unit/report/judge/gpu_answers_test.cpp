// NVML's answers next to a dump.
#include "report/load/gpu_answers.h"

#include <filesystem>
#include <fstream>

#include "report/judge/breakdowns.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"
#include "tests/unit/report/fixture.h"

using namespace culprit::report;
using namespace culprit::test;

namespace {

GpuAnswer answer_at(std::uint64_t asked_ns, unsigned device = 0) {
  GpuAnswer answer;
  answer.device = device;
  answer.charges.asked_ns = asked_ns;
  answer.charges.own_known = true;
  answer.charges.own_bytes = asked_ns;
  answer.charges.others = {{7, "a\nb", true, 5}, {8, "", false, 0}};
  return answer;
}

Breakdown failed_at(std::uint64_t time_ns, std::optional<unsigned> device = 0) {
  Breakdown breakdown;
  breakdown.out_of_memory = true;
  breakdown.device = device;
  breakdown.time_ns = time_ns;
  return breakdown;
}

struct DumpFile {
  TemporaryFolder folder;
  std::string path = folder.file("a.dump");
  DumpBuilder builder;
  DumpFile() { builder.write(path); }
  std::vector<GpuAnswer> read(std::string* problem) const { return read_gpu_answers(Dump::open(path), problem); }
  void write(const std::string& text) const { std::ofstream(gpu_answers_path(path)) << text; }
};

}  // namespace

TEST_CASE("a failure gets the first answer after it on its device", "[report][gpu-users]") {
  std::vector<Breakdown> breakdowns = {failed_at(10), failed_at(11), failed_at(30), failed_at(10, 1),
                                       failed_at(10, std::nullopt)};
  breakdowns.push_back(failed_at(1));
  breakdowns.back().out_of_memory = false;
  add_charges({answer_at(10), answer_at(20), answer_at(15, 1)}, &breakdowns);
  REQUIRE(breakdowns[0].charges.size() == 1);
  CHECK(breakdowns[0].charges[0].asked_ns == 10);
  CHECK(breakdowns[1].charges[0].asked_ns == 20);
  CHECK(breakdowns[2].charges.empty());
  CHECK(breakdowns[3].charges[0].asked_ns == 15);
  CHECK(breakdowns[4].charges.empty());
  CHECK(breakdowns[5].charges.empty());
}

TEST_CASE("answers are read as they were written, and belong to one dump", "[report][gpu-users]") {
  const DumpFile file;
  std::string problem;
  CHECK(file.read(&problem).empty());
  const culprit::format::Header header = Dump::open(file.path).header();
  write_gpu_answers(file.path, header, {answer_at(20), answer_at(10, 3)});
  const std::vector<GpuAnswer> read = file.read(&problem);
  REQUIRE(read.size() == 2);
  CHECK(read[0].device == 3);
  CHECK(read[1].charges.asked_ns == 20);
  CHECK(read[1].charges.own_known);
  CHECK(read[1].charges.own_bytes == 20);
  REQUIRE(read[1].charges.others.size() == 2);
  CHECK(read[1].charges.others[0].name == "a\nb");
  CHECK(read[1].charges.others[0].bytes == 5);
  CHECK_FALSE(read[1].charges.others[1].bytes_known);
  // A file of an earlier dump of this name is none of this one.
  culprit::format::Header other = header;
  other.start_realtime_ns += 1;
  write_gpu_answers(file.path, other, {answer_at(20)});
  CHECK(file.read(&problem).empty());
  CHECK(problem.empty());
}

TEST_CASE("answers may be read by those who may read the dump", "[report][gpu-users]") {
  namespace fs = std::filesystem;
  const DumpFile file;
  fs::permissions(file.path, fs::perms::owner_read | fs::perms::owner_write);
  write_gpu_answers(file.path, Dump::open(file.path).header(), {answer_at(20)});
  CHECK(fs::status(gpu_answers_path(file.path)).permissions() == (fs::perms::owner_read | fs::perms::owner_write));
}

TEST_CASE("hostile files of answers", "[report][gpu-users]") {
  const DumpFile file;
  const culprit::format::Header header = Dump::open(file.path).header();
  const std::string head = "{\"schema\":\"culprit.gpu/1\",\"pid\":" + std::to_string(header.pid) +
                           ",\"start_realtime_ns\":" + std::to_string(header.start_realtime_ns) + ",\"answers\":";
  std::string problem;
  for (const char* text : {"", "{", "[1]", "{\"schema\":\"culprit.gpu/2\"}"}) {
    problem.clear();
    file.write(text);
    CHECK(file.read(&problem).empty());
    CHECK(contains(problem, "and was left out"));
  }
  problem.clear();
  for (const char* text : {"7}", "{}}", "[[]]}", "[\"x\"]}"}) {
    file.write(head + text);
    CHECK(file.read(&problem).empty());
  }
  file.write(head +
             "[{\"device\":-1,\"asked_ns\":1e99,\"own_bytes\":18446744073709551615,\"others\":[7,{\"pid\":"
             "99999999999,\"bytes\":-5,\"name\":[]},{}]}]}");
  const std::vector<GpuAnswer> read = file.read(&problem);
  REQUIRE(read.size() == 1);
  CHECK_FALSE(read[0].charges.own_known);
  REQUIRE(read[0].charges.others.size() == 2);
  CHECK_FALSE(read[0].charges.others[0].bytes_known);
  std::string many = head + "[";
  for (int i = 0; i < 5000; ++i) many += std::string(i == 0 ? "" : ",") + "{\"others\":[{},{}]}";
  file.write(many + "]}");
  CHECK(file.read(&problem).size() <= 64);
  file.write(std::string(5 << 20, ' '));
  CHECK(file.read(&problem).empty());
  CHECK(contains(problem, "larger than"));
}
