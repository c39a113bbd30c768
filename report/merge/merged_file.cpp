#include "report/merge/merged_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <type_traits>
#include <unordered_map>

#include "report/base/input_file.h"
#include "report/base/json_input.h"
#include "report/base/json_output.h"
#include "report/base/output_file.h"
#include "report/base/printable.h"
#include "report/base/text_width.h"
#include "report/causes/evidence_functions.h"
#include "report/fields/report_fields.h"
#include "report/judge/load_options.h"
#include "report/judge/pool_rules.h"
#include "report/merge/report_merger.h"
#include "report/model/frame_store.h"
#include "report/model/pool.h"
#include "report/model/report.h"

namespace culprit::report {
namespace {

using Json = nlohmann::json;

// How each file begins, of any version.
constexpr char kBeginning[] = "{\"schema\":\"culprit.merged/";

// The objects that groups point to, as lists. A pointer is written as the index of an entry plus 1, nullptr as 0.
struct WrittenTables {
  Json modules = Json::array();
  Json frames = Json::array();
  Json variables = Json::array();
  Json stacks = Json::array();
  std::unordered_map<const void*, std::size_t> numbers;
};

// Writes fields; those with their zero value are left out.
class Writer : public KeptFields<Writer> {
 public:
  explicit Writer(WrittenTables* tables) : tables_(*tables) {}

  template <typename Value>
  void operator()(const char* name, const Value* value) {
    Json json = of(*value);
    if (!is_nothing(json)) json_[name] = std::move(json);
  }
  template <typename Enum>
  void keep_number(const char* name, const Enum* value, Enum) {
    const auto number = static_cast<std::uint64_t>(*value);
    if (number != 0) json_[name] = number;
  }
  template <typename Enum>
  void keep_named(const char* name, const Enum* value, const char* (*name_of)(Enum), Enum) {
    json_[name] = name_of(*value);
  }
  Json take() { return std::move(json_); }

 private:
  static bool is_nothing(const Json& json) {
    return json.is_null() || (json.is_structured() && json.empty()) || json == 0 || json == false || json == "";
  }

  static Json of(const std::string& value) { return value; }
  template <typename Number, typename = std::enable_if_t<std::is_arithmetic_v<Number>>>
  static Json of(Number value) {
    return value;
  }
  static Json of(const std::optional<unsigned>& value) { return value ? Json(*value + 1ULL) : Json(); }
  static Json of(const Pool* pool) { return pool != nullptr ? Json(pool->name) : Json(); }
  Json of(const Module* module) { return listed(module, &tables_.modules); }
  Json of(const Frame* frame) { return listed(frame, &tables_.frames); }
  Json of(const Variable* variable) { return listed(variable, &tables_.variables); }
  Json of(const ResolvedStack* stack) { return listed(stack, &tables_.stacks); }
  static Json of(const std::vector<Share>& shares) {
    Json list = Json::array();
    for (const Share& share : shares) {
      list.push_back(share.process);
      list.push_back(share.bytes);
      list.push_back(share.count);
    }
    return list;
  }
  template <typename Value>
  Json of(const std::vector<Value>& values) {
    Json list = Json::array();
    for (const Value& value : values) list.push_back(of(value));
    return list;
  }
  template <typename Struct, typename = std::enable_if_t<std::is_class_v<Struct>>, typename = void>
  Json of(const Struct& value) {
    Writer writer(&tables_);
    writer.json_ = Json::object();
    fields(writer, const_cast<Struct*>(&value));  // the list of fields is shared with reading, which needs non-const
    return writer.take();
  }

  template <typename Thing>
  Json listed(const Thing* thing, Json* list) {
    if (thing == nullptr) return 0;
    const auto known = tables_.numbers.find(thing);
    if (known != tables_.numbers.end()) return known->second;
    Json json = of(*thing);  // of() may first add other objects to the list
    list->push_back(std::move(json));
    tables_.numbers.emplace(thing, list->size());
    return list->size();
  }

  WrittenTables& tables_;
  Json json_;
};

// The lists of a file, loaded into a store.
struct ReadTables {
  FrameStore* store = nullptr;
  // How many bytes of objects may still be made. An empty object is two characters of text and some hundred bytes here,
  // but files of culprit have names and numbers in their objects.
  mutable std::uint64_t bytes_left = 0;
  mutable std::uint64_t shown_left = 0;  // see most_shown_bytes()
  std::vector<const Module*> modules;
  std::vector<const Frame*> frames;
  std::vector<const Variable*> variables;
  std::vector<const ResolvedStack*> stacks;
};

constexpr std::size_t kLongestName = 40;  // in a message
constexpr std::uint64_t kBytesOfAnyFile = 8 << 20;
constexpr std::uint64_t kBytesForEachCharacter = 10;

// A problem with the content.
struct Damage {
  std::string what;
};

void charge(std::uint64_t bytes, const ReadTables& tables) {
  if (bytes > tables.bytes_left) throw Damage{"more objects than text"};
  tables.bytes_left -= bytes;
}

class Reader : public KeptFields<Reader> {
 public:
  Reader(const Json& json, const ReadTables& tables) : json_(json), tables_(tables) {
    if (!json.is_object()) throw Damage{"an object is missing"};
  }

