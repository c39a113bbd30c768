// Writes the dumps of a job, for measurements of `culprit report` over many ranks:
//
//     many_dumps FOLDER [RANKS [ALLOCATIONS [STACKS [UNITS]]]]   default: 1,024 dumps, each with 10,000 live
//     allocations
//                                                                and 1,000 stacks of 32 frames
//
// FOLDER/rank0000.dump and the others refer to FOLDER/libdwarf.so, with the DWARF of 480 UNITS (100 MiB). All ranks
// have the same stacks, each rank in another order; one rank has ten times the bytes.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <random>

#include "tests/bench/big_elf.h"
#include "tests/support/dump_builder.h"

namespace {

using culprit::test::DumpBuilder;

constexpr std::size_t kFrames = 32;
constexpr std::size_t kPlaces = 4000;
constexpr std::uint64_t kOddRank = 7;

struct Job {
  std::uint64_t ranks = 1024;
  std::uint64_t allocations = 10000;
  std::uint64_t stacks = 1000;
  std::uint64_t units = 480;
};

void write_rank(const std::filesystem::path& folder, const bench::BigLibrary& library, const Job& job,
                std::uint64_t rank) {
  // All ranks run the same program, so they share this generator.
  std::mt19937_64 program(1);
  std::vector<std::vector<std::uint64_t>> stacks(job.stacks);
  std::vector<std::uint64_t> places;
  for (std::size_t i = 0; i < kPlaces; ++i) {
    const std::uint64_t function = program() % ((library.code_end - library.code_begin) / bench::kFunctionBytes);
    places.push_back(
        DumpBuilder::frame(0, library.code_begin + function * bench::kFunctionBytes + 8 + program() % 224));
  }
  for (std::vector<std::uint64_t>& frames : stacks) {
    for (std::size_t j = 0; j < kFrames; ++j) frames.push_back(places[program() % (j < 24 ? kPlaces : 50)]);
  }
  // This rank's own order.
  std::mt19937_64 random(rank + 2);
  DumpBuilder dump;
  dump.add_module(library.path, library.build_id);
  std::vector<culprit::format::Ref> refs;
  for (std::size_t i = 0; i < stacks.size(); ++i) refs.push_back(dump.add_stack(stacks[(i + rank) % stacks.size()]));
  culprit::format::AllocationRecord record = {};
  record.kind = culprit::format::Kind::kDevice;
  record.api = dump.add_api("cuMemAlloc_v2");
  record.thread = dump.add_thread(static_cast<std::uint32_t>(1000 + rank), "main");
  record.device = static_cast<std::uint8_t>(rank % 8);
  for (std::uint64_t i = 0; i < job.allocations; ++i) {
    record.state = 1 << culprit::format::kStateBits | 1;
    record.stack = refs[random() % refs.size()];
    record.handle = 0x700000000000 + i * 512;
    record.bytes = (512 + random() % 100) * (rank == kOddRank ? 10 : 1);
    record.time_ns = i * 1000;
    dump.add_allocation(record);
  }
  culprit::format::Header& header = dump.header();
  header.allocations = job.allocations;
  header.pid = static_cast<std::uint32_t>(1000 + rank);
  header.rank = static_cast<std::uint32_t>(rank + 1);
  header.job_size = static_cast<std::uint32_t>(job.ranks);
  std::snprintf(header.host, sizeof(header.host), "node%03d", static_cast<int>(rank / 8));
  char name[32];
  std::snprintf(name, sizeof(name), "rank%04d.dump", static_cast<int>(rank));
  dump.write(folder / name);
}

}  // namespace

int main(int argc, char** argv) {
  Job job;
  if (argc > 2) job.ranks = std::strtoull(argv[2], nullptr, 10);
  if (argc > 3) job.allocations = std::strtoull(argv[3], nullptr, 10);
  if (argc > 4) job.stacks = std::strtoull(argv[4], nullptr, 10);
  if (argc > 5) job.units = std::strtoull(argv[5], nullptr, 10);
  if (argc < 2 || argc > 6 || job.ranks == 0 || job.allocations == 0 || job.stacks == 0 || job.units == 0) {
    std::fprintf(stderr, "usage: many_dumps FOLDER [RANKS [ALLOCATIONS [STACKS [UNITS]]]]\n");
    return 2;
  }
  try {
    const std::filesystem::path folder = std::filesystem::absolute(argv[1]);
    const bench::BigLibrary library = bench::write_dwarf_library(folder / "libdwarf.so", job.units, 330);
    for (std::uint64_t rank = 0; rank < job.ranks; ++rank) write_rank(folder, library, job, rank);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "many_dumps: %s\n", error.what());
    return 1;
  }
  return 0;
}
