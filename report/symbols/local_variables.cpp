#include "report/symbols/local_variables.h"

#include <dwarf.h>

#include <cstdlib>
#include <optional>

#include "report/symbols/data_types.h"

namespace culprit::report {
namespace {

constexpr int kDeepest = 256;

// A register and a constant.
struct RegisterPlus {
  unsigned number = 0;
  std::int64_t plus = 0;
};

std::optional<RegisterPlus> register_plus(const Dwarf_Op& operation) {
  if (operation.atom >= DW_OP_breg0 && operation.atom <= DW_OP_breg31)
    return RegisterPlus{static_cast<unsigned>(operation.atom - DW_OP_breg0),
                        static_cast<std::int64_t>(operation.number)};
  if (operation.atom == DW_OP_bregx)
    return RegisterPlus{static_cast<unsigned>(operation.number), static_cast<std::int64_t>(operation.number2)};
  return std::nullopt;
}

// Empty: no compiler's output comes near.
std::optional<std::int64_t> sum_of(std::int64_t one, std::int64_t other) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(one, other, &sum) ? std::nullopt : std::optional(sum);
}

std::optional<std::int64_t> difference_of(std::int64_t from, std::int64_t less) {
  std::int64_t difference = 0;
  return __builtin_sub_overflow(from, less, &difference) ? std::nullopt : std::optional(difference);
}

// The CFA of a function at an address of its code.
std::optional<RegisterPlus> cfa_at(Dwfl_Module* module, std::uint64_t address) {
  Dwarf_Addr bias = 0;
  for (Dwarf_CFI* information : {dwfl_module_eh_cfi(module, &bias), dwfl_module_dwarf_cfi(module, &bias)}) {
    Dwarf_Frame* frame = nullptr;
    if (information == nullptr || dwarf_cfi_addrframe(information, address, &frame) != 0) continue;
    Dwarf_Op* operations = nullptr;
    std::size_t count = 0;
    std::optional<RegisterPlus> rule;
    if (dwarf_frame_cfa(frame, &operations, &count) == 0 && count == 1) rule = register_plus(operations[0]);
    std::free(frame);
    if (rule) return rule;
  }
  return std::nullopt;
}

// Where things of one function lie at one address of its code, from its CFA.
class Frame {
 public:
  Frame(Dwfl_Module* module, std::uint64_t address) : address_(address), cfa_(cfa_at(module, address)) {}

  void enter(Dwarf_Die* function) {
    Dwarf_Attribute attribute;
    Dwarf_Op* operations = nullptr;
    std::size_t count = 0;
    if (dwarf_attr(function, DW_AT_frame_base, &attribute) == nullptr ||
        dwarf_getlocation_addr(&attribute, address_, &operations, &count, 1) != 1 || count != 1)
      return;
    const Dwarf_Op& base = operations[0];
    if (base.atom == DW_OP_call_frame_cfa) {
      base_ = 0;
    } else if (base.atom >= DW_OP_reg0 && base.atom <= DW_OP_reg31) {
      base_ = from_cfa({static_cast<unsigned>(base.atom - DW_OP_reg0), 0});
    } else if (const std::optional<RegisterPlus> value = register_plus(base)) {
      base_ = from_cfa(*value);
    }
  }

  std::optional<std::int64_t> place_of(Dwarf_Die* variable) const {
    Dwarf_Attribute attribute;
    Dwarf_Op* operations = nullptr;
    std::size_t count = 0;
    if (dwarf_attr(variable, DW_AT_location, &attribute) == nullptr ||
        dwarf_getlocation_addr(&attribute, address_, &operations, &count, 1) != 1 || count != 1)
      return std::nullopt;
    if (operations[0].atom == DW_OP_fbreg)
      return base_ ? sum_of(*base_, static_cast<std::int64_t>(operations[0].number)) : std::nullopt;
    const std::optional<RegisterPlus> place = register_plus(operations[0]);
    return place ? from_cfa(*place) : std::nullopt;
  }

