#include "report/load/object_graph.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "report/base/json_input.h"
#include "report/base/printable.h"
#include "report/load/native_variables.h"

namespace culprit::report {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMost = 1 << 24;  // numbers of one list
constexpr std::size_t kMostStrings = 1 << 20;
constexpr std::size_t kLongest = 120;

// The numbers of a member, as many whole groups of `group` as there are. One that is no number is taken as 0.
std::vector<std::uint64_t> numbers_of(const Json& from, const char* name, std::size_t group) {
  std::vector<std::uint64_t> numbers;
  const auto list = from.find(name);
  if (list == from.end() || !list->is_array() || list->size() > kMost) return numbers;
  numbers.reserve(list->size());
  for (const Json& one : *list) {
    const bool usable = one.is_number_unsigned() || (one.is_number_integer() && one.get<std::int64_t>() >= 0);
    numbers.push_back(usable ? one.get<std::uint64_t>() : 0);
  }
  numbers.resize(numbers.size() / group * group);
  return numbers;
}

class Reader {
 public:
  explicit Reader(const Json& from) : from_(from) {}

  // nullptr: it is damaged.
  std::shared_ptr<const ObjectGraph> read() {
    graph_.problem = printable(text_of(from_, "problem").substr(0, kLongest));
    if (!graph_.problem.empty()) return std::make_shared<const ObjectGraph>(std::move(graph_));
    const auto strings = from_.find("strings");
    if (strings == from_.end() || !strings->is_array() || strings->size() > kMostStrings) return nullptr;
    for (const Json& one : *strings)
      graph_.strings.push_back(one.is_string() ? printable(one.get<std::string>().substr(0, kLongest)) : std::string());
    const std::vector<std::uint64_t> nodes = numbers_of(from_, "nodes", 4);
    for (std::size_t i = 0; i < nodes.size(); i += 4) {
      if (!is_string(nodes[i])) return nullptr;
      graph_.nodes.push_back({narrow(nodes[i]), narrow(nodes[i + 1]), nodes[i + 2], nodes[i + 3] != 0});
    }
    const std::vector<std::uint64_t> edges = numbers_of(from_, "edges", 3);
    for (std::size_t i = 0; i < edges.size(); i += 3) {
      if (!is_node(edges[i]) || !is_node(edges[i + 1]) || !is_string(edges[i + 2])) return nullptr;
      graph_.edges.push_back({narrow(edges[i]), narrow(edges[i + 1]), narrow(edges[i + 2])});
    }
    const std::vector<std::uint64_t> variables = numbers_of(from_, "variables", 3);
    for (std::size_t i = 0; i < variables.size(); i += 3) {
      if (!is_node(variables[i]) || !is_string(variables[i + 1])) return nullptr;
      graph_.variables.push_back({narrow(variables[i]), narrow(variables[i + 1]), variables[i + 2] != 0});
    }
    const std::vector<std::uint64_t> memory = numbers_of(from_, "memory", 3);
    std::vector<std::uint64_t> pools = numbers_of(from_, "pools", 1);
    if (pools.empty()) graph_.strings.emplace_back("torch");  // a view of an older version
    pools.resize(memory.size() / 3, graph_.strings.empty() ? 0 : graph_.strings.size() - 1);
    for (std::size_t i = 0; i < memory.size(); i += 3) {
      if (!is_node(memory[i]) || !is_string(pools[i / 3])) return nullptr;
      graph_.memory.push_back({narrow(memory[i]), memory[i + 1], memory[i + 2], narrow(pools[i / 3])});
    }
    const std::vector<std::uint64_t> raw = numbers_of(from_, "raw", 2);
    std::vector<std::uint64_t> raw_bytes = numbers_of(from_, "raw_bytes", 1);
    raw_bytes.resize(raw.size() / 2);  // a view of an older version has none
    for (std::size_t i = 0; i < raw.size(); i += 2) {
      if (!is_node(raw[i])) return nullptr;
      graph_.raw.push_back({narrow(raw[i]), raw[i + 1], raw_bytes[i / 2]});
    }
    if (!read_native_variables()) return nullptr;
    graph_.workspaces = numbers_of(from_, "workspaces", 1);
    std::sort(graph_.workspaces.begin(), graph_.workspaces.end());
    graph_.hidden = number_of(from_, "hidden");
    graph_.not_read = number_of(from_, "not_read");
    return std::make_shared<const ObjectGraph>(std::move(graph_));
  }

 private:
  static std::uint32_t narrow(std::uint64_t number) { return static_cast<std::uint32_t>(number); }
  bool is_string(std::uint64_t number) const { return number < graph_.strings.size(); }
  bool is_node(std::uint64_t number) const { return number < graph_.nodes.size(); }

  std::string string_at(std::uint64_t string) const {
    const Json& text = from_["strings"][string];
    return text.is_string() ? text.get<std::string>() : std::string();
  }

  // False: it is damaged.
  bool read_native_variables() {
    const std::vector<std::uint64_t> variables = numbers_of(from_, "native_variables", 3);
    const std::vector<std::uint64_t> build_ids = numbers_of(from_, "native_build_ids", 1);
    std::vector<NativeVariable> found;
    for (std::size_t i = 0; i < variables.size(); i += 3) {
      if (!is_node(variables[i]) || !is_string(variables[i + 1])) return false;
      const bool has_id = i / 3 < build_ids.size() && is_string(build_ids[i / 3]);  // not in an older version's view
      found.push_back({string_at(variables[i + 1]), has_id ? string_at(build_ids[i / 3]) : "", variables[i + 2], {}});
    }
    name_variables(&found);
    for (std::size_t i = 0; i < found.size(); ++i) {
      graph_.strings.push_back(printable(found[i].name.substr(0, kLongest)));
      graph_.variables.push_back({narrow(variables[3 * i]), narrow(graph_.strings.size() - 1), false, true});
    }
    return true;
  }

  const Json& from_;
  ObjectGraph graph_;
};

}  // namespace

std::shared_ptr<const ObjectGraph> object_graph_of(const Json& view) {
  const auto graph = view.find("graph");
  if (graph == view.end()) return nullptr;
  if (std::shared_ptr<const ObjectGraph> read = graph->is_object() ? Reader(*graph).read() : nullptr) return read;
  ObjectGraph damaged;
  damaged.problem = "the view of its objects is damaged";
  return std::make_shared<const ObjectGraph>(std::move(damaged));
}

}  // namespace culprit::report
