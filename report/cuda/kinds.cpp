#include "report/cuda/kinds.h"

namespace culprit::report {

using format::Kind;
using format::KindRow;
using format::KindSort;

namespace {

constexpr KindClass class_of(KindSort sort) {
  switch (sort) {
    case KindSort::kDeviceMemory:
      return KindClass::kDeviceMemory;
    case KindSort::kHostMemory:
      return KindClass::kHostMemory;
    case KindSort::kNoBytes:
    case KindSort::kObject:
      return KindClass::kObject;
    case KindSort::kInside:
      return KindClass::kInside;
    case KindSort::kNeverCounted:
      return KindClass::kNeverCounted;
  }
  return KindClass::kObject;
}

}  // namespace

std::string kind_name(Kind kind) {
  const KindRow* row = format::kinds::find(kind);
  return row != nullptr ? row->name : "kind " + std::to_string(static_cast<unsigned>(kind));
}

std::vector<std::string> kind_names() {
  std::vector<std::string> names;
  for (const KindRow& row : format::kinds::kRows) names.emplace_back(row.name);
  return names;
}

std::string kind_count_name(Kind kind, std::uint64_t count) {
  const KindRow* row = format::kinds::find(kind);
  if (row == nullptr) return "of " + kind_name(kind);
  return count == 1 ? row->one : row->many;
}

KindClass kind_class(Kind kind) {
  const KindRow* row = format::kinds::find(kind);
  return row != nullptr ? class_of(row->sort) : KindClass::kObject;
}

}  // namespace culprit::report