 private:
  std::optional<std::int64_t> from_cfa(const RegisterPlus& place) const {
    if (!cfa_ || cfa_->number != place.number) return std::nullopt;
    return difference_of(place.plus, cfa_->plus);
  }

  const std::uint64_t address_;
  const std::optional<RegisterPlus> cfa_;
  std::optional<std::int64_t> base_;
};

class Search {
 public:
  Search(Dwfl_Module* module, const FramePlace& place, DwarfLimits* limits, TimeLimit* time, LocalVariable* found)
      : now_(module, place.address),
        at_call_(module, place.call),
        place_(place),
        limits_(*limits),
        time_(*time),
        found_(*found) {}

  // The function among these entries and those of namespaces and classes.
  bool in_functions(Dwarf_Die first, int level) {
    return any_entry(first, level, [&](Dwarf_Die* die, int tag) {
      Dwarf_Die child;
      if (tag == DW_TAG_subprogram) return has_both(die) && in_function(*die);
      const bool has_functions = tag == DW_TAG_namespace || is_class(tag);
      return has_functions && dwarf_child(die, &child) == 0 && in_functions(child, level + 1);
    });
  }

 private:
  bool has_both(Dwarf_Die* die) const {
    return dwarf_haspc(die, place_.address) == 1 && dwarf_haspc(die, place_.call) == 1;
  }

  bool in_function(Dwarf_Die function) {
    now_.enter(&function);
    at_call_.enter(&function);
    Dwarf_Die child;
    return dwarf_child(&function, &child) == 0 && in_scope(child, name_of(&function), 0);
  }

  bool in_scope(Dwarf_Die first, const std::string& function, int level) {
    const bool here = any_entry(first, level, [&](Dwarf_Die* die, int tag) {
      return tag == DW_TAG_variable &&
             (is_there(now_, die, function, level) || is_there(at_call_, die, function, level));
    });
    return here || any_entry(first, level, [&](Dwarf_Die* die, int tag) {
             Dwarf_Die child;
             if (tag != DW_TAG_lexical_block && tag != DW_TAG_inlined_subroutine) return false;
             if (!has_both(die) || dwarf_child(die, &child) != 0) return false;
             return in_scope(child, tag == DW_TAG_inlined_subroutine ? name_of(die) : function, level + 1);
           });
  }

  // An optimizing compiler tells the place of a variable only as long as its value is used. In memory it stays where it
  // was when the call was made.
  bool is_there(const Frame& frame, Dwarf_Die* variable, const std::string& function, int level) {
    const std::optional<std::int64_t> begin = frame.place_of(variable);
    const std::optional<std::int64_t> inside = begin ? difference_of(place_.offset, *begin) : std::nullopt;
    if (!inside || *inside < 0 || !type_of(variable, &found_.type)) return false;
    found_.offset = static_cast<std::uint64_t>(*inside);
    found_.name = name_of(variable);
    found_.function = function;
    found_.in_block = level != 0;
    return !found_.name.empty() && found_.offset < size_of(&found_.type);
  }

  // Whether visit(entry, tag) is true for one of `first` and its siblings.
  template <typename Visit>
  bool any_entry(Dwarf_Die first, int level, Visit visit) {
    if (level > kDeepest) return false;
    Dwarf_Die die = first;
    do {
      if (limits_.entries-- <= 0 || time_.is_over()) return false;
      if (visit(&die, dwarf_tag(&die))) return true;
    } while (dwarf_siblingof(&die, &die) == 0);
    return false;
  }

  Frame now_;
  Frame at_call_;
  const FramePlace& place_;
  DwarfLimits& limits_;
  TimeLimit& time_;
  LocalVariable& found_;
};

}  // namespace

bool find_local_variable(Dwfl_Module* module, Dwarf_Die unit, const FramePlace& place, DwarfLimits* limits,
                         TimeLimit* time, LocalVariable* found) {
  Dwarf_Die child;
  if (dwarf_child(&unit, &child) != 0) return false;
  return Search(module, place, limits, time, found).in_functions(child, 0);
}

}  // namespace culprit::report
