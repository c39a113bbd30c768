#include "report/attach/read_ahead.h"

#include <elf.h>
#include <sys/mman.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "report/proc/loaded_library.h"

namespace culprit::report {
namespace {

constexpr int kPopulateRead = 22;  // MADV_POPULATE_READ of Linux 5.14

constexpr std::size_t kPieceBytes = 1 << 20;
constexpr std::size_t kMostOfSection = 128;           // of a dynamic section
constexpr std::uint64_t kMostOfTable = 256ULL << 20;  // the memory of another process may have any content

void read_through(const TracedProcess& process, std::uint64_t begin, std::uint64_t bytes) {
  std::vector<char> part(kPieceBytes);
  if (bytes > kMostOfTable) return;
  for (std::uint64_t done = 0; done < bytes; done += kPieceBytes) {
    if (!process.read_memory(begin + done, part.data(), std::min<std::uint64_t>(kPieceBytes, bytes - done))) return;
  }
}

}  // namespace

void read_file_ahead(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> part(kPieceBytes);
  while (file.read(part.data(), static_cast<std::streamsize>(part.size()))) {
  }
}

void read_own_code_ahead() {
  for (const MappedRange& range : mappings_of(ProcessFolder("/proc", "self"))) {
    if (range.inode == 0 || !range.readable || range.shared) continue;
    ::madvise(reinterpret_cast<void*>(range.begin), range.end - range.begin, kPopulateRead);
  }
}

void read_references_ahead(const TracedProcess& process, const std::vector<std::uint64_t>& sections) {
  for (const std::uint64_t section : sections) {
    std::map<Elf64_Sxword, std::uint64_t> values;
    Elf64_Dyn entry = {};
    for (std::size_t i = 0; i < kMostOfSection; ++i) {
      if (!process.read_memory(section + i * sizeof(entry), &entry, sizeof(entry)) || entry.d_tag == DT_NULL) break;
      values[entry.d_tag] = entry.d_un.d_val;
    }
    // The loader has made addresses of them. The names follow the symbols.
    read_through(process, values[DT_RELA], values[DT_RELASZ]);
    read_through(process, values[DT_JMPREL], values[DT_PLTRELSZ]);
    read_through(process, values[DT_SYMTAB], values[DT_STRTAB] - values[DT_SYMTAB]);
    read_through(process, values[DT_STRTAB], values[DT_STRSZ]);
  }
}

}  // namespace culprit::report
