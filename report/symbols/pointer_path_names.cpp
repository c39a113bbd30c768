#include "report/symbols/pointer_path_names.h"

#include <dwarf.h>

#include <cstring>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "report/base/words.h"
#include "report/symbols/container_classes.h"

namespace culprit::report {
namespace {

// Types of one file may contain one another.
constexpr int kDeepestType = 64;
constexpr std::size_t kLongestText = 1024;
constexpr std::uint64_t kPointerBytes = 8;

// Of an element of an array, one for each dimension. Of one of unknown bounds it has one.
std::vector<std::uint64_t> indexes_of(Dwarf_Die array, std::uint64_t element) {
  std::vector<std::uint64_t> counts = counts_of(array);
  std::vector<std::uint64_t> indexes;
  while (counts.size() > 1 && counts.back() != 0) {
    indexes.insert(indexes.begin(), element % counts.back());
    element /= counts.back();
    counts.pop_back();
  }
  indexes.insert(indexes.begin(), element);
  return indexes;
}

// Both forms of a name, while it grows.
struct Text {
  std::string exact;
  std::string general;
  bool arrow = false;    // the next member is reached through a pointer
  bool several = false;  // what was named is one of several equal ones

  void add(const std::string& part) { add(part, part); }
  void add(const std::string& one, const std::string& all) {
    exact += one;
    general += all;
  }
  void add_member(const std::string& name) {
    add((arrow ? "->" : ".") + name);
    arrow = false;
  }
  void add_index(const std::string& index) {
    add_key(index);
    several = true;
  }
  void add_key(const std::string& key) {
    add("[" + key + "]", "[*]");
    arrow = false;
  }
  // All nodes of a chain have one general name.
  void add_nodes(const std::string& one) {
    constexpr std::string_view kNodes = "->...";
    several = true;
    exact += one;
    const bool there =
        general.size() >= kNodes.size() && general.compare(general.size() - kNodes.size(), kNodes.size(), kNodes) == 0;
    if (!there) general += kNodes;
  }
  // A pointer to a pointer, or to a number, is followed by `*` where no member and no index does.
  void finish() {
    if (arrow) add_index("0");
  }
};

class Namer {
 public:
  Namer(const DataTypes& types, const PointerPath& path, const LocalVariable* local, Text* text)
      : types_(types), path_(path), local_(local), text_(*text) {}

  bool name() {
    Dwarf_Die type;
    std::uint64_t offset = 0;
    if (local_ != nullptr) {
      text_.add(local_->name);
      type = local_->type;
      offset = local_->offset;
    } else if (path_.frame || !types_.type_at(path_.data, &type, &offset)) {
      return false;
    }
    Pointer pointer;
    if (!find_pointer(type, offset, false, &pointer, 0)) return false;
    for (std::size_t i = 0; i < path_.steps.size(); ++i) {
      const bool last = i + 1 == path_.steps.size();
      if (!follow(path_.steps[i], last ? path_.offset : path_.steps[i + 1].at, &pointer)) return false;
      if (text_.exact.size() > kLongestText) return false;
    }
    // The way ends inside a container's own memory.
    if (hopped_) return false;
    text_.finish();
    return true;
  }

  bool proven() const { return proven_; }
  bool stale() const { return stale_; }
  bool keyed() const { return keyed_; }

 private:
  // From `pointer`, which leads to the chunk of `step`, to the pointer at `at` in that chunk.
  bool follow(const PointerStep& step, std::uint64_t at, Pointer* pointer) {
    hopped_ = false;
    if (!pointer->known) return false;
    if (pointer->is_functor && !find_in_functor(step, pointer)) return false;
    if (pointer->shape == Shape::kObject) return follow_object(step, at, pointer);
    if (at < step.inner) return false;
    const std::uint64_t offset = at - step.inner;
    switch (pointer->shape) {
      case Shape::kObject:
        break;
      case Shape::kElements:
        return follow_element(step, offset, pointer);
      case Shape::kNodes:
        return follow_node(step, offset, pointer);
      case Shape::kTable:
        pointer->shape = pointer->behind;
        pointer->counted = false;
        hopped_ = true;
        return true;
    }
    return false;
  }

