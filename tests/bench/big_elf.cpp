#include "tests/bench/big_elf.h"

#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>

#include "tests/bench/big_dwarf.h"

namespace bench {
namespace {

constexpr std::uint64_t kPage = 4096;

std::uint64_t aligned(std::uint64_t value, std::uint64_t to) { return (value + to - 1) / to * to; }

// "_ZN3app5layerE" of {"app", "layer"} and a parameter list.
std::string mangled(const std::vector<std::string>& scopes, const char* parameters) {
  std::string name = "_ZN";
  for (const std::string& scope : scopes) name += std::to_string(scope.size()) + scope;
  return name + "E" + parameters;
}

// An ELF file: two loaded segments (headers with the build ID, and code) and sections behind them.
class ElfFile {
 public:
  ElfFile(std::string path, std::uint64_t code_bytes) : path_(std::move(path)), code_bytes_(code_bytes) {
    sections_.push_back({});  // number 0 is reserved
    names_ = std::string(1, '\0');
    build_id_.assign(20, 0);
    for (std::size_t i = 0; i < path_.size(); ++i)
      build_id_[i % build_id_.size()] ^= static_cast<std::uint8_t>(path_[i]);
    // The code is all zeros: a hole, on disk as well.
    Elf64_Shdr text = {};
    text.sh_name = add_name(".text");
    text.sh_type = SHT_PROGBITS;
    text.sh_flags = SHF_ALLOC | SHF_EXECINSTR;
    text.sh_addr = kPage;
    text.sh_offset = kPage;
    text.sh_size = code_bytes;
    text.sh_addralign = 16;
    sections_.push_back({text, {}});
  }

  void add_section(const char* name, std::string content, unsigned type = SHT_PROGBITS, unsigned entry = 0,
                   unsigned link = 0, unsigned info = 0) {
    Elf64_Shdr header = {};
    header.sh_name = add_name(name);
    header.sh_type = type;
    header.sh_addralign = 8;
    header.sh_entsize = entry;
    header.sh_link = link;
    header.sh_info = info;
    header.sh_size = content.size();
    sections_.push_back({header, std::move(content)});
  }

  void add_symbols(const std::vector<Elf64_Sym>& symbols, std::string names) {
    std::string table(sizeof(Elf64_Sym), '\0');
    table.append(reinterpret_cast<const char*>(symbols.data()), symbols.size() * sizeof(Elf64_Sym));
    const auto strings = static_cast<unsigned>(sections_.size() + 1);
    add_section(".symtab", std::move(table), SHT_SYMTAB, sizeof(Elf64_Sym), strings, 1);
    add_section(".strtab", std::move(names), SHT_STRTAB);
  }

  // `file_bytes`: the least size; the file ends with a hole up to it.
  BigLibrary write(std::uint64_t file_bytes) {
    add_note();
    add_section(".shstrtab", "", SHT_STRTAB);
    sections_.back().content = names_;
    sections_.back().header.sh_size = names_.size();
    const int fd = ::open(path_.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
    if (fd < 0) throw std::runtime_error(path_ + ": cannot be created");
    std::uint64_t offset = aligned(kPage + code_bytes_, kPage);
    bool good = true;
    for (std::size_t i = 2; i < sections_.size(); ++i) {
      Section& section = sections_[i];
      if (section.header.sh_type == SHT_NOTE) continue;  // lies in the first page
      section.header.sh_offset = offset;
      good = good && put(fd, offset, section.content.data(), section.content.size());
      offset = aligned(offset + section.content.size(), 16);
    }
    good = good && write_headers(fd, offset);
    offset += sections_.size() * sizeof(Elf64_Shdr);
    if (offset < file_bytes) good = good && ::ftruncate(fd, static_cast<off_t>(file_bytes)) == 0;
    good = ::close(fd) == 0 && good;
    if (!good) throw std::runtime_error(path_ + ": cannot be written");
    return {path_, build_id_, kPage, kPage + code_bytes_};
  }

 private:
  struct Section {
    Elf64_Shdr header = {};
    std::string content;
  };
  static constexpr std::uint64_t kNoteAt = 1024;

  static bool put(int fd, std::uint64_t offset, const void* data, std::size_t bytes) {
    const char* at = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t written = ::pwrite(fd, at, bytes, static_cast<off_t>(offset));
      if (written <= 0) return false;
      at += written;
      offset += static_cast<std::uint64_t>(written);
      bytes -= static_cast<std::size_t>(written);
    }
    return true;
  }

  unsigned add_name(const char* name) {
    const std::size_t at = names_.size();
    names_ += name;
    names_ += '\0';
    return static_cast<unsigned>(at);
  }

  void add_note() {
    const Elf64_Nhdr head = {4, static_cast<Elf64_Word>(build_id_.size()), NT_GNU_BUILD_ID};
    std::string note(reinterpret_cast<const char*>(&head), sizeof(head));
    note.append("GNU", 4);
    note.append(build_id_.begin(), build_id_.end());
    add_section(".note.gnu.build-id", std::move(note), SHT_NOTE);
    Elf64_Shdr& header = sections_.back().header;
    header.sh_flags = SHF_ALLOC;
    header.sh_addr = header.sh_offset = kNoteAt;
    header.sh_addralign = 4;
  }

