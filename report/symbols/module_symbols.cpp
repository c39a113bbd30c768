#include "report/symbols/module_symbols.h"
#include "report/symbols/data_types.h"
#include "report/symbols/pointer_path_names.h"

#include <dwarf.h>
#include <elfutils/libdwelf.h>
#include <gelf.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <tuple>

#include "report/base/input_file.h"
#include "report/base/log.h"
#include "report/base/words.h"
#include "report/symbols/debug_downloads.h"
#include "report/symbols/debug_files.h"
#include "report/symbols/demangle.h"
#include "report/symbols/elf_limits.h"
#include "report/symbols/file_symbols.h"
#include "report/symbols/line_table_size.h"
#include "report/symbols/local_variables.h"

namespace culprit::report {
namespace {

struct ExecutableRange {
  std::uint64_t begin;
  std::uint64_t end;
};

std::vector<ExecutableRange> executable_ranges(Dwfl_Module* module) {
  std::vector<ExecutableRange> result;
  GElf_Addr bias = 0;
  Elf* elf = dwfl_module_getelf(module, &bias);
  std::size_t count = 0;
  if (elf == nullptr || elf_getphdrnum(elf, &count) != 0) return result;
  for (std::size_t i = 0; i < count; ++i) {
    GElf_Phdr header;
    if (gelf_getphdr(elf, static_cast<int>(i), &header) == nullptr) break;
    if (header.p_type == PT_LOAD && (header.p_flags & PF_X) != 0) {
      result.push_back({header.p_vaddr + bias, header.p_vaddr + header.p_memsz + bias});
    }
  }
  // Disjoint and sorted, because a file may have thousands of overlapping segments.
  std::sort(result.begin(), result.end(),
            [](const ExecutableRange& left, const ExecutableRange& right) { return left.begin < right.begin; });
  std::size_t kept = 0;
  for (const ExecutableRange& range : result) {
    if (kept != 0 && range.begin <= result[kept - 1].end) {
      result[kept - 1].end = std::max(result[kept - 1].end, range.end);
    } else {
      result[kept++] = range;
    }
  }
  result.resize(kept);
  return result;
}

bool is_in(const std::vector<ExecutableRange>& ranges, std::uint64_t address) {
  auto after = std::upper_bound(ranges.begin(), ranges.end(), address,
                                [](std::uint64_t value, const ExecutableRange& range) { return value < range.begin; });
  return after != ranges.begin() && address < std::prev(after)->end;
}

// Longer paths exist in no file system.
constexpr std::size_t kLongestPath = 4096;
// Symbols at one address are compared by so much of their names.
constexpr std::size_t kCompared = 4096;

// All locations of a module together may have location_bytes_allowed_ bytes, and so many for each address: a stranger's
// file may have hundreds of inlined calls with long names at each address.
constexpr std::uint64_t kLocationsForEachAddress = 512;

// The parts of .debug_line that libdw may unfold together: so much, and a part of the file. Each byte may become a row
// of 80 bytes.
constexpr std::uint64_t kLinesOfAnyFile = 2 << 20;
constexpr std::uint64_t kLinesPartOfFile = 8;

// Its frames are start-up code, or between two of the program's: the functions that it exports say enough. To unpack
// its debug file takes longer than all the rest of a small report.
bool is_c_library(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  return name.rfind("libc.so.6", 0) == 0 || name.rfind("libc-2.", 0) == 0 || name.rfind("ld-linux", 0) == 0;
}

int find_no_debug_file(Dwfl_Module* /*module*/, void** /*user_data*/, const char* /*name*/, Dwarf_Addr /*base*/,
                       const char* /*file_name*/, const char* /*link_file*/, GElf_Word /*link_crc*/,
                       char** /*debug_file_name*/) {
  return -1;
}

std::string absolute_source(const char* name, Dwarf_Die* unit) {
  if (name == nullptr || ::strnlen(name, kLongestPath) == kLongestPath) return {};
  std::filesystem::path path(name);
  Dwarf_Attribute value;
  if (path.is_relative() && dwarf_attr(unit, DW_AT_comp_dir, &value) != nullptr) {
    const char* folder = dwarf_formstring(&value);
    if (folder != nullptr && ::strnlen(folder, kLongestPath) < kLongestPath)
      path = std::filesystem::path(folder) / path;
  }
  return path.lexically_normal().string();
}

}  // namespace

ModuleFile::ModuleFile() = default;

ModuleFile::~ModuleFile() {
  units_.clear();
  if (dwfl_ != nullptr) dwfl_end(dwfl_);
}

ModuleState ModuleFile::open(const std::string& path, const std::vector<std::uint8_t>& build_id,
                             const SymbolOptions& options) {
  path_ = path;
  // "" is the folder of the file itself; relative entries start there.
  debug_path_ = ":.debug";
  for (const std::string& folder : options.debug_dirs) debug_path_ += ":" + std::filesystem::absolute(folder).string();
  debug_path_ += ":" + options.sysroot + "/usr/lib/debug";
  debug_path_pointer_ = debug_path_.data();
  callbacks_.find_elf = dwfl_build_id_find_elf;
  callbacks_.find_debuginfo = is_c_library(path) ? find_no_debug_file : find_debug_file;
  callbacks_.debuginfo_path = &debug_path_pointer_;

  InputFile input = open_input(path);
  if (!input.file.is_open()) return ModuleState::kUnreadable;
  const std::string problem = problem_of_elf(input.file.get());
  if (!problem.empty()) {
    log::trace(path + ": not read, " + problem);
    return ModuleState::kUnreadable;
  }
  time_.emplace(input.bytes);
  const int fd = input.file.release();
  dwfl_ = dwfl_begin(&callbacks_);
  if (dwfl_ == nullptr) {
    ::close(fd);
    return ModuleState::kUnreadable;
  }
  limit_downloads(dwfl_, options.progress);
  dwfl_report_begin(dwfl_);
  // Base 0 with p_vaddr added: libdwfl then uses the file's own addresses, as the dump does.
  module_ = dwfl_report_elf(dwfl_, path.c_str(), path.c_str(), fd, 0, true);
  if (module_ == nullptr) {
    ::close(fd);
    return ModuleState::kUnreadable;
  }
  void** user_data = nullptr;
  dwfl_module_info(module_, &user_data, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
  *user_data = debug_path_pointer_;
  dwfl_report_end(dwfl_, nullptr, nullptr);

  const unsigned char* bits = nullptr;
  GElf_Addr where = 0;
  const int length = dwfl_module_build_id(module_, &bits, &where);
  if (!build_id.empty()) {
    const bool same = length > 0 && static_cast<std::size_t>(length) >= build_id.size() &&
                      std::memcmp(bits, build_id.data(), build_id.size()) == 0;
    if (!same) return ModuleState::kChanged;
  }
  return ModuleState::kFound;
}

bool ModuleFile::may_have_debug_file() const {
  return !is_c_library(path_) && debug_file_may_be_there(module_, path_, debug_path_);
}

void ModuleFile::read_tables() {
  read_symbols();
  read_units();
}

bool ModuleFile::is_repeatable() {
  return !uses_other_files_ && !was_cut_off_ && !time_->is_over() && limits_.entries > 0 && limits_.ranges > 0 &&
         limits_.scope_bytes > 0;
}

std::string ModuleFile::debug_file() const {
  if (!has_debug_info()) return "";
  const char* main_file = nullptr;
  const char* debug_file = nullptr;
  dwfl_module_info(module_, nullptr, nullptr, nullptr, nullptr, nullptr, &main_file, &debug_file);
  const char* file = debug_file != nullptr ? debug_file : main_file;
  return file != nullptr ? file : "";
}

std::string ModuleFile::build_id() const {
  const unsigned char* bits = nullptr;
  GElf_Addr where = 0;
  const int length = module_ != nullptr ? dwfl_module_build_id(module_, &bits, &where) : 0;
  return length > 0 ? hex_bytes(bits, static_cast<std::size_t>(length)) : "";
}

void ModuleFile::read_symbols() {
  const std::vector<ExecutableRange> code = executable_ranges(module_);
  for_each_symbol(module_, [&](const FileSymbol& symbol) {
    if (!symbol.defined) return;
    const char* name = symbol.name;
    const unsigned type = GELF_ST_TYPE(symbol.entry.st_info);
    if (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE) return;
    if (type == STT_NOTYPE && (name[0] == '$' || name[0] == '.')) return;
    if (!is_in(code, symbol.address)) return;
    if (name[0] == '_' && std::strcmp(name, "_Unwind_RaiseException") == 0) defines_unwinder_ = true;
    const unsigned binding = GELF_ST_BIND(symbol.entry.st_info);
    const int rank = (type == STT_NOTYPE ? 4 : 0) + (binding == STB_GLOBAL ? 0 : binding == STB_WEAK ? 1 : 2);
    symbols_.push_back({symbol.address, symbol.address + symbol.entry.st_size, name, rank,
                        static_cast<std::uint32_t>(::strnlen(name, kCompared))});
  });
  std::sort(symbols_.begin(), symbols_.end(), [](const Symbol& left, const Symbol& right) {
    if (left.begin != right.begin) return left.begin < right.begin;
    if (left.rank != right.rank) return left.rank < right.rank;
    // Among aliases the shorter name: cudaMallocAsync before cudaMallocAsync_ptsz.
    return left.length != right.length ? left.length < right.length
                                       : std::memcmp(left.name, right.name, left.length) < 0;
  });
  symbols_.erase(std::unique(symbols_.begin(), symbols_.end(),
                             [](const Symbol& left, const Symbol& right) { return left.begin == right.begin; }),
                 symbols_.end());
}

void ModuleFile::read_units() {
  Dwarf_Addr bias = 0;
  Dwarf* dwarf = dwfl_module_getdwarf(module_, &bias);
  if (dwarf == nullptr || bias != 0) return;  // with a bias, the debug file does not belong to these addresses
  const char* shared = nullptr;
  const void* id_of_shared = nullptr;
  uses_other_files_ = ::dwelf_dwarf_gnu_debugaltlink(dwarf, &shared, &id_of_shared) > 0;
  if (!shared_file_may_be_opened(module_, dwarf)) return;
  Dwarf_CU* unit = nullptr;
  Dwarf_Half version = 0;
  std::uint8_t type = 0;
  Dwarf_Die die;
  Dwarf_Die split;
  std::size_t bytes = 0;
  if (elf_rawfile(dwarf_getelf(dwarf), &bytes) == nullptr) bytes = 0;
  lines_left_ = kLinesOfAnyFile + bytes / kLinesPartOfFile;
  limits_ = DwarfLimits();
  while (!time_->is_over() && dwarf_get_units(dwarf, unit, &unit, &version, &type, &die, nullptr) == 0) {
    if (type != DW_UT_compile && type != DW_UT_skeleton) continue;
    split = {};
    if (type == DW_UT_skeleton) uses_other_files_ = true;
    if (type == DW_UT_skeleton && !time_->is_over(TimeLimit::kStepsBetween) && split_unit_may_be_opened(module_, &die))
      dwarf_cu_info(unit, nullptr, nullptr, nullptr, &split, nullptr, nullptr, nullptr);
    const std::size_t index = units_.size();
    Dwarf_Addr base = 0;
    Dwarf_Addr begin = 0;
    Dwarf_Addr end = 0;
    for (std::ptrdiff_t at = 0; (at = dwarf_ranges(&die, at, &base, &begin, &end)) > 0;) {
      if (limits_.ranges-- <= 0) break;
      if (begin != 0 && end > begin) unit_ranges_.push_back({begin, end, index});
    }
    const bool has_split = type == DW_UT_skeleton && split.addr != nullptr && dwarf_tag(&split) == DW_TAG_compile_unit;
    units_.push_back({die, has_split ? split : die, nullptr, std::nullopt});
  }
  std::sort(unit_ranges_.begin(), unit_ranges_.end(),
            [](const UnitRange& left, const UnitRange& right) { return left.begin < right.begin; });
}

std::vector<PointerPathName> ModuleFile::names_of(const std::vector<PointerPath>& paths) {
  std::vector<Dwarf_Die> units;
  for (const Unit& unit : units_) units.push_back(unit.code);
  const DataTypes types(units, module_, &limits_, &*time_);
  std::vector<PointerPathName> names;
  names.reserve(paths.size());
  for (const PointerPath& path : paths) {
    LocalVariable local;
    const Unit* unit = path.frame ? find_unit(path.frame->address) : nullptr;
    const bool found =
        unit != nullptr && find_local_variable(module_, unit->code, *path.frame, &limits_, &*time_, &local);
    names.push_back(name_of_path(types, path, found ? &local : nullptr));
  }
  return names;
}

const ModuleFile::Symbol* ModuleFile::find_symbol(std::uint64_t address) const {
  auto after = std::upper_bound(symbols_.begin(), symbols_.end(), address,
                                [](std::uint64_t value, const Symbol& symbol) { return value < symbol.begin; });
  if (after == symbols_.begin()) return nullptr;
  // A function may contain further labels: search a little further back for a symbol that extends over the address.
  auto at = after;
  for (int tries = 0; tries < 16 && at != symbols_.begin(); ++tries) {
    --at;
    if (address < at->end) return &*at;
  }
  return &*std::prev(after);
}

ModuleFile::Unit* ModuleFile::find_unit(std::uint64_t address) {
  auto after = std::upper_bound(unit_ranges_.begin(), unit_ranges_.end(), address,
                                [](std::uint64_t value, const UnitRange& range) { return value < range.begin; });
  if (after == unit_ranges_.begin() || address >= std::prev(after)->end) return nullptr;
  return &units_[std::prev(after)->unit];
}

// Whether the unit's line table is of a size that its file may have. libdw unfolds the whole table at the first
// question.
bool ModuleFile::may_read_lines(Unit* unit) {
  if (unit->may_read_lines) return *unit->may_read_lines;
  // libdw tells the size of no table; a line program has at most all of its section, which is part of the file.
  std::uint64_t bytes = line_table_bytes(&unit->lines);
  if (unit->code.cu != unit->lines.cu) bytes += line_table_bytes(&unit->code);
  const bool may = bytes <= lines_left_;
  if (!may) was_cut_off_ = true;
  if (may) lines_left_ -= bytes;
  unit->may_read_lines = may;
  return may;
}

std::vector<CodeLocation> ModuleFile::look_up(std::uint64_t address) {
  std::vector<CodeLocation> result = locations_at(address);
  // Beyond the limit only the function itself remains, without its file.
  location_bytes_allowed_ += kLocationsForEachAddress;
  std::uint64_t bytes = 0;
  for (const CodeLocation& one : result)
    bytes += sizeof(one) + one.function.size() + one.file.size() + one.symbol.size();
  if (location_bytes_ + bytes > location_bytes_allowed_ && !result.empty()) {
    was_cut_off_ = true;
    result.erase(result.begin(), std::prev(result.end()));
    result.back().file.clear();
    result.back().symbol.clear();
    result.back().function.resize(std::min<std::size_t>(result.back().function.size(), kLocationsForEachAddress / 4));
    return result;
  }
  location_bytes_ += bytes;
  return result;
}

std::vector<CodeLocation> ModuleFile::locations_at(std::uint64_t address) {
  std::vector<CodeLocation> result;
  Unit* unit = time_->is_over() ? nullptr : find_unit(address);
  if (unit != nullptr) {
    if (!unit->inlines)
      unit->inlines = std::make_unique<InlineTable>(unit->code, may_read_lines(unit), &limits_, &*time_);
    std::string file;
    int line = 0;
    Dwarf_Line* row = may_read_lines(unit) ? dwarf_getsrc_die(&unit->lines, address) : nullptr;
    if (row != nullptr && dwarf_lineno(row, &line) == 0 && line > 0) {
      file = absolute_source(dwarf_linesrc(row, nullptr, nullptr), &unit->lines);
    }
    bool complete_name = true;
    for (const InlineScope& scope : unit->inlines->look_up(address)) {
      CodeLocation location;
      location.function = scope.function;
      location.inlined = scope.inlined;
      location.file = file;
      location.line = file.empty() ? 0 : static_cast<unsigned>(line);
      if (!scope.inlined && scope.entry != 0 && address >= scope.entry) location.symbol_offset = address - scope.entry;
      result.push_back(location);
      complete_name = scope.inlined || scope.from_linkage_name;
      file = absolute_source(scope.call_file.empty() ? nullptr : scope.call_file.c_str(), &unit->lines);
      line = static_cast<int>(scope.call_line);
    }
    if (result.empty() && !file.empty()) {
      CodeLocation location;
      location.file = file;
      location.line = static_cast<unsigned>(line);
      result.push_back(location);
    }
    // GCC gives functions of unnamed namespaces and lambdas no linkage name; the symbol table has one.
    const Symbol* symbol = result.empty() || result.back().function.empty() ? nullptr : find_symbol(address);
    if (symbol != nullptr && address < symbol->end) {
      const bool mangled = std::strncmp(symbol->name, "_Z", 2) == 0;
      if (mangled && !complete_name) result.back().function = function_name(symbol->name);
      // "MAIN__" and "inner.0" of Fortran and of C's nested functions, and aliases.
      if (!mangled) result.back().symbol = function_name(symbol->name);
      if (result.back().symbol == result.back().function) result.back().symbol.clear();
    }
  }
  if (result.empty()) result.emplace_back();
  if (!result.back().function.empty()) return result;
  const Symbol* symbol = find_symbol(address);
  if (symbol != nullptr) {
    result.back().function = function_name(symbol->name);
    result.back().symbol_offset = address - symbol->begin;
    result.back().approximate = symbol->end > symbol->begin && address >= symbol->end;
  } else if (result.back().file.empty()) {
    result.clear();
  }
  return result;
}

}  // namespace culprit::report
