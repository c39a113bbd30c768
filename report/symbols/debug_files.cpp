#include "report/symbols/debug_files.h"

#include <dwarf.h>
#include <gelf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "report/base/input_file.h"
#include "report/base/log.h"

namespace culprit::report {
namespace {

// Of all compressed sections of a file together, after expansion: so much, and so many times the size of the file. zlib
// and zstd make a quarter of DWARF.
constexpr std::uint64_t kExpandedOfAnyFile = 64 << 20;
constexpr std::uint64_t kExpandedForEachByte = 8;

bool is_harmless(const std::string& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode) || S_ISDIR(info.st_mode);
}

// The places where libdwfl looks for a debug file: the program's folder, and for each folder of the search path its
// subfolders that are named like the end of the program's folder.
bool all_are_harmless(const std::string& search_path, const std::string& program, const std::string& link) {
  const std::string folder = program.substr(0, program.rfind('/') + 1);
  if (!is_harmless(link[0] == '/' ? link : folder + link)) return false;
  for (std::size_t begin = 0; begin <= search_path.size();) {
    const std::size_t end = std::min(search_path.find(':', begin), search_path.size());
    const std::string place = search_path.substr(begin, end - begin);
    begin = end + 1;
    if (place.empty()) continue;
    if (place[0] != '/') {
      if (!is_harmless(folder + place + "/" + link)) return false;
      continue;
    }
    if (!is_harmless(place + "/" + link)) return false;
    for (std::size_t tail = folder.find('/'); tail != std::string::npos; tail = folder.find('/', tail + 1)) {
      if (!is_harmless(place + folder.substr(tail) + link)) return false;
    }
  }
  return true;
}

bool file_expands_moderately(int fd) {
  Elf* elf = ::elf_begin(fd, ELF_C_READ_MMAP, nullptr);
  const bool moderate = expands_moderately(elf);
  ::elf_end(elf);
  return moderate;
}

}  // namespace

bool expands_moderately(Elf* elf) {
  std::size_t bytes = 0;
  if (elf == nullptr || ::elf_rawfile(elf, &bytes) == nullptr) return true;
  std::uint64_t left = kExpandedOfAnyFile + kExpandedForEachByte * bytes;
  for (Elf_Scn* section = nullptr; (section = ::elf_nextscn(elf, section)) != nullptr;) {
    GElf_Shdr header;
    GElf_Chdr compressed;
    if (::gelf_getshdr(section, &header) == nullptr) continue;
    std::uint64_t expanded = 0;
    if ((header.sh_flags & SHF_COMPRESSED) != 0 && ::gelf_getchdr(section, &compressed) != nullptr) {
      expanded = compressed.ch_size;
    } else {
      // The older way: a section .zdebug_... that begins with "ZLIB" and its size, highest byte first.
      const Elf_Data* data =
          header.sh_type == SHT_PROGBITS && header.sh_size >= 12 ? ::elf_rawdata(section, nullptr) : nullptr;
      const auto* raw = data == nullptr ? nullptr : static_cast<const unsigned char*>(data->d_buf);
      if (raw == nullptr || data->d_size < 12 || !std::equal(raw, raw + 4, "ZLIB")) continue;
      for (int i = 4; i < 12; ++i) expanded = expanded << 8 | raw[i];
    }
    if (expanded > left) return false;
    left -= expanded;
  }
  return true;
}

int find_debug_file(Dwfl_Module* module, void** user_data, const char* name, Dwarf_Addr base, const char* file_name,
                    const char* link_file, GElf_Word link_crc, char** debug_file_name) {
  const auto* search_path = static_cast<const char*>(*user_data);
  const std::string search_path_text = search_path != nullptr ? search_path : "";
  const std::string program = file_name != nullptr ? file_name : "";
  const std::string link =
      link_file != nullptr && link_file[0] != '\0' ? link_file : program.substr(program.rfind('/') + 1) + ".debug";
  if (search_path != nullptr && !all_are_harmless(search_path, program, link)) return -1;
  const int fd =
      ::dwfl_standard_find_debuginfo(module, user_data, name, base, file_name, link_file, link_crc, debug_file_name);
  if (fd < 0) log::trace("no separate debug file of " + program + ": " + link + " is in none of " + search_path_text);
  if (fd < 0 || file_expands_moderately(fd)) return fd;
  log::trace("the separate debug file of " + program + " is not used: its sections would expand to too many bytes");
  ::close(fd);
  return -1;
}

bool split_unit_may_be_opened(Dwfl_Module* module, Dwarf_Die* skeleton) {
  Dwarf_Attribute value;
  const char* unit = nullptr;
  for (const unsigned attribute : {DW_AT_dwo_name, DW_AT_GNU_dwo_name}) {
    if (unit == nullptr && ::dwarf_attr(skeleton, attribute, &value) != nullptr) unit = ::dwarf_formstring(&value);
  }
  if (unit == nullptr) return true;
  const char* compiled_in =
      ::dwarf_attr(skeleton, DW_AT_comp_dir, &value) != nullptr ? ::dwarf_formstring(&value) : nullptr;
  const char* main_file = nullptr;
  const char* debug_file = nullptr;
  ::dwfl_module_info(module, nullptr, nullptr, nullptr, nullptr, nullptr, &main_file, &debug_file);
  std::vector<std::string> folders = {""};
  for (const char* file : {main_file, debug_file}) {
    if (file == nullptr) continue;
    const std::string path = file;
    folders.push_back(path.substr(0, path.rfind('/') + 1));
  }
  for (const std::string& folder : folders) {
    for (const std::string& path : {folder + unit, folder + (compiled_in != nullptr ? compiled_in : "") + "/" + unit}) {
      if (!is_harmless(path)) return false;
      const InputFile input = open_input(path);
      if (input.file.is_open() && !file_expands_moderately(input.file.get())) return false;
    }
  }
  return true;
}

}  // namespace culprit::report
