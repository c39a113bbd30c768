#include "report/attach/remote_symbols.h"

#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <unistd.h>

#include "report/proc/loaded_library.h"

namespace culprit::report {
namespace {

class ElfFile {
 public:
  explicit ElfFile(const std::string& path) {
    ::elf_version(EV_CURRENT);
    fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd_ >= 0) elf_ = ::elf_begin(fd_, ELF_C_READ_MMAP, nullptr);
    if (elf_ == nullptr || ::elf_kind(elf_) != ELF_K_ELF) {
      close();
      throw AttachError(path + ": cannot be read as a library");
    }
  }
  ~ElfFile() { close(); }
  ElfFile(const ElfFile&) = delete;
  ElfFile& operator=(const ElfFile&) = delete;
  Elf* get() const { return elf_; }

 private:
  void close() {
    if (elf_ != nullptr) ::elf_end(elf_);
    if (fd_ >= 0) ::close(fd_);
  }
  int fd_ = -1;
  Elf* elf_ = nullptr;
};

// The virtual address of the first mapped byte of the file.
std::uint64_t first_address(Elf* elf) {
  std::size_t count = 0;
  ::elf_getphdrnum(elf, &count);
  for (std::size_t i = 0; i < count; ++i) {
    GElf_Phdr header;
    if (::gelf_getphdr(elf, static_cast<int>(i), &header) != nullptr && header.p_type == PT_LOAD)
      return header.p_vaddr - header.p_offset;
  }
  return 0;
}

}  // namespace

RemoteModule find_module(const TracedProcess& process, const std::vector<MappedRange>& mappings,
                         const std::vector<std::string>& names) {
  const MappedRange* range = find_loaded(mappings, names);
  if (range == nullptr) return {};
  RemoteModule module = {range->path, process.path_from_here(range->path), range->begin};
  const std::string deleted = " (deleted)";
  const bool gone = range->path.size() > deleted.size() &&
                    range->path.compare(range->path.size() - deleted.size(), deleted.size(), deleted) == 0;
  if (gone) {
    module.file = process.mapped_file(*range);
    if (::access(module.file.c_str(), R_OK) != 0)
      throw AttachError(range->path + " was replaced on disk since " + process.name() +
                        " started: run culprit as root, or restart the program");
  }
  return module;
}

namespace {

// `type`: STT_FUNC or STT_OBJECT.
std::uint64_t find_symbol(const RemoteModule& module, const std::string& name, unsigned char type) {
  const ElfFile file(module.file);
  const std::uint64_t bias = module.begin - first_address(file.get());
  for (Elf_Scn* section = ::elf_nextscn(file.get(), nullptr); section != nullptr;
       section = ::elf_nextscn(file.get(), section)) {
    GElf_Shdr header;
    if (::gelf_getshdr(section, &header) == nullptr || header.sh_type != SHT_DYNSYM || header.sh_entsize == 0) continue;
    Elf_Data* data = ::elf_getdata(section, nullptr);
    if (data == nullptr) continue;
    const int count = static_cast<int>(header.sh_size / header.sh_entsize);
    for (int i = 0; i < count; ++i) {
      GElf_Sym symbol;
      if (::gelf_getsym(data, i, &symbol) == nullptr || symbol.st_shndx == SHN_UNDEF || symbol.st_value == 0 ||
          GELF_ST_TYPE(symbol.st_info) != type)
        continue;
      const char* text = ::elf_strptr(file.get(), header.sh_link, symbol.st_name);
      if (text != nullptr && name == text) return bias + symbol.st_value;
    }
  }
  return 0;
}

}  // namespace

std::uint64_t find_function(const RemoteModule& module, const std::string& name) {
  return find_symbol(module, name, STT_FUNC);
}

std::uint64_t find_variable(const RemoteModule& module, const std::string& name) {
  return find_symbol(module, name, STT_OBJECT);
}

}  // namespace culprit::report
