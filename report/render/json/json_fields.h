// The archive of report/fields/ that writes JSON: the members of an object, in the order of the list. Values are made
// in their place, through pointers: this header does without that of the JSON library.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "report/fields/field_list.h"
#include "report/fields/shown_values.h"
#include "report/render/json/json.h"
#include "report/render/json/stack_to_json.h"

namespace culprit::report {

class JsonFields : public FieldContext {
 public:
  // Adds the members to `object`.
  JsonFields(const FieldContext& context, const StackToJson& stack_to_json, Json* object)
      : FieldContext(context), stack_to_json_(stack_to_json), object_(object) {
    make_object(object);
  }

  template <typename Member>
  void field(FieldName name, const Member* value, const char*) {
    write(*value, member(name.shown));
  }
  template <typename Member>
  void field(FieldName name, const Member* value, const char*, const MemberIf& when) {
    if (when.is_there) write(*value, member(name.shown));
  }
  template <typename Member, typename Shown>
  void field(FieldName name, const Member*, const char*, const Shown& shown) {
    write_shown(name.shown, shown);
  }
  template <typename Shown>
  void shown(const char* name, const char*, const Shown& shown) {
    write_shown(name, shown);
  }
  template <typename Enum, typename Shown>
  void number(const char* name, const Enum* value, Enum, const char*, const Shown& shown) {
    if constexpr (std::is_invocable_v<Shown, Enum>) {
      write(shown(*value), member(name));
    } else {
      write_shown(name, shown);
    }
  }
  template <typename Enum>
  void named(const char* name, const Enum* value, const char* (*name_of)(Enum), Enum, const char*) {
    write(name_of(*value), member(name));
  }
  template <typename List>
  void object(const char* name, const List& list) {
    JsonFields inner(*this, stack_to_json_, member(name));
    list(inner);
  }
  // Of merged files only, or written entry by entry elsewhere.
  template <typename... Anything>
  void kept(const Anything&...) {}
  template <typename... Anything>
  void keep_number(const Anything&...) {}
  template <typename... Anything>
  void keep_named(const Anything&...) {}
  template <typename... Anything>
  void streamed(const Anything&...) {}

  // Values in their place.
  static void write(bool value, Json* json);
  static void write(std::int64_t value, Json* json);
  static void write(std::uint64_t value, Json* json);
  static void write(const char* text, Json* json);
  static void write(const std::string& text, Json* json);
  void write(const ResolvedStack* stack, Json* json) const;

  template <typename Number, typename = std::enable_if_t<std::is_integral_v<Number>>>
  static void write(Number value, Json* json) {
    using Widest = std::conditional_t<std::is_signed_v<Number>, std::int64_t, std::uint64_t>;
    write(static_cast<Widest>(value), json);
  }
  // Null where there is none: as a new member is.
  template <typename Value>
  void write(const std::optional<Value>& value, Json* json) const {
    if (value) write(*value, json);
  }
  template <typename Value>
  void write(const std::vector<Value>& values, Json* json) const {
    make_list(json);
    for (const Value& value : values) write(value, append(json));
  }
  template <typename Struct, typename = std::enable_if_t<std::is_class_v<Struct>>, typename = void>
  void write(const Struct& value, Json* json) const {
    if constexpr (kIsShownValue<Struct>) {
      write_value(value, *this, stack_to_json_, json);  // beside the rest of its part
    } else {
      JsonFields inner(*this, stack_to_json_, json);
      fields(inner, const_cast<Struct*>(&value));  // the lists are shared with reading, which needs non-const
    }
  }

 private:
  Json* member(const char* name);
  static void make_object(Json* json);
  static void make_list(Json* json);
  static Json* append(Json* list);

  template <typename Shown>
  void write_shown(const char* name, const Shown& shown) {
    write(shown(), member(name));
  }
  template <typename Value>
  void write_shown(const char* name, const ValueIf<Value>& shown) {
    if (shown.is_there) write(shown.value(), member(name));
  }

  const StackToJson& stack_to_json_;
  Json* object_;
};

// A part of a report, or a list of them. `Result` lets this header do without the whole type.
template <typename Struct, typename Result = Json>
Result json_of(const Struct& value, const FieldContext& context, const StackToJson& stack_to_json) {
  Result json, unused;
  JsonFields(context, stack_to_json, &unused).write(value, &json);
  return json;
}

}  // namespace culprit::report
