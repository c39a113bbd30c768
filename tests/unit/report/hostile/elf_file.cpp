#include "tests/unit/report/hostile/elf_file.h"

#include <cstring>
#include <fstream>
#include <stdexcept>

namespace culprit::test {
namespace {

constexpr std::uint64_t kPage = 4096;

std::uint64_t aligned(std::uint64_t value, std::uint64_t to) { return (value + to - 1) / to * to; }

}  // namespace

ElfFile::ElfFile(std::uint64_t code_bytes) : code_bytes_(code_bytes), names_(1, '\0') {
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_DYN;
  header.e_machine = EM_X86_64;
  header.e_version = EV_CURRENT;
  header.e_ehsize = sizeof(header);
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_shentsize = sizeof(Elf64_Shdr);
  sections_.emplace_back();  // number 0 is reserved
  add_section(".text", std::string(code_bytes, '\0'), SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR);
  sections_.back().header.sh_addr = kCode;
}

unsigned ElfFile::add_section(const std::string& name, std::string content, unsigned type, std::uint64_t flags,
                              std::uint64_t entry, unsigned link, unsigned info) {
  Section section;
  section.header.sh_name = static_cast<Elf64_Word>(names_.size());
  names_.append(name.c_str(), name.size() + 1);
  section.header.sh_type = type;
  section.header.sh_flags = flags;
  section.header.sh_addralign = 8;
  section.header.sh_entsize = entry;
  section.header.sh_link = link;
  section.header.sh_info = info;
  section.header.sh_size = content.size();
  section.content = std::move(content);
  sections_.push_back(std::move(section));
  return static_cast<unsigned>(sections_.size() - 1);
}

void ElfFile::add_section_over(unsigned other, const std::string& name, unsigned type) {
  add_section(name, "", type);
  sections_.back().over = other;
  sections_.back().header.sh_size = sections_[other].header.sh_size;
}

void ElfFile::add_symbols(const std::vector<std::uint64_t>& addresses, const std::string& name) {
  std::string table(sizeof(Elf64_Sym), '\0');
  for (const std::uint64_t address : addresses) {
    Elf64_Sym symbol = {};
    symbol.st_name = 1;
    symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
    symbol.st_shndx = 1;
    symbol.st_value = address;
    symbol.st_size = 1;
    put(&table, symbol);
  }
  const unsigned strings = add_section(".strtab", '\0' + name + '\0', SHT_STRTAB);
  add_section(".symtab", std::move(table), SHT_SYMTAB, 0, sizeof(Elf64_Sym), strings, 1);
}

void ElfFile::add_build_id(const std::string& id) {
  std::string note;
  put(&note, Elf64_Nhdr{4, static_cast<Elf64_Word>(id.size()), NT_GNU_BUILD_ID});
  note.append("GNU", 4);
  note += id;
  add_segment_over(add_section(".note.gnu.build-id", std::move(note), SHT_NOTE, SHF_ALLOC), PT_NOTE);
}

void ElfFile::add_segment_over(unsigned section, unsigned type) { segments_.push_back({type, section}); }

void ElfFile::write(const std::string& path) {
  add_section(".shstrtab", "", SHT_STRTAB);
  sections_.back().content = names_;
  sections_.back().header.sh_size = names_.size();
  // The headers of the segments stand behind the code, because there may be many.
  std::uint64_t offset = kPage;
  for (Section& section : sections_) {
    if (section.header.sh_type == SHT_NULL || section.over != 0) continue;
    section.header.sh_offset = offset;
    offset = aligned(offset + section.content.size(), 16);
  }
  for (Section& section : sections_) {
    if (section.over != 0) section.header.sh_offset = sections_[section.over].header.sh_offset;
  }
  std::vector<Elf64_Phdr> segments(2);
  segments[0] = {PT_LOAD, PF_R, 0, 0, 0, kPage, kPage, kPage};
  segments[1] = {PT_LOAD, PF_R | PF_X, kPage, kCode, kCode, code_bytes_, code_bytes_, kPage};
  for (const Segment& segment : segments_) {
    const Elf64_Shdr& section = sections_[segment.section].header;
    segments.push_back({segment.type, PF_R, section.sh_offset, section.sh_offset, section.sh_offset, section.sh_size,
                        section.sh_size, 4});
  }
  const std::size_t count = sections_.size();
  header.e_phoff = offset;
  header.e_phnum = static_cast<Elf64_Half>(segments.size());
  header.e_shoff = offset + segments.size() * sizeof(Elf64_Phdr);
  header.e_shnum = count < SHN_LORESERVE ? static_cast<Elf64_Half>(count) : Elf64_Half{0};
  header.e_shstrndx = count < SHN_LORESERVE ? static_cast<Elf64_Half>(count - 1) : Elf64_Half{SHN_XINDEX};
  if (count >= SHN_LORESERVE) {
    sections_[0].header.sh_size = count;
    sections_[0].header.sh_link = static_cast<Elf64_Word>(count - 1);
  }
  std::string text(header.e_shoff, '\0');
  std::memcpy(text.data(), &header, sizeof(header));
  std::memcpy(&text[header.e_phoff], segments.data(), segments.size() * sizeof(Elf64_Phdr));
  for (const Section& section : sections_) {
    if (!section.content.empty())
      std::memcpy(&text[section.header.sh_offset], section.content.data(), section.content.size());
  }
  for (const Section& section : sections_) put(&text, section.header);
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw std::runtime_error(path + ": cannot be written");
}

std::string compressed_section(std::uint64_t bytes, const std::string& packed, unsigned type) {
  std::string text;
  put(&text, Elf64_Chdr{type, 0, bytes, 1});
  return text + packed;
}

void put_leb(std::string* to, std::uint64_t number) {
  do {
    const auto byte = static_cast<unsigned char>(number & 0x7f);
    number >>= 7;
    to->push_back(static_cast<char>(number != 0 ? byte | 0x80 : byte));
  } while (number != 0);
}

}  // namespace culprit::test