  // Instead of a pointer in a std::function, the one in its functor or to it.
  bool find_in_functor(const PointerStep& step, Pointer* pointer) {
    DataTypes::Functor functor = {};
    if (!types_.functor_at(step.code, &functor)) return false;
    if (functor.inside) return find_pointer(functor.type, pointer->in_functor, false, pointer, 0);
    pointer->type = functor.type;
    return pointer->in_functor == 0;
  }

  bool follow_object(const PointerStep& step, std::uint64_t at, Pointer* pointer) {
    Dwarf_Die type = pointer->type;
    if (is_class(dwarf_tag(&type)) && !types_.complete(&type)) return false;
    std::uint64_t begin = step.inner;
    const bool polymorphic = is_polymorphic(type);
    if (polymorphic) take_derived_class(step, &type, &begin);
    const std::uint64_t size = size_of(&type);
    if (size == 0 || at < begin) return false;
    const std::uint64_t offset = at - begin;
    // A larger object of a class that is derived from this one, and not known.
    if (offset >= size && (polymorphic || (step.window && is_class(dwarf_tag(&type))))) return false;
    if (step.times > 1) text_.add_nodes("->...(" + std::to_string(step.times - 1) + " nodes)");
    text_.arrow = true;
    if (offset >= size) {
      text_.add_index(std::to_string(offset / size));
      proven_ = false;
    }
    const Dwarf_Off self = dwarf_dieoffset(&type);
    const std::size_t general = text_.general.size();
    if (!find_pointer(type, offset % size, false, pointer, 0)) return false;
    if (pointer->shape == Shape::kObject && pointer->known && offset < size) {
      Dwarf_Die next = pointer->type;
      if (is_class(dwarf_tag(&next)) && types_.complete(&next) && dwarf_dieoffset(&next) == self) {
        text_.general.resize(general);
        text_.add_nodes("");
      }
    }
    return true;
  }

  // The class that an object is of, which may be derived from the pointer's, and where in the chunk it begins: its
  // first word leads to the virtual table.
  void take_derived_class(const PointerStep& step, Dwarf_Die* type, std::uint64_t* begin) const {
    std::size_t word = *begin / sizeof(std::uint64_t);
    if (*begin % sizeof(std::uint64_t) != 0 || word >= step.head.size()) return;
    DataTypes::Functor functor = {};
    // The object around a functor of libc++'s std::function has nothing else.
    if (begins_with(name_of(type), "__base<") && types_.functor_at(step.head[word] - path_.bias, &functor)) {
      *type = functor.type;
      *begin += sizeof(std::uint64_t);
      return;
    }
    const Vtables::Place table = types_.vtables().at(step.head[word] - path_.bias);
    Dwarf_Die derived;
    if (table.class_name.empty() || !types_.class_named(table.class_name, &derived)) return;
    // The pointer may be one to a further base, behind the begin.
    const std::uint64_t own = Vtables::own_part(table.begin) + path_.bias;
    while (step.head[word] != own) {
      if (word-- == 0) return;
    }
    *type = derived;
    *begin = word * sizeof(std::uint64_t);
  }

  bool follow_element(const PointerStep& step, std::uint64_t offset, Pointer* pointer) {
    Dwarf_Die type = pointer->type;
    if (is_class(dwarf_tag(&type)) && !types_.complete(&type)) return false;
    const std::uint64_t size = size_of(&type);
    if (size == 0) return false;
    if (pointer->counted) {
      // Behind its last element a vector has room that nothing was written to.
      const std::uint64_t used = step.behind - (step.begin + step.inner);
      stale_ = used > step.bytes || offset / size >= used / size;
      if (stale_) return false;
    } else {
      proven_ = false;
    }
    text_.add_index(pointer->counted ? std::to_string(offset / size) : "*");
    return find_pointer(type, offset % size, false, pointer, 0);
  }