  bool write_headers(int fd, std::uint64_t section_headers_at) {
    const Section& note = sections_[sections_.size() - 2];
    Elf64_Ehdr elf = {};
    std::memcpy(elf.e_ident, ELFMAG, SELFMAG);
    elf.e_ident[EI_CLASS] = ELFCLASS64;
    elf.e_ident[EI_DATA] = ELFDATA2LSB;
    elf.e_ident[EI_VERSION] = EV_CURRENT;
    elf.e_type = ET_DYN;
    elf.e_machine = EM_X86_64;
    elf.e_version = EV_CURRENT;
    elf.e_phoff = sizeof(elf);
    elf.e_shoff = section_headers_at;
    elf.e_ehsize = sizeof(elf);
    elf.e_phentsize = sizeof(Elf64_Phdr);
    elf.e_phnum = 3;
    elf.e_shentsize = sizeof(Elf64_Shdr);
    elf.e_shnum = static_cast<Elf64_Half>(sections_.size());
    elf.e_shstrndx = static_cast<Elf64_Half>(sections_.size() - 1);
    Elf64_Phdr segments[3] = {};
    segments[0] = {PT_LOAD, PF_R, 0, 0, 0, kPage, kPage, kPage};
    segments[1] = {PT_LOAD, PF_R | PF_X, kPage, kPage, kPage, code_bytes_, code_bytes_, kPage};
    segments[2] = {PT_NOTE, PF_R, kNoteAt, kNoteAt, kNoteAt, note.content.size(), note.content.size(), 4};
    std::vector<Elf64_Shdr> headers;
    for (const Section& section : sections_) headers.push_back(section.header);
    return put(fd, 0, &elf, sizeof(elf)) && put(fd, sizeof(elf), segments, sizeof(segments)) &&
           put(fd, kNoteAt, note.content.data(), note.content.size()) &&
           put(fd, section_headers_at, headers.data(), headers.size() * sizeof(Elf64_Shdr));
  }

  std::string path_;
  std::uint64_t code_bytes_;
  std::vector<std::uint8_t> build_id_;
  std::vector<Section> sections_;
  std::string names_;
};

Elf64_Sym function_symbol(std::size_t name, std::uint64_t number) {
  Elf64_Sym symbol = {};
  symbol.st_name = static_cast<Elf64_Word>(name);
  symbol.st_info = ELF64_ST_INFO(number % 4 == 0 ? STB_LOCAL : number % 4 == 1 ? STB_WEAK : STB_GLOBAL, STT_FUNC);
  symbol.st_shndx = 1;
  symbol.st_value = kPage + number * kFunctionBytes;
  symbol.st_size = kFunctionBytes - 16;
  return symbol;
}

}  // namespace

BigLibrary write_symbol_library(const std::string& path, std::uint64_t symbols, std::uint64_t file_bytes) {
  ElfFile file(path, symbols * kFunctionBytes);
  std::vector<Elf64_Sym> table;
  std::string names(1, '\0');
  for (std::uint64_t i = 0; i < symbols; ++i) {
    // A linker's order is not that of the addresses.
    const std::uint64_t number = (i * 7919) % symbols;
    table.push_back(function_symbol(names.size(), number));
    names +=
        mangled({"tensors", "operators" + std::to_string(number % 1000), "Kernel" + std::to_string(number), "forward"},
                "RKSt6vectorIlSaIlEEbd");
    names += '\0';
  }
  file.add_symbols(table, std::move(names));
  return file.write(file_bytes);
}

BigLibrary write_dwarf_library(const std::string& path, unsigned units, unsigned functions) {
  const std::uint64_t count = std::uint64_t{units} * functions;
  ElfFile file(path, count * kFunctionBytes);
  std::vector<Elf64_Sym> table;
  std::string names(1, '\0');
  DwarfSections dwarf;
  for (unsigned unit = 0; unit < units; ++unit) {
    DwarfUnit in_unit;
    in_unit.name = "layer" + std::to_string(unit) + ".cpp";
    in_unit.code = kPage + std::uint64_t{unit} * functions * kFunctionBytes;
    for (unsigned i = 0; i < functions; ++i) {
      const std::string method = "method" + std::to_string(i);
      const std::string linkage = mangled({"layers", "Layer" + std::to_string(unit), method}, "Pfi");
      table.push_back(function_symbol(names.size(), std::uint64_t{unit} * functions + i));
      names += linkage;
      names += '\0';
      in_unit.functions.push_back({method, linkage});
    }
    dwarf.add_unit(in_unit, kFunctionBytes);
  }
  file.add_symbols(table, std::move(names));
  file.add_section(".debug_abbrev", dwarf.abbreviations());
  file.add_section(".debug_info", std::move(dwarf.info));
  file.add_section(".debug_line", std::move(dwarf.lines));
  file.add_section(".debug_str", std::move(dwarf.strings));
  return file.write(0);
}

}  // namespace bench
