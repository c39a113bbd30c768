// Writes a big dump, to measure `culprit report` with:
//
//     big_dump FILE [ALLOCATIONS [STACKS [FRAMES]]]       by default 1,000,000 allocations from 1,000 stacks of 32
//     frames
//
// The frames stand at random places in this program's own code, so that their symbols, lines and inlined calls are
// real.
#include <link.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/dump_builder.h"

namespace {

struct Code {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// The executable segment of the first object that the loader names, which is the program.
int find_code(dl_phdr_info* info, std::size_t, void* result) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0) {
      *static_cast<Code*>(result) = {segment.p_vaddr, segment.p_vaddr + segment.p_memsz};
    }
  }
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: big_dump FILE [ALLOCATIONS [STACKS [FRAMES]]]\n");
    return 2;
  }
  const std::uint64_t allocations = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1000000;
  const std::uint64_t stack_count = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1000;
  const std::uint64_t frame_count = argc > 4 ? std::strtoull(argv[4], nullptr, 10) : 32;

  Code code;
  dl_iterate_phdr(find_code, &code);
  std::mt19937_64 random(1);
  culprit::test::DumpBuilder dump;
  const std::uint32_t module =
      dump.add_module(std::filesystem::read_symlink("/proc/self/exe").string(), {}, culprit::format::kModuleExecutable);
  // Programs come back to the same few thousand places: stacks share their outer frames.
  std::vector<std::uint64_t> places;
  for (int i = 0; i < 5000; ++i) {
    places.push_back(culprit::test::DumpBuilder::frame(module, code.begin + random() % (code.end - code.begin)));
  }
  std::vector<culprit::format::Ref> stacks;
  for (std::uint64_t i = 0; i < stack_count; ++i) {
    std::vector<std::uint64_t> frames;
    for (std::uint64_t j = 0; j < frame_count; ++j) frames.push_back(places[random() % places.size()]);
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
  dump.write(argv[1]);
  return 0;
}