  bool follow_node(const PointerStep& step, std::uint64_t offset, Pointer* pointer) {
    pointer->index += step.times - 1;
    if (offset < pointer->header) {
      // To another node. Only from the first node on, by the pointer to the next, is the number of nodes an index.
      pointer->counted = pointer->counted && offset == pointer->next;
      ++pointer->index;
      hopped_ = true;
      return true;
    }
    std::string index = "*";
    if (pointer->has_key) {
      index = key_text(step, pointer->header, pointer->key);
    } else if (pointer->counted) {
      index = std::to_string(pointer->index);
    }
    Dwarf_Die type = pointer->type;
    const bool is_pair = pointer->has_key;
    // The elements of a set are its keys.
    if (is_pair && dwarf_dieoffset(&pointer->key) != dwarf_dieoffset(&type)) {
      text_.add_key(index);
      keyed_ = true;
    } else {
      text_.add_index(index);
    }
    const std::uint64_t header = pointer->header;
    if (is_class(dwarf_tag(&type)) && !types_.complete(&type)) return false;
    // `map[key]` is the value: its pair and the member `second` are not written.
    return find_pointer(type, offset - header, is_pair, pointer, 0);
  }

  // The pointer, or the number, at `offset` in an object of this type. `quiet`: the members on the way have no names
  // for a reader. Restores the text when it fails.
  bool find_pointer(Dwarf_Die type, std::uint64_t offset, bool quiet, Pointer* found, int depth) {
    if (depth > kDeepestType) return false;
    switch (dwarf_tag(&type)) {
      case DW_TAG_pointer_type:
      case DW_TAG_reference_type:
      case DW_TAG_rvalue_reference_type: {
        if (offset != 0) return false;
        *found = {};
        found->known = type_of(&type, &found->type);
        return true;
      }
      case DW_TAG_base_type:
      case DW_TAG_enumeration_type:
        *found = {};
        return offset == 0 && size_of(&type) == kPointerBytes;
      case DW_TAG_array_type: {
        Dwarf_Die element;
        if (!type_of(&type, &element)) return false;
        if (is_class(dwarf_tag(&element)) && !types_.complete(&element)) return false;
        const std::uint64_t size = size_of(&element);
        if (size == 0) return false;
        const Text before = text_;
        for (const std::uint64_t index : indexes_of(type, offset / size)) text_.add_index(std::to_string(index));
        if (find_pointer(element, offset % size, quiet, found, depth + 1)) return true;
        text_ = before;
        return false;
      }
      default:
        return is_class(dwarf_tag(&type)) && types_.complete(&type) && find_in_class(type, offset, quiet, found, depth);
    }
  }

  bool find_in_class(Dwarf_Die type, std::uint64_t offset, bool quiet, Pointer* found, int depth) {
    const std::string name = name_of(&type);
    if (find_container(types_, type, name, offset, found)) return true;
    // Raw bytes for a value: nodes of hash tables, alternatives of a variant.
    Dwarf_Die value;
    if (begins_with(name, "__aligned_membuf<") || begins_with(name, "__aligned_buffer<"))
      return template_parameter(&type, "_Tp", &value) && find_pointer(value, offset, false, found, depth + 1);
    // The object of a smart pointer or an optional is named without the library's members around it.
    const bool transparent = is_transparent(types_, type, name);
    // Of a pointer and a number in one place, the pointer is what leads on: the number has its bits for flags.
    const bool alternatives = dwarf_tag(&type) == DW_TAG_union_type;
    std::optional<std::pair<Text, Pointer>> number;
    Dwarf_Die child;
    if (dwarf_child(&type, &child) != 0) return false;
    do {
      const int tag = dwarf_tag(&child);
      if (tag != DW_TAG_member && tag != DW_TAG_inheritance) continue;
      if (tag == DW_TAG_member && dwarf_hasattr(&child, DW_AT_external)) continue;  // static
      // A virtual base lies where the object's virtual table says.
      if (tag == DW_TAG_inheritance && constant_of(&child, DW_AT_virtuality, DW_VIRTUALITY_none) != DW_VIRTUALITY_none)
        continue;
      const std::uint64_t begin = constant_of(&child, DW_AT_data_member_location, 0);
      Dwarf_Die inside;
      if (offset < begin || !type_of(&child, &inside)) continue;
      if (is_class(dwarf_tag(&inside)) && !types_.complete(&inside)) continue;
      if (offset - begin >= size_of(&inside)) continue;
      const Text before = text_;
      std::string member = tag == DW_TAG_member ? name_of(&child) : std::string();
      // The class of a lambda has no name, and g++ calls its captured variable `buffer` there `__buffer`.
      if (name.empty() && begins_with(member, "__")) member.erase(0, 2);
      if (!member.empty() && !quiet && !transparent) text_.add_member(member);
      if (find_pointer(inside, offset - begin, quiet_inside(quiet, transparent, inside), found, depth + 1)) {
        if (!alternatives || found->known) return true;
        if (!number) number = {text_, *found};
      }
      text_ = before;
    } while (dwarf_siblingof(&child, &child) == 0);
    if (!number) return false;
    std::tie(text_, *found) = *number;
    return true;
  }

