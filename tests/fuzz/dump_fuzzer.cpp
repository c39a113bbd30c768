// Dumps, with real symbol look-up in a program of the build. The mutator keeps the chunks of a dump in place and
// changes fields of its records, most of which are references, counts and sizes.
#include <cstring>
#include <random>

#include "interpose/format/dump_format.h"
#include "report/base/file_error.h"
#include "report/dump/dump_error.h"
#include "report/dump/dump_reader.h"
#include "report/judge/load_report.h"
#include "report/merge/join_sharings.h"
#include "report/select/marked_list.h"
#include "report/symbols/shared_symbols.h"
#include "tests/fuzz/fuzz.h"

using namespace culprit;
using namespace culprit::format;

namespace {

std::uint64_t field_value(std::mt19937& random, const std::uint8_t* data, std::size_t size) {
  switch (random() % 6) {
    case 0:
      return 0;
    case 1:
      return ~std::uint64_t{0} >> (random() % 64);
    case 2:
      return random() % 300;
    case 3:  // a reference to some record
      return random() % (size / kRefUnit);
    case 4: {  // a word from elsewhere in the input
      std::uint64_t value = 0;
      std::memcpy(&value, data + random() % (size / 8) * 8, sizeof(value));
      return value;
    }
    default:  // an address in some module
      return std::uint64_t{random() % 4} << kFrameModuleShift | (random() % 0x8000);
  }
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most,
                                               unsigned int seed) {
  std::mt19937 random(seed);
  if (size < kHeaderBytes || random() % 16 == 0) return LLVMFuzzerMutate(data, size, most);
  struct Part {
    std::size_t begin;
    std::size_t bytes;
  };
  std::vector<Part> parts = {{sizeof(kMagic), kUsedHeaderBytes - sizeof(kMagic)}};
  for (std::size_t at = kHeaderBytes; at + sizeof(ChunkHeader) < size;) {
    ChunkHeader chunk;
    std::memcpy(&chunk, data + at, sizeof(chunk));
    if (chunk.magic != kChunkMagic || chunk.bytes < kChunkAlignment || chunk.bytes > size - at) break;
    const std::uint64_t used = std::min<std::uint64_t>(chunk.used, chunk.bytes - sizeof(ChunkHeader));
    if (random() % 32 == 0) parts.push_back({at, sizeof(ChunkHeader)});
    if (used >= 8) parts.push_back({at + sizeof(ChunkHeader), used});
    at += chunk.bytes;
  }
  for (unsigned changes = 1 + random() % 8; changes > 0; --changes) {
    const Part& part = parts[random() % parts.size()];
    const std::size_t width = std::size_t{1} << (random() % 4);
    const std::size_t at = part.begin + random() % (part.bytes / width) * width;
    if (random() % 8 == 0) {
      const std::size_t bytes = std::min<std::size_t>(part.begin + part.bytes - at, 64);
      LLVMFuzzerMutate(data + at, bytes, bytes);
    } else {
      const std::uint64_t value = field_value(random, data, size);
      std::memcpy(data + at, &value, width);
    }
  }
  return size;
}

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // The program is read once for each new address.
  static report::SymbolOptions symbol_options = [] {
    report::SymbolOptions options;
    options.threads = 1;
    return options;
  }();
  static report::SharedSymbols symbols(
      [](std::vector<report::ModuleSymbols>& modules) { report::look_up_symbols(modules, symbol_options); });
  std::vector<std::uint64_t> aligned((size + 15) / 16 * 2);
  if (size != 0) std::memcpy(aligned.data(), data, size);
  try {
    report::LoadOptions options;
    options.each = true;
    options.lookup = [](std::vector<report::ModuleSymbols>& modules) { symbols.look_up(modules); };
    options.machine.proc = "/nonexistent";
    const report::Dump dump = report::Dump::from_bytes(aligned.data(), size, "fuzz.dump");
    std::vector<report::Report> reports;
    reports.push_back(report::load_report(dump, options));
    // A second process that opened what this one exported.
    reports.push_back(report::load_report(dump, options));
    reports[1].process.pid ^= 1;
    report::join_sharings({&reports[0], &reports[1]});
    fuzz::render_all(reports);
    options.full_stacks = true;
    options.judge.strict = true;
    options.since_mark = "epoch#1";
    options.before_mark = "epoch";
    options.marked = true;
    const report::Report part = report::load_report(dump, options);
    try {
      report::marked_pair(part, "", "asleep");
    } catch (const report::NoSuchMark&) {
    }
  } catch (const report::DumpError&) {
  } catch (const report::FileError&) {
  }
  return 0;
}
