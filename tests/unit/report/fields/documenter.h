// The archive of report/fields/ that makes the tables of SCHEMA.md. A small structure has no table: its fields stand
// behind the meaning of the field that has it.
#pragma once

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "report/fields/report_fields.h"

namespace culprit::test {

template <typename Struct>
constexpr bool kHasTable = false;
#define HAS_TABLE(name) \
  template <>           \
  inline constexpr bool kHasTable<report::name> = true
HAS_TABLE(Frame);
HAS_TABLE(ThreadInfo);
HAS_TABLE(Report);
HAS_TABLE(ProcessInfo);
HAS_TABLE(JobProcess);
HAS_TABLE(DeviceInfo);
HAS_TABLE(Summary);
HAS_TABLE(Breakdown);
HAS_TABLE(CacheInside);
HAS_TABLE(Keeper);
HAS_TABLE(GpuCharges);
HAS_TABLE(Balance);
HAS_TABLE(CallCharge);
HAS_TABLE(ContextInfo);
HAS_TABLE(Overwritten);
HAS_TABLE(Audit);
HAS_TABLE(HolderSearchInfo);
HAS_TABLE(Group);
HAS_TABLE(Evidence);
HAS_TABLE(ErrorGroup);
HAS_TABLE(FailedAllocation);
template <>
inline constexpr bool kHasTable<format::MemoryReading> = true;
#undef HAS_TABLE

// The type of an element, and whether there may be many.
template <typename Value>
struct ElementOf {
  using Type = Value;
  static constexpr bool is_list = false;
};
template <typename Value>
struct ElementOf<std::optional<Value>> : ElementOf<Value> {};
template <typename Value>
struct ElementOf<std::vector<Value>> : ElementOf<Value> {
  static constexpr bool is_list = true;
};
template <>
struct ElementOf<report::ShownEvidence> : ElementOf<std::vector<report::Evidence>> {};
template <>
struct ElementOf<report::ShownItems> : ElementOf<std::vector<report::BalanceItem>> {};
template <>
struct ElementOf<std::string> {
  using Type = int;  // no structure of a report
  static constexpr bool is_list = false;
};

template <typename Shown>
struct ResultOf {
  using Type = decltype(std::declval<const Shown&>()());
};
template <typename Value>
struct ResultOf<report::ValueIf<Value>> : ResultOf<Value> {};

class Documenter : public report::FieldContext {
 public:
  struct Row {
    std::vector<std::string> names;
    std::string meaning;
  };
  explicit Documenter(std::string prefix = "") : prefix_(std::move(prefix)) {}

  template <typename Member>
  void field(report::FieldName name, const Member*, const char* meaning) {
    add<Member>(name.shown, meaning);
  }
  template <typename Member>
  void field(report::FieldName name, const Member*, const char* meaning, const report::MemberIf&) {
    add<Member>(name.shown, meaning);
  }
  template <typename Member, typename Shown>
  void field(report::FieldName name, const Member*, const char* meaning, const Shown& shown) {
    this->shown(name.shown, meaning, shown);
  }
  template <typename Shown>
  void shown(const char* name, const char* meaning, const Shown& shown) {
    using Result = typename ResultOf<Shown>::Type;
    if constexpr (std::is_same_v<Result, report::ShownPart>) {
      add_row(name, is_list(part_of(shown)), meaning);
    } else {
      add<Result>(name, meaning);
    }
  }
  template <typename Enum, typename Shown>
  void number(const char* name, const Enum*, Enum, const char* meaning, const Shown&) {
    add_row(name, false, meaning);
  }
  template <typename Enum>
  void named(const char* name, const Enum*, const char* (*)(Enum), Enum, const char* meaning) {
    add_row(name, false, meaning);
  }
  template <typename List>
  void object(const char* name, const List& list) {
    Documenter inner(prefix_ + name + ".");
    list(inner);
    rows_.insert(rows_.end(), inner.rows_.begin(), inner.rows_.end());
  }
  template <typename Member>
  void streamed(const char* name, const Member*, const char* meaning) {
    add<Member>(name, meaning);
  }
  void streamed(const char* name, const char* meaning) {
    const bool list = std::string(name) == "stack" || std::string(name) == "modules";
    add_row(name, list, meaning);
  }
  template <typename... Anything>
  void kept(const Anything&...) {}
  template <typename... Anything>
  void keep_number(const Anything&...) {}
  template <typename... Anything>
  void keep_named(const Anything&...) {}

  const std::vector<Row>& rows() const { return rows_; }
  std::string table() const {
    std::string text = "| field | meaning |\n| --- | --- |\n";
    for (const Row& row : rows_) text += "| " + names_of(row) + " | " + row.meaning + " |\n";
    return text;
  }
  // "`name`, `count` (how often)"
  std::string sentence() const {
    std::string text;
    for (const Row& row : rows_)
      text += (text.empty() ? "" : ", ") + names_of(row) + (row.meaning.empty() ? "" : " (" + row.meaning + ")");
    return text;
  }

 private:
  template <typename Shown>
  static report::Part part_of(const Shown& shown) {
    return shown().part;
  }
  template <typename Value>
  static report::Part part_of(const report::ValueIf<Value>& shown) {
    return shown.value().part;
  }
  static bool is_list(report::Part part) {
    using report::Part;
    return part == Part::kFreedAtEnd || part == Part::kOutOfMemory || part == Part::kShared ||
           part == Part::kSuppressed || part == Part::kFindingList || part == Part::kAnswers;
  }
  static std::string names_of(const Row& row) {
    std::string text;
    for (const std::string& name : row.names) text += (text.empty() ? "`" : ", `") + name + "`";
    return text;
  }
  template <typename Value>
  void add(const char* name, std::string meaning) {
    using Element = typename ElementOf<Value>::Type;
    if constexpr (std::is_class_v<Element> && !kHasTable<Element> && !std::is_same_v<Element, report::ShownBaseline> &&
                  !std::is_same_v<Element, report::ShownSpread> && !std::is_same_v<Element, report::ShownTimeLine>) {
      Element element;
      Documenter inner;
      fields(inner, &element);
      meaning += (ElementOf<Value>::is_list ? ". Each has " : ". It has ") + inner.sentence();
    }
    add_row(name, ElementOf<Value>::is_list, meaning);
  }
  void add_row(const std::string& name, bool is_list, const std::string& meaning) {
    const std::string whole = prefix_ + name + (is_list ? "[]" : "");
    if (meaning.empty() && !rows_.empty()) {
      rows_.back().names.push_back(whole);
    } else {
      rows_.push_back({{whole}, meaning});
    }
  }

  std::string prefix_;
  std::vector<Row> rows_;
};

template <typename Struct>
Documenter documented() {
  Struct one = {};
  Documenter documenter;
  fields(documenter, &one);
  return documenter;
}

}  // namespace culprit::test
