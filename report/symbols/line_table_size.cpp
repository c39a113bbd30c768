#include "report/symbols/line_table_size.h"

#include <dwarf.h>
#include <gelf.h>

#include <algorithm>
#include <cstring>

namespace culprit::report {

std::uint64_t line_table_bytes(Dwarf_Die* unit) {
  Dwarf_Attribute value;
  Dwarf_Word offset = 0;
  // A split unit names no table: its file has one, of which the names of files are taken.
  const bool named = ::dwarf_attr(unit, DW_AT_stmt_list, &value) != nullptr && ::dwarf_formudata(&value, &offset) == 0;
  // The table begins with its length, in 4 bytes or, after 0xffffffff, in 8. It is asked of the section itself.
  Elf* elf = ::dwarf_getelf(::dwarf_cu_getdwarf(unit->cu));
  std::size_t names = 0;
  if (elf == nullptr || ::elf_getshdrstrndx(elf, &names) != 0) return 0;
  for (Elf_Scn* section = nullptr; (section = ::elf_nextscn(elf, section)) != nullptr;) {
    GElf_Shdr header;
    if (::gelf_getshdr(section, &header) == nullptr) continue;
    const char* name = ::elf_strptr(elf, names, header.sh_name);
    if (name == nullptr || std::strcmp(name, named ? ".debug_line" : ".debug_line.dwo") != 0) continue;
    // libdw has expanded a compressed section already.
    const Elf_Data* data = ::elf_getdata(section, nullptr);
    if (data == nullptr || data->d_buf == nullptr || offset > data->d_size || data->d_size - offset < 12) return 0;
    const auto* at = static_cast<const char*>(data->d_buf) + offset;
    std::uint32_t length = 0;
    std::memcpy(&length, at, sizeof(length));
    std::uint64_t bytes = length;
    if (length == 0xffffffff) std::memcpy(&bytes, at + sizeof(length), sizeof(bytes));
    return std::min<std::uint64_t>(bytes, data->d_size - offset);
  }
  return 0;
}

}  // namespace culprit::report
