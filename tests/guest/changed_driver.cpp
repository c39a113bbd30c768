#include "tests/guest/changed_driver.h"

#include <elf.h>

#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace culprit::test {
namespace {

namespace fs = std::filesystem;

template <typename T>
T* at(std::string* file, std::uint64_t offset) {
  if (offset + sizeof(T) > file->size()) throw std::runtime_error("the fake driver is no ELF file");
  return reinterpret_cast<T*>(file->data() + offset);
}

struct Dynamic {
  Elf64_Shdr symbols;
  Elf64_Shdr strings;
};

Dynamic dynamic_symbols(std::string* file) {
  const auto* header = at<Elf64_Ehdr>(file, 0);
  for (int i = 0; i < header->e_shnum; ++i) {
    const Elf64_Shdr section = *at<Elf64_Shdr>(file, header->e_shoff + sizeof(Elf64_Shdr) * static_cast<unsigned>(i));
    if (section.sh_type == SHT_DYNSYM)
      return {section, *at<Elf64_Shdr>(file, header->e_shoff + sizeof(Elf64_Shdr) * section.sh_link)};
  }
  throw std::runtime_error("the fake driver has no dynamic symbols");
}

Elf64_Sym* find_symbol(std::string* file, const Dynamic& dynamic, const std::string& name) {
  for (std::uint64_t i = 0; i < dynamic.symbols.sh_size / sizeof(Elf64_Sym); ++i) {
    auto* symbol = at<Elf64_Sym>(file, dynamic.symbols.sh_offset + i * sizeof(Elf64_Sym));
    if (symbol->st_shndx != SHN_UNDEF && name == file->data() + dynamic.strings.sh_offset + symbol->st_name)
      return symbol;
  }
  throw std::runtime_error("the fake driver has no " + name);
}

void set_soname(std::string* file, const Dynamic& dynamic, const std::string& soname) {
  const std::string old("libcuda.so.1\0", 13);
  const std::size_t found = file->find(old, dynamic.strings.sh_offset);
  if (found == std::string::npos || soname.size() >= old.size()) throw std::runtime_error("no room for " + soname);
  std::memcpy(file->data() + found, soname.c_str(), soname.size() + 1);
}

}  // namespace

fs::path changed_driver(const fs::path& folder, const std::string& name, const DriverChange& change) {
  const fs::path tree = fs::read_symlink("/proc/self/exe").parent_path().parent_path();
  std::ifstream original(tree / "guest" / "closable" / "libcuda.so.1", std::ios::binary);
  std::ostringstream content;
  content << original.rdbuf();
  std::string file = content.str();
  const Dynamic dynamic = dynamic_symbols(&file);
  for (const auto& [function, instead] : change.functions) {
    const Elf64_Sym place = instead.empty() ? Elf64_Sym{} : *find_symbol(&file, dynamic, instead);
    Elf64_Sym* symbol = find_symbol(&file, dynamic, function);
    symbol->st_value = place.st_value;
    symbol->st_shndx = place.st_shndx;
  }
  if (!change.soname.empty()) set_soname(&file, dynamic, change.soname);
  fs::create_directories(folder);
  std::ofstream(folder / name, std::ios::binary) << file;
  return folder / name;
}

}  // namespace culprit::test
