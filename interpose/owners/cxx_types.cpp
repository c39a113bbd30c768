#include "interpose/owners/cxx_types.h"

#include <cstring>

namespace culprit {
namespace {

// A std::type_info and its derived classes. The names are those of libstdc++ and libc++abi; both follow the ABI's
// layout.
struct TypeInfoLayout {
  const void* const* vtable;
  const char* name;
};
struct SingleBase : TypeInfoLayout {  // __si_class_type_info
  TypeInfo base;
};
struct Base {
  TypeInfo type;
  long offset_flags;  // bit 0 virtual, bit 1 public, from bit 8 on the offset
};
struct ManyBases : TypeInfoLayout {  // __vmi_class_type_info
  unsigned flags;
  unsigned count;
  Base bases[1];
};

enum class Shape { kOther, kSingleBase, kManyBases, kPointer };

const TypeInfoLayout* layout(TypeInfo type) { return static_cast<const TypeInfoLayout*>(type); }

// A type_info is itself an object: the type_info before its vtable gives its class.
Shape shape_of(TypeInfo type) {
  const char* name = type_name(layout(type)->vtable[-1]);
  if (std::strcmp(name, "N10__cxxabiv120__si_class_type_infoE") == 0) return Shape::kSingleBase;
  if (std::strcmp(name, "N10__cxxabiv121__vmi_class_type_infoE") == 0) return Shape::kManyBases;
  if (std::strcmp(name, "N10__cxxabiv119__pointer_type_infoE") == 0 ||
      std::strcmp(name, "N10__cxxabiv129__pointer_to_member_type_infoE") == 0)
    return Shape::kPointer;
  return Shape::kOther;
}

bool same_type(TypeInfo a, TypeInfo b) {
  if (a == b) return true;
  // A name that begins with a star is local to an object file: compare such types by address only.
  return layout(a)->name[0] != '*' && std::strcmp(layout(a)->name, layout(b)->name) == 0;
}

// Larger hierarchies are given up.
constexpr int kMostSteps = 64;

// Counts the public subobjects of class `wanted` in a `type` at `object` (may be null when only the count matters).
// Different paths to one virtual base lead to the same address and count once.
struct Search {
  bool (*is_wanted)(TypeInfo type, TypeInfo wanted);
  TypeInfo wanted;
  const char* found;
  int count;
  int steps;

  void visit(TypeInfo type, const char* object) {
    if (++steps > kMostSteps) return;
    if (is_wanted(type, wanted)) {
      if (count == 0 || found != object) ++count;
      found = object;
      return;
    }
    Shape shape = shape_of(type);
    if (shape == Shape::kSingleBase) visit(static_cast<const SingleBase*>(type)->base, object);
    if (shape != Shape::kManyBases) return;
    const auto* many = static_cast<const ManyBases*>(type);
    for (unsigned i = 0; i < many->count; ++i) {
      const Base& base = many->bases[i];
      if ((base.offset_flags & 2) == 0) continue;
      long offset = base.offset_flags >> 8;
      const char* place = object;
      if (object != nullptr && (base.offset_flags & 1) != 0) {
        // A virtual base: its offset is in the object's vtable.
        const char* vtable = *reinterpret_cast<const char* const*>(object);
        std::memcpy(&offset, vtable + offset, sizeof(offset));
      }
      if (object != nullptr) place += offset;
      visit(base.type, place);
    }
  }
};

bool is_std_exception(TypeInfo type, TypeInfo) { return std::strcmp(layout(type)->name, "St9exception") == 0; }

// The header that ends where the object (or, of a dependent exception, nothing) begins: 112 bytes, of which the last 32
// are the _Unwind_Exception and the first 8 the type, or the object of a dependent exception.
constexpr std::uint64_t kHeaderBytes = 112;
constexpr std::uint64_t kUnwindBytes = 32;

template <typename T>
T read_at(const void* base, std::int64_t offset) {
  T value;
  std::memcpy(&value, static_cast<const char*>(base) + offset, sizeof(value));
  return value;
}

// "GNUCC++" or "CLNGC++", the last byte 0 for a primary exception and 1 for a dependent one.
bool is_cxx_class(std::uint64_t exception_class) {
  return exception_class >> 8 == 0x474e5543432b2bULL || exception_class >> 8 == 0x434c4e47432b2bULL;
}

}  // namespace

const char* type_name(TypeInfo type) {
  if (type == nullptr) return nullptr;
  const char* name = layout(type)->name;
  return name[0] == '*' ? name + 1 : name;
}

int is_caught_by(TypeInfo type, TypeInfo handler_type) {
  if (handler_type == nullptr) return 1;
  if (type == nullptr) return 0;
  if (same_type(type, handler_type)) return 1;
  Shape shape = shape_of(type);
  if (shape == Shape::kPointer && shape_of(handler_type) == Shape::kPointer) return -1;
  if (shape == Shape::kPointer || shape == Shape::kOther) return 0;
  Search search = {same_type, handler_type, nullptr, 0, 0};
  search.visit(type, nullptr);
  return search.count != 0 ? 1 : 0;
}

const void* as_std_exception(TypeInfo type, const void* object) {
  if (type == nullptr || object == nullptr) return nullptr;
  Search search = {is_std_exception, nullptr, nullptr, 0, 0};
  search.visit(type, static_cast<const char*>(object));
  return search.count == 1 ? search.found : nullptr;
}

const char* what_of(const void* std_exception) {
  // virtual ~exception() takes the first two places of the vtable, what() the third.
  const auto* vtable = *static_cast<const void* const* const*>(std_exception);
  return reinterpret_cast<const char* (*)(const void*)>(const_cast<void*>(vtable[2]))(std_exception);
}

ThrownObject thrown_object(const void* unwind_exception) {
  auto exception_class = read_at<std::uint64_t>(unwind_exception, 0);
  if (!is_cxx_class(exception_class)) return {unwind_exception, nullptr};
  const void* object = static_cast<const char*>(unwind_exception) + kUnwindBytes;
  if ((exception_class & 0xff) != 0)
    object = read_at<const void*>(unwind_exception, -static_cast<std::int64_t>(kHeaderBytes - kUnwindBytes));
  return {object, type_of_object(object)};
}

TypeInfo type_of_object(const void* object) {
  return read_at<TypeInfo>(object, -static_cast<std::int64_t>(kHeaderBytes));
}

}  // namespace culprit
