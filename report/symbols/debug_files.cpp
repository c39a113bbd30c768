#include "report/symbols/debug_files.h"

#include <dwarf.h>
#include <elfutils/libdwelf.h>
#include <gelf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "report/base/input_file.h"
#include "report/base/log.h"
#include "report/base/words.h"
#include "report/symbols/debug_downloads.h"
#include "report/symbols/elf_limits.h"

namespace culprit::report {
namespace {

// Before libdwfl opens it: to compare build IDs libdwfl unpacks the file. `*found` becomes true where there is a file.
bool is_harmless(const std::string& path, bool* found = nullptr, bool split = false) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0 || S_ISDIR(info.st_mode)) return true;
  if (found != nullptr) *found = true;
  const InputFile input = open_input(path);
  const std::string problem = input.file.is_open() ? problem_of_elf(input.file.get(), split) : input.problem;
  if (!problem.empty()) log::trace("the debug file " + path + " is not used: " + problem);
  return problem.empty();
}

std::string joined(std::string folder, std::string_view between, std::string_view name) {
  return folder.append(between).append(name);
}

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }

// The places where libdwfl looks for a debug file: the program's folder, and for each folder of the search path its
// subfolders that are named like the end of the program's folder.
bool all_are_harmless(const std::string& search_path, const std::string& program, const std::string& link,
                      bool* found) {
  const std::string folder = folder_of(program);
  if (!is_harmless(link[0] == '/' ? link : folder + link, found)) return false;
  for (std::size_t begin = 0; begin <= search_path.size();) {
    const std::size_t end = std::min(search_path.find(':', begin), search_path.size());
    const std::string place = search_path.substr(begin, end - begin);
    begin = end + 1;
    if (place.empty()) continue;
    if (place[0] != '/') {
      if (!is_harmless(joined(folder + place, "/", link), found)) return false;
      continue;
    }
    if (!is_harmless(joined(place, "/", link), found)) return false;
    for (std::size_t tail = folder.find('/'); tail != std::string::npos; tail = folder.find('/', tail + 1)) {
      if (!is_harmless(joined(place, folder.substr(tail), link), found)) return false;
    }
  }
  return true;
}

// The path below a folder of debug files at which libdwfl looks for those of a build ID; "" without one.
std::string build_id_link(Dwfl_Module* module) {
  const unsigned char* bits = nullptr;
  GElf_Addr where = 0;
  const int length = ::dwfl_module_build_id(module, &bits, &where);
  if (length < 2) return {};
  return ".build-id/" + hex_bytes(bits, 1) + "/" + hex_bytes(bits + 1, static_cast<std::size_t>(length) - 1) + ".debug";
}

bool link_is_harmless(const std::string& search_path, const std::string& build_id_link, bool* found) {
  if (build_id_link.empty()) return true;
  for (std::size_t begin = 0; begin <= search_path.size();) {
    const std::size_t end = std::min(search_path.find(':', begin), search_path.size());
    const std::string place = search_path.substr(begin, end - begin);
    begin = end + 1;
    if (!place.empty() && place[0] == '/' && !is_harmless(joined(place, "/", build_id_link), found)) return false;
  }
  return true;
}

// The name of a debug file, which the program names or has by custom.
std::string link_of(const std::string& program, const char* named) {
  return named != nullptr && named[0] != '\0' ? named : program.substr(program.rfind('/') + 1) + ".debug";
}

}  // namespace

int find_debug_file(Dwfl_Module* module, void** user_data, const char* name, Dwarf_Addr base, const char* file_name,
                    const char* link_file, GElf_Word link_crc, char** debug_file_name) {
  const auto* search_path = static_cast<const char*>(*user_data);
  const std::string search_path_text = search_path != nullptr ? search_path : "";
  const std::string program = file_name != nullptr ? file_name : "";
  const std::string link = link_of(program, link_file);
  bool found = false;
  if (!all_are_harmless(search_path_text, program, link, &found) ||
      !link_is_harmless(search_path_text, build_id_link(module), &found))
    return -1;
  const auto none = [&] {
    log::trace("no separate debug file of " + program + ": " + link + " is in none of " + search_path_text);
    return -1;
  };
  // libdw would load libdebuginfod.
  if (!found && !has_debug_servers()) return none();
  const DebugDownload download(program);
  const int fd =
      ::dwfl_standard_find_debuginfo(module, user_data, name, base, file_name, link_file, link_crc, debug_file_name);
  // A server chose the content of a downloaded file.
  const std::string problem = fd >= 0 && has_debug_servers() ? problem_of_elf(fd) : "";
  if (!problem.empty()) {
    log::trace("the debug file of " + program + " is not used: " + problem);
    ::close(fd);
    return -1;
  }
  return fd < 0 ? none() : fd;
}

bool debug_file_may_be_there(Dwfl_Module* module, const std::string& program, const std::string& search_path) {
  GElf_Addr bias = 0;
  GElf_Word link_crc = 0;
  Elf* elf = ::dwfl_module_getelf(module, &bias);
  const std::string link = link_of(program, elf != nullptr ? ::dwelf_elf_gnu_debuglink(elf, &link_crc) : nullptr);
  bool found = false;
  all_are_harmless(search_path, program, link, &found);
  link_is_harmless(search_path, build_id_link(module), &found);
  return found;
}

bool shared_file_may_be_opened(Dwfl_Module* module, Dwarf* dwarf) {
  const char* link = nullptr;
  const void* build_id = nullptr;
  if (::dwelf_dwarf_gnu_debugaltlink(dwarf, &link, &build_id) <= 0 || link == nullptr) return true;
  if (link[0] == '/') return is_harmless(link);
  const char* main_file = nullptr;
  const char* debug_file = nullptr;
  ::dwfl_module_info(module, nullptr, nullptr, nullptr, nullptr, nullptr, &main_file, &debug_file);
  for (const char* file : {main_file, debug_file}) {
    if (file == nullptr) continue;
    std::error_code error;
    const std::string real = std::filesystem::canonical(file, error).string();
    if (!is_harmless(folder_of(file) + link) || (!error && !is_harmless(folder_of(real) + link))) return false;
  }
  return true;
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
    folders.push_back(folder_of(file));
  }
  for (const std::string& folder : folders) {
    for (const std::string& path : {folder + unit, folder + (compiled_in != nullptr ? compiled_in : "") + "/" + unit}) {
      if (!is_harmless(path, nullptr, true)) return false;
    }
  }
  return true;
}

}  // namespace culprit::report
