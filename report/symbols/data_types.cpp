#include "report/symbols/data_types.h"

#include <dwarf.h>

#include <algorithm>
#include <cstring>

#include "interpose/format/dump_format.h"
#include "report/base/words.h"

namespace culprit::report {
namespace {

// The walks are recursive, and no compiler emits deeper trees or longer chains.
constexpr int kDeepestEntries = 256;
constexpr int kLongestChain = 64;
constexpr std::size_t kLongestOfEntry = 1024;
constexpr std::size_t kLongestOfScope = 4096;

// Functions of std::function. Each of its classes has them for one functor.
bool knows_functor(const std::string& function) { return function == "_M_manager" || function == "_M_invoke"; }

// Itanium C++ ABI, 5.1.5: a member function of a class N...E is _ZN...FUNCTION, or _ZNK...FUNCTION.
bool is_member_of(const std::string& function, const std::string& class_name) {
  if (class_name.size() < 3 || class_name[0] != 'N' || !begins_with(function, "_ZN")) return false;
  const std::string_view path = std::string_view(class_name).substr(1, class_name.size() - 2);
  const std::size_t begin = function[3] == 'K' ? 4 : 3;
  return function.compare(begin, path.size(), path) == 0;
}

// The address of a variable with one; that of a thread-local variable is its offset in the module's segment, with
// format::kHolderThreadLocal. False for those in registers and constants.
bool address_of(Dwarf_Die* die, std::uint64_t* address) {
  Dwarf_Attribute location;
  if (dwarf_attr(die, DW_AT_location, &location) == nullptr) return false;
  Dwarf_Op* operations = nullptr;
  std::size_t count = 0;
  if (dwarf_getlocation(&location, &operations, &count) != 0) return false;
  if (count == 2 &&
      (operations[1].atom == DW_OP_GNU_push_tls_address || operations[1].atom == DW_OP_form_tls_address)) {
    if (operations[0].atom != DW_OP_const8u && operations[0].atom != DW_OP_const4u) return false;
    *address = operations[0].number | format::kHolderThreadLocal;
    return true;
  }
  if (count != 1) return false;
  if (operations[0].atom == DW_OP_addr) {
    *address = operations[0].number;
    return true;
  }
  // Split DWARF: the address is in a table of the program's file.
  if (operations[0].atom != DW_OP_addrx && operations[0].atom != DW_OP_GNU_addr_index) return false;
  Dwarf_Attribute indirect;
  return dwarf_getlocation_attr(&location, operations, &indirect) == 0 && dwarf_formaddr(&indirect, address) == 0;
}

// -fdebug-types-section: the class lies in a unit of its own, and what each source file has of it names that unit.
bool find_in_type_unit(Dwarf_Die* type) {
  Dwarf_Attribute signature;
  Dwarf_Die found;
  if (dwarf_attr(type, DW_AT_signature, &signature) == nullptr || dwarf_formref_die(&signature, &found) == nullptr)
    return false;
  *type = found;
  return true;
}

}  // namespace

bool is_class(int tag) { return tag == DW_TAG_structure_type || tag == DW_TAG_class_type || tag == DW_TAG_union_type; }

std::string name_of(Dwarf_Die* die) {
  const char* name = dwarf_diename(die);
  return name == nullptr ? std::string() : std::string(name, ::strnlen(name, kLongestOfEntry));
}

std::uint64_t constant_of(Dwarf_Die* die, unsigned attribute, std::uint64_t otherwise) {
  Dwarf_Attribute value;
  Dwarf_Word number = 0;
  return dwarf_attr(die, attribute, &value) != nullptr && dwarf_formudata(&value, &number) == 0 ? number : otherwise;
}

bool type_of(Dwarf_Die* die, Dwarf_Die* type) {
  Dwarf_Die from = *die;
  for (int i = 0; i < kLongestChain; ++i) {
    Dwarf_Attribute value;
    Dwarf_Die next;
    if (dwarf_attr_integrate(&from, DW_AT_type, &value) == nullptr || dwarf_formref_die(&value, &next) == nullptr)
      return false;
    switch (dwarf_tag(&next)) {
      case DW_TAG_typedef:
      case DW_TAG_const_type:
      case DW_TAG_volatile_type:
      case DW_TAG_atomic_type:
      case DW_TAG_restrict_type:
        from = next;
        continue;
      default:
        *type = next;
        find_in_type_unit(type);
        return true;
    }
  }
  return false;
}

bool template_parameter(Dwarf_Die* type, const char* name, Dwarf_Die* found) {
  Dwarf_Die child;
  if (dwarf_child(type, &child) != 0) return false;
  do {
    if (dwarf_tag(&child) == DW_TAG_template_type_parameter && (name == nullptr || name_of(&child) == name))
      return type_of(&child, found);
  } while (dwarf_siblingof(&child, &child) == 0);
  return false;
}

std::vector<std::uint64_t> counts_of(Dwarf_Die array) {
  constexpr std::size_t kMostDimensions = 64;
  std::vector<std::uint64_t> counts;
  Dwarf_Die child;
  for (bool more = dwarf_child(&array, &child) == 0; more; more = dwarf_siblingof(&child, &child) == 0) {
    if (dwarf_tag(&child) != DW_TAG_subrange_type || counts.size() == kMostDimensions) continue;
    std::uint64_t count = constant_of(&child, DW_AT_count, 0);
    if (count == 0 && dwarf_hasattr(&child, DW_AT_upper_bound)) count = constant_of(&child, DW_AT_upper_bound, 0) + 1;
    counts.push_back(count);
  }
  return counts;
}

std::uint64_t size_of(Dwarf_Die* type) {
  Dwarf_Word bytes = 0;
  if (dwarf_aggregate_size(type, &bytes) == 0) return bytes;
  // libdw does not find the elements' size in a type unit.
  Dwarf_Die element;
  if (dwarf_tag(type) != DW_TAG_array_type || !type_of(type, &element) || dwarf_tag(&element) == DW_TAG_array_type)
    return 0;
  bytes = size_of(&element);
  for (const std::uint64_t count : counts_of(*type)) bytes *= count;
  return bytes;
}

DataTypes::DataTypes(const std::vector<Dwarf_Die>& units, Dwfl_Module* file, DwarfLimits* limits, TimeLimit* time)
    : file_(file), limits_(*limits), time_(*time) {
  for (Dwarf_Die unit : units) {
    Dwarf_Die child;
    if (dwarf_child(&unit, &child) == 0) walk(child, "", 0);
  }
  std::stable_sort(variables_.begin(), variables_.end(),
                   [](const DataVariable& left, const DataVariable& right) { return left.address < right.address; });
}

// Visits `first` and its siblings.
void DataTypes::walk(Dwarf_Die first, const std::string& scope, int level) {
  if (level > kDeepestEntries) return;
  Dwarf_Die die = first;
  do {
    if (limits_.entries-- <= 0 || time_.is_over()) return;
    const int tag = dwarf_tag(&die);
    std::string inside = scope;
    switch (tag) {
      case DW_TAG_variable:
        add_variable(&die);
        continue;
      case DW_TAG_namespace:
      case DW_TAG_structure_type:
      case DW_TAG_class_type:
      case DW_TAG_union_type: {
        const std::string name = name_of(&die);
        inside = (scope.empty() ? "" : scope + "::") + name;
        limits_.scope_bytes -= static_cast<std::int64_t>(inside.size());
        if (limits_.scope_bytes < 0 || inside.size() > kLongestOfScope) return;
        if (is_class(tag) && !name.empty()) add_type(&die, inside);
        if (begins_with(name, "_Function_handler<")) add_handler(&die);
        if (begins_with(name, "__func<")) add_holder(&die);
        break;
      }
      case DW_TAG_subprogram:
        add_function(&die);
        break;
      case DW_TAG_lexical_block:
        break;
      default:
        continue;
    }
    Dwarf_Die child;
    if (dwarf_child(&die, &child) == 0) walk(child, inside, level + 1);
  } while (dwarf_siblingof(&die, &die) == 0);
}

void DataTypes::add_variable(Dwarf_Die* die) {
  std::uint64_t address = 0;
  if (address_of(die, &address)) variables_.push_back({address, *die});
}

void DataTypes::add_handler(Dwarf_Die* die) {
  Dwarf_Die child;
  if (dwarf_child(die, &child) != 0) return;
  do {
    if (dwarf_tag(&child) == DW_TAG_subprogram && knows_functor(name_of(&child)))
      handlers_.emplace(dwarf_dieoffset(&child), *die);
  } while (dwarf_siblingof(&child, &child) == 0);
}

void DataTypes::add_holder(Dwarf_Die* die) {
  Dwarf_Die child;
  if (dwarf_child(die, &child) != 0) return;
  do {
    Dwarf_Attribute linkage;
    const char* name = dwarf_tag(&child) == DW_TAG_subprogram
                           ? dwarf_formstring(dwarf_attr(&child, DW_AT_linkage_name, &linkage))
                           : nullptr;
    if (name == nullptr) continue;
    holders_.emplace_back(std::string(name, ::strnlen(name, kLongestOfScope)), *die);
    return;
  } while (dwarf_siblingof(&child, &child) == 0);
}

void DataTypes::add_function(Dwarf_Die* die) {
  Dwarf_Addr address = 0;
  if (dwarf_lowpc(die, &address) != 0 || !knows_functor(name_of(die))) return;
  // The declaration in the class, perhaps behind the function's abstract instance.
  constexpr int kMostOrigins = 4;
  Dwarf_Die at = *die;
  for (int i = 0; i < kMostOrigins; ++i) {
    Dwarf_Attribute origin;
    Dwarf_Die next;
    if (dwarf_attr(&at, DW_AT_abstract_origin, &origin) == nullptr &&
        dwarf_attr(&at, DW_AT_specification, &origin) == nullptr)
      break;
    if (dwarf_formref_die(&origin, &next) == nullptr) return;
    at = next;
  }
  managers_.emplace(address, dwarf_dieoffset(&at));
}

// A constant of the handler's base class tells it.
bool DataTypes::is_inside(Dwarf_Die handler) const {
  Dwarf_Die child;
  for (bool more = dwarf_child(&handler, &child) == 0; more; more = dwarf_siblingof(&child, &child) == 0) {
    Dwarf_Die base;
    Dwarf_Die member;
    if (dwarf_tag(&child) != DW_TAG_inheritance || !type_of(&child, &base) || !complete(&base)) continue;
    for (bool any = dwarf_child(&base, &member) == 0; any; any = dwarf_siblingof(&member, &member) == 0) {
      if (name_of(&member) == "__stored_locally") return constant_of(&member, DW_AT_const_value, 0) != 0;
    }
  }
  return false;
}

bool DataTypes::functor_at(std::uint64_t address, Functor* functor) const {
  const auto manager = managers_.find(address);
  if (manager != managers_.end()) {
    const auto handler = handlers_.find(manager->second);
    if (handler == handlers_.end()) return false;
    Dwarf_Die found = handler->second;
    if (!complete(&found)) return false;
    functor->inside = is_inside(found);
    return template_parameter(&found, "_Functor", &functor->type);
  }
  const std::string table = vtables().at(address).mangled_name;
  for (const auto& [function, holder] : holders_) {
    if (!is_member_of(function, table)) continue;
    Dwarf_Die found = holder;
    functor->inside = true;
    return complete(&found) && template_parameter(&found, nullptr, &functor->type);
  }
  return false;
}

void DataTypes::add_type(Dwarf_Die* die, const std::string& name) {
  if (!dwarf_hasattr(die, DW_AT_declaration) || dwarf_hasattr(die, DW_AT_signature)) {
    types_.emplace(name, *die);
  } else {
    declared_.emplace(dwarf_dieoffset(die), name);
  }
}

bool DataTypes::type_at(std::uint64_t address, Dwarf_Die* type, std::uint64_t* offset) const {
  auto behind =
      std::upper_bound(variables_.begin(), variables_.end(), address,
                       [](std::uint64_t value, const DataVariable& variable) { return value < variable.address; });
  if (behind == variables_.begin()) return false;
  DataVariable variable = *std::prev(behind);
  *offset = address - variable.address;
  return type_of(&variable.die, type) && (!is_class(dwarf_tag(type)) || complete(type)) && *offset < size_of(type);
}

const Vtables& DataTypes::vtables() const {
  if (!vtables_) vtables_.emplace(file_);
  return *vtables_;
}

bool DataTypes::class_named(const std::string& name, Dwarf_Die* type) const {
  const auto known = types_.find(name);
  if (known == types_.end()) return false;
  *type = known->second;
  find_in_type_unit(type);
  return true;
}

bool DataTypes::complete(Dwarf_Die* type) const {
  if (find_in_type_unit(type) || !dwarf_hasattr(type, DW_AT_declaration)) return true;
  const auto name = declared_.find(dwarf_dieoffset(type));
  return class_named(name != declared_.end() ? name->second : name_of(type), type);
}

}  // namespace culprit::report
