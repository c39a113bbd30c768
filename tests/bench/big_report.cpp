// Writes a large dump and its libraries, for measurements of `culprit report`:
//
//     big_report FOLDER [ALLOCATIONS [STACKS]]      default: 1,000,000 live allocations, 100,000 stacks of 32 frames
//
// FOLDER/big.dump refers to FOLDER/libsymbols.so (1 GiB, a symbol table of 1,200,000 functions) and FOLDER/libdwarf.so
// (100 MiB, with DWARF), which are written too. The stacks contain 40,000 addresses, half of them in each library.
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
constexpr std::size_t kPlaces = 40000;

void write(const std::filesystem::path& folder, std::uint64_t allocations, std::uint64_t stack_count) {
  const bench::BigLibrary libraries[] = {
      bench::write_symbol_library(folder / "libsymbols.so", 1200000, std::uint64_t{1} << 30),
      bench::write_dwarf_library(folder / "libdwarf.so", 480, 330)};
  std::mt19937_64 random(1);
  DumpBuilder dump;
  std::vector<std::uint64_t> places;
  std::uint32_t modules[2];
  for (int i = 0; i < 2; ++i) modules[i] = dump.add_module(libraries[i].path, libraries[i].build_id);
  for (std::size_t i = 0; i < kPlaces; ++i) {
    const bench::BigLibrary& library = libraries[i % 2];
    // Inside a function, never at its first byte: these are return addresses.
    const std::uint64_t function = random() % ((library.code_end - library.code_begin) / bench::kFunctionBytes);
    const std::uint64_t address = library.code_begin + function * bench::kFunctionBytes + 8 + random() % 224;
    places.push_back(DumpBuilder::frame(modules[i % 2], address));
  }
  // Programs come from few outer functions to many inner ones.
  std::vector<culprit::format::Ref> stacks;
  for (std::uint64_t i = 0; i < stack_count; ++i) {
    std::vector<std::uint64_t> frames;
    for (std::size_t j = 0; j < kFrames; ++j) {
      const std::size_t choice = j < 8 ? places.size() : j < 24 ? 4000 : 50;
      frames.push_back(places[random() % choice]);
    }
    stacks.push_back(dump.add_stack(frames));
  }
  const std::uint32_t thread = dump.add_thread(4242, "main");
  culprit::format::AllocationRecord record = {};
  record.kind = culprit::format::Kind::kDevice;
  record.api = dump.add_api("cuMemAlloc_v2");
  record.thread = thread;
  for (std::uint64_t i = 0; i < allocations; ++i) {
    record.state = 1 << culprit::format::kStateBits | 1;
    record.stack = stacks[random() % stacks.size()];
    record.handle = 0x700000000000 + i * 512;
    record.bytes = 512 + random() % 100000;
    record.time_ns = i * 1000;
    dump.add_allocation(record);
  }
  dump.header().allocations = allocations;
  dump.write(folder / "big.dump");
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t allocations = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1000000;
  const std::uint64_t stacks = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 100000;
  if (argc < 2 || argc > 4 || allocations == 0 || stacks == 0) {
    std::fprintf(stderr, "usage: big_report FOLDER [ALLOCATIONS [STACKS]]\n");
    return 2;
  }
  try {
    write(std::filesystem::absolute(argv[1]), allocations, stacks);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "big_report: %s\n", error.what());
    return 1;
  }
  return 0;
}