  // A class of the program inside a library's class has its names again.
  static bool quiet_inside(bool quiet, bool transparent, Dwarf_Die inside) {
    if (!quiet && !transparent) return false;
    if (!is_class(dwarf_tag(&inside))) return true;
    const std::string name = name_of(&inside);
    return name.empty() || is_part_of_container(name);
  }

  bool is_polymorphic(Dwarf_Die type, int depth = 0) const {
    Dwarf_Die child;
    if (depth > kDeepestType || dwarf_child(&type, &child) != 0) return false;
    do {
      const int tag = dwarf_tag(&child);
      if (tag == DW_TAG_member && begins_with(name_of(&child), "_vptr")) return true;
      Dwarf_Die base;
      if (tag == DW_TAG_inheritance && type_of(&child, &base) && types_.complete(&base) &&
          is_polymorphic(base, depth + 1))
        return true;
    } while (dwarf_siblingof(&child, &child) == 0);
    return false;
  }

  // The key at `offset` of a node: a number, a character, a short string; "*" for others.
  std::string key_text(const PointerStep& step, std::uint64_t offset, Dwarf_Die key) const {
    if (offset % sizeof(std::uint64_t) != 0 || offset / sizeof(std::uint64_t) >= step.head.size()) return "*";
    const std::size_t at = offset / sizeof(std::uint64_t);
    if (dwarf_tag(&key) == DW_TAG_base_type || dwarf_tag(&key) == DW_TAG_enumeration_type)
      return number_text(step.head[at], key);
    Dwarf_Die type = key;
    if (!is_class(dwarf_tag(&type))) return "*";
    const std::string name = name_of(&type);
    if (!step.text.empty() && step.text_word == at + word_of_text(name)) return '"' + step.text + '"';
    return short_string(name, &step.head[at], step.head.size() - at, step.begin + offset).value_or("*");
  }

  static std::string number_text(std::uint64_t word, Dwarf_Die type) {
    const std::uint64_t encoding = constant_of(&type, DW_AT_encoding, DW_ATE_signed);
    const std::uint64_t size = size_of(&type);
    if (size == 0 || size > sizeof(word) || encoding == DW_ATE_float) return "*";
    if (encoding == DW_ATE_boolean) return (word & 0xff) != 0 ? "true" : "false";
    const unsigned unused = static_cast<unsigned>(8 * (sizeof(word) - size));
    const bool is_signed = encoding == DW_ATE_signed || encoding == DW_ATE_signed_char;
    if (is_signed) return std::to_string(static_cast<std::int64_t>(word << unused) >> unused);
    return std::to_string(word << unused >> unused);
  }

  const DataTypes& types_;
  const PointerPath& path_;
  const LocalVariable* local_;
  Text& text_;
  bool hopped_ = false;
  bool proven_ = true;
  bool stale_ = false;
  bool keyed_ = false;
};

}  // namespace

PointerPathName name_of_path(const DataTypes& types, const PointerPath& path, const LocalVariable* local) {
  PointerPathName name;
  Text text;
  Namer namer(types, path, local, &text);
  if (!namer.name()) {
    name.stale = namer.stale();
    return name;
  }
  name.exact = std::move(text.exact);
  name.general = std::move(text.general);
  name.typed = namer.proven();
  name.one_of_several = text.several;
  name.keyed = namer.keyed();
  if (local != nullptr) {
    name.function = local->function;
    name.in_block = local->in_block;
  }
  return name;
}

}  // namespace culprit::report
