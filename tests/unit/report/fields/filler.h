// The archive of report/fields/ that gives every field of a merged report a value: a report that has everything.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "report/fields/report_fields.h"
#include "report/judge/pool_rules.h"

namespace culprit::test {

class Filler : public report::KeptFields<Filler> {
 public:
  explicit Filler(const report::ResolvedStack* stack) : stack_(stack) {}

  template <typename Value>
  void operator()(const char*, Value* value) {
    fill(value);
  }
  template <typename Enum>
  void keep_number(const char*, Enum* value, Enum) {
    *value = static_cast<Enum>(1);
  }
  template <typename Enum>
  void keep_named(const char*, Enum* value, const char* (*)(Enum), Enum) {
    *value = static_cast<Enum>(0);
  }

 private:
  static void fill(std::string* value) { *value = "text"; }
  static void fill(bool* value) { *value = true; }
  template <typename Number, typename = std::enable_if_t<std::is_arithmetic_v<Number>>>
  static void fill(Number* value) {
    *value = 7;
  }
  static void fill(std::optional<unsigned>* value) { *value = 0; }
  static void fill(const report::Pool** value) { *value = report::pool_by_name("PyTorch caching allocator"); }
  void fill(const report::ResolvedStack** value) { *value = stack_; }
  static void fill(const report::Module**) {}
  static void fill(const report::Frame**) {}
  static void fill(const report::Variable**) {}
  static void fill(std::vector<report::Share>* shares) { *shares = {{0, 4, 1}, {1, 3, 1}}; }
  // The other parts name process 7.
  void fill(std::vector<report::JobProcess>* processes) {
    processes->resize(8);
    for (report::JobProcess& process : *processes) fields(*this, &process);
  }
  template <typename Value>
  void fill(std::vector<Value>* values) {
    values->resize(1);
    fill(&values->front());
  }
  template <typename Struct, typename = std::enable_if_t<std::is_class_v<Struct>>, typename = void>
  void fill(Struct* value) {
    fields(*this, value);
  }

  const report::ResolvedStack* stack_;
};

}  // namespace culprit::test
