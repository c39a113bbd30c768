#include "report/symbols/elf_limits.h"

#include <gelf.h>
#include <libelf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "report/symbols/dwarf_limits.h"

namespace culprit::report {
namespace {

// Of all compressed sections of a file together, after expansion: so much, and so many times the size of the file. zlib
// and zstd make a quarter of DWARF.
constexpr std::uint64_t kExpandedOfAnyFile = 64 << 20;
constexpr std::uint64_t kExpandedForEachByte = 8;

// A linker's sections are disjoint: they have no more bytes than the file.
constexpr std::uint64_t kSectionsOfAnyFile = 1 << 20;
constexpr std::uint64_t kSectionsForEachByte = 2;

// Units and abbreviations are counted in smaller files only. In larger ones the time limit of ModuleFile serves,
// because counting would delay every report of a big library.
constexpr std::uint64_t kSmallFile = 32 << 20;

struct EndElf {
  void operator()(Elf* elf) const { ::elf_end(elf); }
};

// A section's size after expansion; nothing when it is not compressed, or in a way that is never expanded.
std::optional<std::uint64_t> expanded_bytes(Elf_Scn* section, const GElf_Shdr& header, const char* name) {
  GElf_Chdr compressed;
  if ((header.sh_flags & SHF_COMPRESSED) != 0 && ::gelf_getchdr(section, &compressed) != nullptr)
    return compressed.ch_size;
  if (header.sh_type != SHT_PROGBITS || header.sh_size < 12) return {};
  const Elf_Data* data = ::elf_rawdata(section, nullptr);
  const auto* raw = data == nullptr ? nullptr : static_cast<const unsigned char*>(data->d_buf);
  if (raw == nullptr || data->d_size < 12) return {};
  // The symbols of a stripped program, which libdwfl unpacks whatever they are packed with.
  if (std::strcmp(name, ".gnu_debugdata") == 0) return expanded_xz_bytes(raw, data->d_size).value_or(~std::uint64_t{0});
  // The older way: a section .zdebug_... that begins with "ZLIB" and its size, highest byte first.
  if (!std::equal(raw, raw + 4, "ZLIB")) return {};
  std::uint64_t expanded = 0;
  for (int i = 4; i < 12; ++i) expanded = expanded << 8 | raw[i];
  return expanded;
}

// The names of sections must end with a zero: libelf looks for it from the end, anew for each name.
bool names_end(Elf* elf, std::size_t names) {
  const Elf_Data* data = ::elf_rawdata(::elf_getscn(elf, names), nullptr);
  return data == nullptr || data->d_size == 0 || static_cast<const char*>(data->d_buf)[data->d_size - 1] == '\0';
}

std::string problem_of_sections(Elf* elf, std::uint64_t file_bytes) {
  std::size_t names = 0;
  if (::elf_getshdrstrndx(elf, &names) != 0) return {};
  if (names != 0 && !names_end(elf, names)) return "the names of its sections have no end";
  std::uint64_t expanded_left = kExpandedOfAnyFile + kExpandedForEachByte * file_bytes;
  std::uint64_t left = kSectionsOfAnyFile + kSectionsForEachByte * file_bytes;
  for (Elf_Scn* section = nullptr; (section = ::elf_nextscn(elf, section)) != nullptr;) {
    GElf_Shdr header;
    if (::gelf_getshdr(section, &header) == nullptr || header.sh_type == SHT_NOBITS) continue;
    if (header.sh_size > left) return "its sections overlap";
    left -= header.sh_size;
    const char* name = ::elf_strptr(elf, names, header.sh_name);
    const std::uint64_t expanded = expanded_bytes(section, header, name != nullptr ? name : "").value_or(0);
    if (expanded > expanded_left) return "its sections would expand to too many bytes";
    expanded_left -= expanded;
  }
  return {};
}

bool notes_overlap(Elf* elf, std::uint64_t file_bytes) {
  std::size_t count = 0;
  if (::elf_getphdrnum(elf, &count) != 0) return false;
  std::uint64_t left = file_bytes;
  for (std::size_t i = 0; i < count; ++i) {
    GElf_Phdr header;
    if (::gelf_getphdr(elf, static_cast<int>(i), &header) == nullptr) break;
    if (header.p_type != PT_NOTE) continue;
    if (header.p_filesz > left) return true;
    left -= header.p_filesz;
  }
  return false;
}

}  // namespace

std::optional<std::uint64_t> expanded_xz_bytes(const void* data, std::size_t bytes) {
  static constexpr unsigned char kMagic[] = {0xfd, '7', 'z', 'X', 'Z', 0};
  static constexpr unsigned char kCheckBytes[] = {0, 4, 4, 4, 8, 8, 8, 16, 16, 16, 32, 32, 32, 64, 64, 64};
  constexpr std::size_t kStreamHeader = 12;
  const auto* text = static_cast<const unsigned char*>(data);
  if (bytes < kStreamHeader || !std::equal(std::begin(kMagic), std::end(kMagic), text)) return {};
  const std::size_t check = kCheckBytes[text[7] & 0xf];
  std::uint64_t expanded = 0;
  std::size_t at = kStreamHeader;
  // Blocks of LZMA2, until the index, which begins with 0.
  while (at < bytes && text[at] != 0) {
    at += (text[at] + std::size_t{1}) * 4;
    const std::size_t begin = at;
    for (;;) {
      if (at >= bytes) return {};
      const unsigned control = text[at];
      if (control == 0) break;
      if (bytes - at < 6) return {};
      const std::size_t low = text[at + 1] << 8 | text[at + 2];
      if (control < 0x80) {  // not compressed
        expanded += low + 1;
        at += 3 + low + 1;
        continue;
      }
      expanded += ((control & 0x1fU) << 16 | low) + 1;
      at += (control >= 0xc0 ? 6U : 5U) + (text[at + 3] << 8 | text[at + 4]) + 1U;
    }
    ++at;
    at += (4 - (at - begin) % 4) % 4 + check;
  }
  return expanded;
}

std::string problem_of_elf(int fd, bool split) {
  struct stat info = {};
  char magic[SELFMAG] = {};
  // libdwfl unpacks everything else.
  if (::fstat(fd, &info) != 0 || ::pread(fd, magic, sizeof(magic), 0) != SELFMAG ||
      std::memcmp(magic, ELFMAG, SELFMAG) != 0)
    return "it is no ELF file";
  ::elf_version(EV_CURRENT);
  // Private, because sections are expanded in place.
  const std::unique_ptr<Elf, EndElf> elf(::elf_begin(fd, ELF_C_READ_MMAP_PRIVATE, nullptr));
  GElf_Ehdr header;
  if (elf == nullptr || ::gelf_getehdr(elf.get(), &header) == nullptr) return "it is no ELF file";
  // libdwfl would link an object file first.
  if (!split && header.e_type != ET_DYN && header.e_type != ET_EXEC) return "it is no program and no shared library";
  const auto bytes = static_cast<std::uint64_t>(info.st_size);
  std::string problem = problem_of_sections(elf.get(), bytes);
  if (problem.empty() && notes_overlap(elf.get(), bytes)) problem = "its notes overlap";
  if (problem.empty() && bytes <= kSmallFile) problem = problem_of_dwarf(elf.get(), bytes);
  return problem;
}

}  // namespace culprit::report