  template <typename Value>
  void operator()(const char* name, Value* value) {
    const auto at = json_.find(name);
    if (at == json_.end()) {
      none(value);
      return;
    }
    try {
      read(*at, value);
    } catch (const Damage& damage) {
      throw Damage{std::string(name) + ": " + damage.what};
    }
  }
  template <typename Enum>
  void keep_number(const char* name, Enum* value, Enum most) {
    std::uint64_t number = 0;
    (*this)(name, &number);
    if (number > static_cast<std::uint64_t>(most)) throw Damage{std::string(name) + ": an unknown value"};
    *value = static_cast<Enum>(number);
  }
  template <typename Enum>
  void keep_named(const char* name, Enum* value, const char* (*name_of)(Enum), Enum last) {
    std::string text;
    (*this)(name, &text);
    for (int number = 0; number <= static_cast<int>(last); ++number) {
      *value = static_cast<Enum>(number);
      if (text == name_of(*value)) return;
    }
    throw Damage{std::string(name) + ": \"" + cut_to_width(printable(text), kLongestName) + "\" is not known"};
  }

 private:
  template <typename Value>
  static void none(Value* value) {
    *value = Value();
  }

  static void read(const Json& json, std::string* value) {
    if (!json.is_string()) throw Damage{"no text"};
    *value = json.get<std::string>();
  }
  static void read(const Json& json, bool* value) {
    if (!json.is_boolean()) throw Damage{"neither true nor false"};
    *value = json.get<bool>();
  }
  static void read(const Json& json, int* value) {
    if (!json.is_number_integer() || json.get<std::int64_t>() != static_cast<int>(json.get<std::int64_t>()))
      throw Damage{"no whole number"};
    *value = json.get<int>();
  }
  static void read(const Json& json, std::int64_t* value) {
    const bool fits = !json.is_number_unsigned() || json.get<std::uint64_t>() <= INT64_MAX;
    if (!json.is_number_integer() || !fits) throw Damage{"no whole number, or too large"};
    *value = json.get<std::int64_t>();
  }
  template <typename Number, typename = std::enable_if_t<std::is_unsigned_v<Number>>>
  static void read(const Json& json, Number* value) {
    if (!json.is_number_unsigned() || json.get<std::uint64_t>() > std::numeric_limits<Number>::max())
      throw Damage{"no whole number, or too large"};
    *value = json.get<Number>();
  }
  static void read(const Json& json, std::optional<unsigned>* value) {
    unsigned number = 0;
    read(json, &number);
    if (number == 0) throw Damage{"no number"};
    *value = number - 1;
  }
  static void read(const Json& json, const Pool** value) {
    std::string name;
    read(json, &name);
    *value = pool_by_name(name);
    if (*value == nullptr) throw Damage{"an allocator that is not known"};
  }
  void read(const Json& json, const Module** value) { look_up(json, tables_.modules, value); }
  void read(const Json& json, const Frame** value) { look_up(json, tables_.frames, value); }
  void read(const Json& json, const Variable** value) { look_up(json, tables_.variables, value); }
  void read(const Json& json, const ResolvedStack** value) {
    look_up(json, tables_.stacks, value);
    if (*value == nullptr) return;
    const std::uint64_t bytes = shown_bytes(**value);
    if (bytes > tables_.shown_left) throw Damage{"a report of it would be many times larger"};
    tables_.shown_left -= bytes;
  }
  void read(const Json& json, std::vector<Share>* shares) {
    if (!json.is_array() || json.size() % 3 != 0) throw Damage{"no list of shares"};
    charge(sizeof(Share) * json.size() / 3, tables_);
    for (std::size_t i = 0; i < json.size(); i += 3) {
      Share share;
      read(json[i], &share.process);
      read(json[i + 1], &share.bytes);
      read(json[i + 2], &share.count);
      shares->push_back(share);
    }
  }
  template <typename Value>
  void read(const Json& json, std::vector<Value>* values) {
    if (!json.is_array()) throw Damage{"no list"};
    charge(sizeof(Value) * json.size(), tables_);  // NOLINT(bugprone-sizeof-expression): of pointers, too
    values->reserve(json.size());
    for (const Json& one : json) {
      Value value = Value();
      read(one, &value);
      values->push_back(std::move(value));
    }
  }
  template <typename Struct, typename = std::enable_if_t<std::is_class_v<Struct>>, typename = void>
  void read(const Json& json, Struct* value) {
    Reader reader(json, tables_);
    fields(reader, value);
  }

