#include "report/symbols/container_classes.h"

#include <dwarf.h>

#include <cstring>

#include "report/base/words.h"

namespace culprit::report {
namespace {

constexpr std::uint64_t kWordBytes = 8;

// The type of a class's own member of this name. `offset`, if given, receives where it is.
bool member_of(const DataTypes& types, Dwarf_Die type, std::string_view name, Dwarf_Die* found,
               std::uint64_t* offset = nullptr) {
  Dwarf_Die child;
  if (!types.complete(&type) || dwarf_child(&type, &child) != 0) return false;
  do {
    if (dwarf_tag(&child) != DW_TAG_member || name_of(&child) != name) continue;
    if (offset != nullptr) *offset = constant_of(&child, DW_AT_data_member_location, 0);
    return type_of(&child, found);
  } while (dwarf_siblingof(&child, &child) == 0);
  return false;
}

bool has_member(const DataTypes& types, Dwarf_Die type, std::string_view name) {
  Dwarf_Die member;
  return member_of(types, type, name, &member);
}

bool find_of_libstdcxx(Dwarf_Die type, const std::string& name, std::uint64_t offset, Pointer* found) {
  Pointer pointer;
  pointer.known = true;
  if (begins_with(name, "_Vector_base<")) {
    pointer.shape = Shape::kElements;
    pointer.counted = true;
    if (!template_parameter(&type, "_Tp", &pointer.type)) return false;
  } else if (begins_with(name, "_Deque_base<")) {
    if (!template_parameter(&type, "_Tp", &pointer.type)) return false;
    // _M_map, _M_map_size, then two iterators of _M_cur, _M_first, _M_last, _M_node.
    const std::uint64_t word = offset / kWordBytes;
    const bool table = word == 0 || (word >= 2 && (word - 2) % 4 == 3);
    pointer.shape = table ? Shape::kTable : Shape::kElements;
    pointer.behind = Shape::kElements;
  } else if (begins_with(name, "_List_base<") || begins_with(name, "_Fwd_list_base<")) {
    pointer.shape = Shape::kNodes;
    pointer.header = begins_with(name, "_List_base<") ? 2 * kWordBytes : kWordBytes;
    pointer.counted = offset == 0;
    if (!template_parameter(&type, "_Tp", &pointer.type)) return false;
  } else if (begins_with(name, "_Rb_tree<")) {
    // _Rb_tree_node_base: colour, parent, left, right.
    pointer.shape = Shape::kNodes;
    pointer.header = 4 * kWordBytes;
    pointer.has_key = template_parameter(&type, "_Key", &pointer.key);
    if (!template_parameter(&type, "_Val", &pointer.type)) return false;
  } else if (begins_with(name, "_Hashtable<")) {
    pointer.shape = offset == 0 ? Shape::kTable : Shape::kNodes;
    pointer.header = kWordBytes;
    pointer.has_key = template_parameter(&type, "_Key", &pointer.key);
    if (!template_parameter(&type, "_Value", &pointer.type)) return false;
  } else {
    return false;
  }
  *found = pointer;
  return true;
}

// The values of a map or a set of libc++: those of a map have a class of their own around the pair.
bool find_values(const DataTypes& types, Dwarf_Die type, Pointer* pointer) {
  if (!template_parameter(&type, "_Tp", &pointer->type)) return false;
  const std::string name = name_of(&pointer->type);
  pointer->has_key = true;
  pointer->key = pointer->type;
  if (!begins_with(name, "__value_type<") && !begins_with(name, "__hash_value_type<")) return true;
  Dwarf_Die value = pointer->type;
  if (!types.complete(&value)) return false;
  return template_parameter(&value, "_Key", &pointer->key) &&
         (member_of(types, value, "__cc_", &pointer->type) || member_of(types, value, "__cc", &pointer->type));
}

bool find_of_libcxx(const DataTypes& types, Dwarf_Die type, const std::string& name, std::uint64_t offset,
                    Pointer* found) {
  Pointer pointer;
  pointer.known = true;
  if (begins_with(name, "__vector_base<") || (begins_with(name, "vector<") && has_member(types, type, "__begin_"))) {
    pointer.shape = Shape::kElements;
    pointer.counted = true;
    if (!template_parameter(&type, "_Tp", &pointer.type)) return false;
  } else if (begins_with(name, "__deque_base<") || (begins_with(name, "deque<") && has_member(types, type, "__map_"))) {
    pointer.shape = Shape::kTable;
    pointer.behind = Shape::kElements;
    if (!template_parameter(&type, "_Tp", &pointer.type)) return false;
  } else if (begins_with(name, "__list_imp<") || begins_with(name, "__forward_list_base<")) {
    // __prev_, __next_; or __next_ alone.
    const bool both = begins_with(name, "__list_imp<");
    pointer.shape = Shape::kNodes;
    pointer.header = both ? 2 * kWordBytes : kWordBytes;
    pointer.next = both ? kWordBytes : 0;
    pointer.counted = offset == pointer.next;
    if (!template_parameter(&type, "_Tp", &pointer.type)) return false;
  } else if (begins_with(name, "__tree<")) {
    // __left_, __right_, __parent_, the colour.
    pointer.shape = Shape::kNodes;
    pointer.header = 4 * kWordBytes;
    if (!find_values(types, type, &pointer)) return false;
  } else if (begins_with(name, "__hash_table<")) {
    // __next_, __hash_.
    pointer.shape = offset == 0 ? Shape::kTable : Shape::kNodes;
    pointer.header = 2 * kWordBytes;
    if (!find_values(types, type, &pointer)) return false;
  } else {
    return false;
  }
  *found = pointer;
  return true;
}

}  // namespace

bool is_transparent(const DataTypes& types, Dwarf_Die type, std::string_view name) {
  for (const char* prefix : {"unique_ptr<",
                             "shared_ptr<",
                             "vector<",
                             "list<",
                             "forward_list<",
                             "deque<",
                             "map<",
                             "multimap<",
                             "set<",
                             "multiset<",
                             "unordered_map<",
                             "unordered_multimap<",
                             "unordered_set<",
                             "unordered_multiset<",
                             "queue<",
                             "stack<",
                             "priority_queue<",
                             "optional<",
                             "variant<",
                             "tuple<",
                             "array<",
                             "atomic<",
                             "reference_wrapper<",
                             "device_vector<",
                             "host_vector<",
                             "device_ptr<",
                             "device_uvector<",
                             "device_scalar<"}) {
    if (begins_with(name, prefix)) return true;
  }
  // rmm::device_buffer is no template: a program's own class may have its name, hardly its members.
  if (name == "device_buffer") return has_member(types, type, "_capacity") && has_member(types, type, "_stream");
  if (begins_with(name, "vector_base<")) return has_member(types, type, "m_storage");  // thrust::universal_vector
  if (name == "any") return has_member(types, type, "_M_manager") || has_member(types, type, "__h");
  return name.size() > 1 && name[0] == '_' && (name[1] == '_' || (name[1] >= 'A' && name[1] <= 'Z'));
}

bool is_part_of_container(std::string_view name) {
  for (const char* prefix : {"vector_base<", "contiguous_storage<", "normal_iterator<", "iterator_adaptor<", "pointer<",
                             "tagged_pointer<", "device_ptr<"}) {
    if (begins_with(name, prefix)) return true;
  }
  return false;
}

// A std::function of libstdc++ has a small functor in its first 16 bytes, else a pointer to it, then the manager and
// the invoker. That of libc++ has a pointer to an object with a virtual table and the functor, which may lie in front
// of this pointer.
bool find_functor(const DataTypes& types, Dwarf_Die type, const std::string& name, std::uint64_t offset,
                  Pointer* found) {
  if (!begins_with(name, "function<")) return false;
  Dwarf_Die value;
  if (has_member(types, type, "_M_invoker")) {
    if (offset >= 2 * kWordBytes) return false;
    *found = {};
    found->is_functor = found->known = offset % kWordBytes == 0;
    found->in_functor = offset;
    return true;
  }
  if (!member_of(types, type, "__f_", &value) || !begins_with(name_of(&value), "__value_func<")) return false;
  *found = {};
  Dwarf_Die pointer;
  std::uint64_t to_pointer = 0;
  if (member_of(types, value, "__f_", &pointer, &to_pointer) && offset == to_pointer) {
    found->known = type_of(&pointer, &found->type);
  } else if (offset == kWordBytes) {
    found->is_functor = found->known = true;
  }
  return true;
}

bool find_container(const DataTypes& types, Dwarf_Die type, const std::string& name, std::uint64_t offset,
                    Pointer* found) {
  return find_of_libstdcxx(type, name, offset, found) || find_of_libcxx(types, type, name, offset, found) ||
         find_functor(types, type, name, offset, found);
}

std::size_t word_of_text(const std::string& name) {
  constexpr std::size_t kNone = 1024;
  const bool libcxx = name.find("std::__1::") != std::string::npos;
  // libstdc++: length and pointer; libc++: pointer and length.
  if (begins_with(name, "basic_string_view<char,")) return libcxx ? 0 : 1;
  // libstdc++: pointer, length and capacity; libc++: capacity, length and pointer.
  if (begins_with(name, "basic_string<char,")) return libcxx ? 2 : 0;
  return kNone;
}

std::optional<std::string> short_string(const std::string& name, const std::uint64_t* words, std::size_t count,
                                        std::uint64_t address) {
  if (!begins_with(name, "basic_string<char,")) return std::nullopt;
  const auto* bytes = reinterpret_cast<const char*>(words);
  if (name.find("std::__1::") != std::string::npos) {
    // libc++, on a machine with its lowest byte first: twice the length, then the text; else the lowest bit is set.
    constexpr std::size_t kWords = 3;
    const auto first = static_cast<unsigned char>(bytes[0]);
    if (count < kWords || first % 2 != 0 || first / 2 >= kWords * sizeof(words[0]) - 1) return std::nullopt;
    return '"' + std::string(bytes + 1, first / 2) + '"';
  }
  // libstdc++: pointer, length, and a short text inside.
  constexpr std::size_t kWords = 4;
  constexpr std::uint64_t kShort = 15;
  if (count < kWords || words[0] != address + 2 * sizeof(words[0]) || words[1] > kShort) return std::nullopt;
  return '"' + std::string(bytes + 2 * sizeof(words[0]), words[1]) + '"';
}

}  // namespace culprit::report
