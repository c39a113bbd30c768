#include "report/symbols/inline_table.h"

#include <dwarf.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "report/symbols/demangle.h"

namespace culprit::report {
namespace {

// The walk is recursive, and no compiler emits deeper trees.
constexpr int kDeepestTree = 256;

// Of a qualified name, of a path.
constexpr std::size_t kLongestScope = 4096;
constexpr std::size_t kLongestName = 1024;

// The name of an entry, shortened where it is longer than any identifier.
std::optional<std::string> name_in(Dwarf_Die* die) {
  const char* name = dwarf_diename(die);
  if (name == nullptr) return std::nullopt;
  return std::string(name, ::strnlen(name, kLongestName));
}

bool get_reference(Dwarf_Die* die, unsigned attribute, Dwarf_Die* target) {
  Dwarf_Attribute value;
  return dwarf_attr(die, attribute, &value) != nullptr && dwarf_formref_die(&value, target) != nullptr;
}

}  // namespace

InlineTable::InlineTable(Dwarf_Die unit, bool with_files, DwarfLimits* limits, TimeLimit* time)
    : unit_(unit), limits_(*limits), time_(*time) {
  std::size_t count = 0;
  if (with_files && dwarf_getsrcfiles(&unit_, &files_, &count) == 0) file_count_ = count;
  Dwarf_Die child;
  if (dwarf_child(&unit_, &child) == 0) walk(child, 0, kNoScope, 0);
  for (std::vector<Range>& ranges : by_depth_) {
    std::sort(ranges.begin(), ranges.end(),
              [](const Range& left, const Range& right) { return left.begin < right.begin; });
  }
}

// Visits `first` and its siblings. `depth`: the number of enclosing functions and inlined calls.
void InlineTable::walk(Dwarf_Die first, std::size_t depth, std::size_t scope, int level) {
  if (level > kDeepestTree) return;
  Dwarf_Die die = first;
  do {
    if (limits_.entries-- <= 0 || time_.is_over()) return;
    std::size_t child_depth = depth;
    std::size_t child_scope = scope;
    switch (dwarf_tag(&die)) {
      case DW_TAG_subprogram:
        if (scope != kNoScope) scope_of_.emplace(dwarf_dieoffset(&die), scope);
        // A function nested in another's tree (a lambda) has address ranges of its own, so it starts again at depth 0.
        add_function(&die, false, 0);
        child_depth = 1;
        break;
      case DW_TAG_inlined_subroutine:
        add_function(&die, true, depth);
        child_depth = depth + 1;
        break;
      case DW_TAG_lexical_block:
      case DW_TAG_try_block:
      case DW_TAG_catch_block:
        break;
      case DW_TAG_namespace:
      case DW_TAG_class_type:
      case DW_TAG_structure_type:
      case DW_TAG_union_type: {
        const std::optional<std::string> name = name_in(&die);
        std::string qualified = scope == kNoScope ? "" : scopes_[scope] + "::";
        // Spelled as by the demangler.
        qualified += name ? *name : dwarf_tag(&die) == DW_TAG_namespace ? "(anonymous namespace)" : "(anonymous)";
        limits_.scope_bytes -= static_cast<std::int64_t>(qualified.size());
        if (limits_.scope_bytes < 0 || qualified.size() > kLongestScope) qualified = "(...)";
        scopes_.push_back(qualified);
        child_scope = scopes_.size() - 1;
        child_depth = 0;
        break;
      }
      default:
        continue;
    }
    Dwarf_Die child;
    if (dwarf_child(&die, &child) == 0) walk(child, child_depth, child_scope, level + 1);
  } while (dwarf_siblingof(&die, &die) == 0);
}

void InlineTable::add_function(Dwarf_Die* die, bool inlined, std::size_t depth) {
  Dwarf_Addr base = 0;
  Dwarf_Addr begin = 0;
  Dwarf_Addr end = 0;
  bool added = false;
  for (std::ptrdiff_t at = 0; (at = dwarf_ranges(die, at, &base, &begin, &end)) > 0;) {
    if (limits_.ranges-- <= 0) return;
    // The linker sets discarded functions to address 0.
    if (begin == 0 || end <= begin) continue;
    if (!added) functions_.push_back({dwarf_dieoffset(die), inlined});
    added = true;
    if (by_depth_.size() <= depth) by_depth_.resize(depth + 1);
    by_depth_[depth].push_back({begin, end, functions_.size() - 1});
  }
}

std::string InlineTable::name_of(Dwarf_Die* die, bool* from_linkage_name) const {
  Dwarf_Attribute value;
  for (unsigned attribute : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name}) {
    if (dwarf_attr_integrate(die, attribute, &value) == nullptr) continue;
    const char* linkage = dwarf_formstring(&value);
    if (linkage == nullptr) continue;
    *from_linkage_name = true;
    return function_name(linkage);
  }
  const std::optional<std::string> name = name_in(die);
  if (!name) return {};
  // A concrete function refers to an abstract one, which refers to its declaration inside the class or namespace.
  Dwarf_Die at = *die;
  std::string qualified = *name;
  for (int hops = 0; hops < 8; ++hops) {
    const auto scope = scope_of_.find(dwarf_dieoffset(&at));
    if (scope != scope_of_.end()) qualified = scopes_[scope->second] + "::" + *name;
    Dwarf_Die next;
    if (!get_reference(&at, DW_AT_abstract_origin, &next) && !get_reference(&at, DW_AT_specification, &next)) break;
    at = next;
  }
  return qualified;
}

InlineScope InlineTable::describe(const Function& function) {
  InlineScope scope;
  scope.inlined = function.inlined;
  Dwarf_Die die;
  if (dwarf_offdie(dwarf_cu_getdwarf(unit_.cu), function.offset, &die) == nullptr) return scope;
  scope.function = name_of(&die, &scope.from_linkage_name);
  Dwarf_Addr entry = 0;
  if (dwarf_entrypc(&die, &entry) == 0) scope.entry = entry;
  if (!function.inlined) return scope;
  Dwarf_Attribute value;
  Dwarf_Word number = 0;
  if (dwarf_attr(&die, DW_AT_call_line, &value) != nullptr && dwarf_formudata(&value, &number) == 0) {
    scope.call_line = static_cast<unsigned>(number);
  }
  if (dwarf_attr(&die, DW_AT_call_file, &value) != nullptr && dwarf_formudata(&value, &number) == 0 &&
      number < file_count_) {
    const char* name = dwarf_filesrc(files_, number, nullptr, nullptr);
    if (name != nullptr && ::strnlen(name, kLongestScope) < kLongestScope) scope.call_file = name;
  }
  return scope;
}

std::vector<InlineScope> InlineTable::look_up(std::uint64_t address) {
  std::vector<InlineScope> result;
  for (const std::vector<Range>& ranges : by_depth_) {
    auto after = std::upper_bound(ranges.begin(), ranges.end(), address,
                                  [](std::uint64_t value, const Range& range) { return value < range.begin; });
    if (after == ranges.begin() || address >= std::prev(after)->end) break;
    result.push_back(describe(functions_[std::prev(after)->function]));
  }
  std::reverse(result.begin(), result.end());
  return result;
}

}  // namespace culprit::report