  template <typename Thing>
  static void look_up(const Json& json, const std::vector<const Thing*>& list, const Thing** value) {
    std::uint64_t number = 0;
    read(json, &number);
    if (number > list.size()) throw Damage{"a number that leads nowhere"};
    *value = number == 0 ? nullptr : list[number - 1];
  }

  const Json& json_;
  const ReadTables& tables_;
};

// The invariants of the objects that groups point to.
void check(const Module&) {}
void check(const Frame&) {}
void check(const Variable&) {}
void check(const ResolvedStack& stack) {
  if (std::find(stack.frames.begin(), stack.frames.end(), nullptr) != stack.frames.end())
    throw Damage{"a stack with a frame that is not there"};
}

template <typename Thing>
void read_table(const Json& json, const char* name, ReadTables* tables, std::vector<const Thing*>* list) {
  const auto at = json.find(name);
  if (at == json.end() || !at->is_array()) throw Damage{std::string("no list \"") + name + "\""};
  for (const Json& one : *at) {
    Thing thing;
    charge(sizeof(Thing), *tables);
    Reader reader(one, *tables);
    fields(reader, &thing);
    check(thing);
    list->push_back(tables->store->add(thing));
  }
}

// Checks the invariants that the report's code relies on.
void check(const Report& report) {
  if (report.job.empty()) throw Damage{"no processes"};
  for (const std::vector<Group>* groups : {&report.leaks, &report.library, &report.resources}) {
    for (const Group& group : *groups) {
      if (group.stack == nullptr || group.shares.empty()) throw Damage{"a group without stack or processes"};
      if (group.cause == Cause::kCached && group.pool == nullptr) throw Damage{"a cached group of no allocator"};
      for (const Share& share : group.shares) {
        if (share.process >= report.job.size()) throw Damage{"a share of a process that is not there"};
      }
      for (const Evidence& evidence : group.evidence) {
        if (!functions_of(evidence.type).whole(evidence)) throw Damage{"evidence that is not complete"};
      }
    }
  }
  std::vector<const Breakdown*> breakdowns;
  for (const std::vector<Breakdown>* list : {&report.breakdowns, &report.freed_at_end}) {
    for (const Breakdown& breakdown : *list) breakdowns.push_back(&breakdown);
  }
  for (const Breakdown* one : breakdowns) {
    const Breakdown& breakdown = *one;
    if (breakdown.process >= report.job.size()) throw Damage{"a breakdown of a process that is not there"};
    const bool placed = std::all_of(breakdown.entries.begin(), breakdown.entries.end(),
                                    [](const BreakdownEntry& entry) { return entry.stack != nullptr; });
    if (breakdown.stack == nullptr || !placed) throw Damage{"a breakdown without its stacks"};
    constexpr std::size_t kMost = 64;
    const bool small = std::all_of(breakdown.caches.begin(), breakdown.caches.end(), [](const CacheInside& cache) {
      return cache.largest.size() <= kMost && cache.idle.size() <= kMost;
    });
    if (breakdown.entries.size() > format::kBreakdownShares || breakdown.caches.size() > kMost || !small ||
        breakdown.charges.size() > 1)
      throw Damage{"a breakdown with more places than one can have"};
  }
  for (const Balance& balance : report.balances) {
    const bool whole = !balance.items.empty() && balance.items.back().what == BalancePart::kRest;
    if (balance.process >= report.job.size() || !whole) throw Damage{"a balance that is not complete"};
  }
  for (const CallCharge& charge : report.call_charges) {
    if (charge.process >= report.job.size() || charge.stack == nullptr) throw Damage{"a charge that is not complete"};
  }
  for (const ContextInfo& context : report.contexts) {
    if (context.process >= report.job.size() || context.stack == nullptr)
      throw Damage{"a context without its stack or process"};
  }
  for (const Overwritten& one : report.overwritten) {
    if (one.process >= report.job.size() || one.stack == nullptr)
      throw Damage{"an overwritten variable without its stack or process"};
  }
  for (const Sharing& sharing : report.sharings) {
    const bool placed = sharing.stack != nullptr && sharing.export_stack != nullptr && sharing.end_stack != nullptr;
    if (sharing.process >= report.job.size() || !placed) throw Damage{"shared memory without its stacks or process"};
  }
  for (const ErrorGroup& error : report.errors) {
    if (error.stack == nullptr || error.allocation_stack == nullptr || error.free_stack == nullptr)
      throw Damage{"an error without its stacks"};
  }
  for (const FailedAllocation& failed : report.failed_allocations) {
    if (failed.stack == nullptr) throw Damage{"a failed allocation without its stack"};
  }
}

void sum_shares(std::vector<Group>* groups) {
  for (Group& group : *groups) {
    for (const Share& share : group.shares) {
      group.bytes += share.bytes;
      group.count += share.count;
    }
  }
}

Report read_report(const Json& json, ReadTables* tables) {
  read_table(json, "modules", tables, &tables->modules);
  read_table(json, "frames", tables, &tables->frames);
  read_table(json, "variables", tables, &tables->variables);
  read_table(json, "stacks", tables, &tables->stacks);
  Report report;
  if (!json.contains("report")) throw Damage{"no \"report\""};
  Reader reader(json["report"], *tables);
  fields(reader, &report);
  check(report);
  for (std::vector<Group>* groups : {&report.leaks, &report.library, &report.resources}) sum_shares(groups);
  return report;
}

}  // namespace

bool is_merged_file(const std::string& path) {
  const std::string wanted = kBeginning;
  std::string found(wanted.size(), '\0');
  return read_beginning(path, found.data(), found.size()) && found == wanted;
}

namespace {

// The fields of a report; its frames and stacks are added to the tables.
Json write_report(const Report& report, WrittenTables* tables) {
  Writer writer(tables);
  fields(writer, const_cast<Report*>(&report));  // the list of fields is shared with reading
  return writer.take();
}

void write(const Report& report, std::ostream& out) {
  WrittenTables tables;
  const Json written = write_report(report, &tables);
  out << "{\"schema\":\"" << kMergedSchema << "\",\n\"modules\":" << json_text(tables.modules)
      << ",\n\"frames\":" << json_text(tables.frames) << ",\n\"variables\":" << json_text(tables.variables)
      << ",\n\"stacks\":" << json_text(tables.stacks) << ",\n\"report\":" << json_text(written) << "}\n";
}

// As it was written, `bytes` long. The file `path` is named in messages.
Report read(const Json& json, std::size_t bytes, const std::string& path) {
  const auto store = std::make_shared<FrameStore>();
  ReadTables tables;
  tables.store = store.get();
  tables.bytes_left = kBytesOfAnyFile + kBytesForEachCharacter * bytes;
  tables.shown_left = most_shown_bytes(bytes);
  Report report;
  try {
    if (!json.is_object()) throw Damage{"it ends too early"};
    const Json schema = json.value("schema", Json());
    if (schema != kMergedSchema) {
      throw FileError(path + ": a file of another version of culprit merge (" + printable(json_text(schema)) +
                      " instead of " + kMergedSchema + "); merge the dumps again");
    }
    report = read_report(json, &tables);
  } catch (const Damage& damage) {
    throw FileError(path + ": a damaged file of culprit merge (" + damage.what + "); merge the dumps again");
  }
  report.dump_path = path;
  report.stacks = store;
  return report;
}

}  // namespace

void write_merged_file(const std::string& path, const Report& report) {
  OutputFile file(path);
  write(report, file.stream());
  file.commit();
}

std::string merged_part(const Report& part) {
  WrittenTables tables;
  Json all = {{"schema", kMergedSchema}, {"report", write_report(part, &tables)}};
  all["modules"] = std::move(tables.modules);
  all["frames"] = std::move(tables.frames);
  all["variables"] = std::move(tables.variables);
  all["stacks"] = std::move(tables.stacks);
  std::string bytes;
  Json::to_cbor(all, bytes);
  return bytes;
}

Report read_merged_part(const std::string& bytes, const std::string& name) {
  // A number, and the name of a field, has more bytes as text.
  constexpr std::size_t kBytesOfText = 4;
  return read(parse_cbor(bytes), kBytesOfText * bytes.size(), name);
}

Report read_merged_file(const std::string& path, const JudgeOptions& options) {
  std::size_t bytes = 0;
  const Json json = read_json(path, &bytes);
  Report report = read(json, bytes, path);
  if (options.strict || !options.default_suppressions) {
    for (Group& group : report.library) {
      if (!options.default_suppressions) group.library.clear();
      report.leaks.push_back(std::move(group));
    }
    report.library.clear();
  }
  ReportMerger merger;
  merger.add(std::move(report));
  return merger.finish(options.strict);
}

}  // namespace culprit::report
