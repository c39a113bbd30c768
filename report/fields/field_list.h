// The language of the lists of fields. An archive is one use of the lists: it writes a merged file, reads one,
// writes report JSON, or makes the tables of SCHEMA.md. Rejected: reflection by a library, which knows members and no
// meanings, and whose names would be those of the members.
//
//     archive.field(NAME, &member, MEANING)
//         in JSON and in merged files
//     archive.field(NAME, &member, MEANING, SHOWN)
//         the same; JSON has SHOWN(), or the member only where shown_if() says so
//     archive.shown(NAME, MEANING, SHOWN)
//         in JSON only
//     archive.kept(NAME, &member)
//         in merged files only
//     archive.number(), keep_number(), named(), keep_named()
//         likewise of an enumeration, with the last value: in merged files an enumeration of the dump is a number,
//         which never changes, and one of report/ a name, because its number moves when a row is added
//     archive.object(NAME, LIST)
//         LIST(archive) lists fields that JSON has in an object of this name
//     archive.streamed(NAME, &member, MEANING)
//         a list of the report that may be long: its entries are written apart
//
// A name is one text, or that of JSON and that of merged files where an older version chose two. A MEANING of "": that
// of the field before, both stand in one row.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report/base/words.h"

namespace culprit::report {

struct Report;

struct FieldName {
  FieldName(const char* both) : shown(both), kept(both) {}
  FieldName(const char* in_json, const char* in_merged_files) : shown(in_json), kept(in_merged_files) {}
  const char* shown;
  const char* kept;
};

// The member itself, or a value, which JSON has under a condition.
struct MemberIf {
  bool is_there;
};
template <typename Value>
struct ValueIf {
  bool is_there;
  Value value;  // a function
};
inline MemberIf shown_if(bool is_there) { return {is_there}; }
template <typename Value>
ValueIf<Value> shown_if(bool is_there, Value value) {
  return {is_there, std::move(value)};
}

// For SHOWN: null where there is nothing.
inline std::optional<std::string> or_null(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional<std::string>(text);
}
template <typename Value>
std::optional<Value> value_if(bool is_known, Value value) {
  return is_known ? std::optional<Value>(std::move(value)) : std::nullopt;
}

inline std::vector<std::string> hex_texts(const std::vector<std::uint64_t>& values) {
  std::vector<std::string> texts;
  texts.reserve(values.size());
  for (const std::uint64_t value : values) texts.push_back(hex_text(value));
  return texts;
}

// The facts outside of a part that its fields depend on. The base of every archive.
struct FieldContext {
  const Report* report = nullptr;  // nullptr: not known
  bool of_job = false;             // the report is of a merged job
  bool may_be_freed = false;       // as in MemoryWords
};

// An archive of merged files: `Archive` has operator()(name, member), keep_number() and keep_named().
template <typename Archive>
class KeptFields : public FieldContext {
 public:
  template <typename Member, typename... Shown>
  void field(FieldName name, Member* member, const char*, const Shown&...) {
    archive()(name.kept, member);
  }
  template <typename Shown>
  void shown(const char*, const char*, const Shown&) {}
  template <typename Member>
  void kept(const char* name, Member* member) {
    archive()(name, member);
  }
  template <typename Enum, typename Shown>
  void number(const char* name, Enum* value, Enum last, const char*, const Shown&) {
    archive().keep_number(name, value, last);
  }
  template <typename Enum>
  void named(const char* name, Enum* value, const char* (*name_of)(Enum), Enum last, const char*) {
    archive().keep_named(name, value, name_of, last);
  }
  template <typename Member>
  void streamed(const char* name, Member* member, const char*) {
    archive()(name, member);
  }
  void streamed(const char*, const char*) {}
  template <typename List>
  void object(const char*, const List& list) {
    list(archive());
  }

 private:
  Archive& archive() { return static_cast<Archive&>(*this); }
};

}  // namespace culprit::report
