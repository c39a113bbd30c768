#include "report/load/python_view.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "report/base/input_file.h"
#include "report/base/json_input.h"
#include "report/base/printable.h"
#include "report/dump/side_files.h"

namespace culprit::report {
namespace {

using Json = nlohmann::json;

constexpr char kViewSchema[] = "culprit.python/1";
constexpr std::uint64_t kMostViewBytes = 1ULL << 30;
constexpr std::size_t kMostReasons = 16;
constexpr std::size_t kLongestReason = 200;
constexpr std::size_t kMostPools = 64;  // of memory: a framework has one for each GPU

template <typename Visit>
void for_each_object(const Json& from, const char* key, Visit visit) {
  const auto list = from.find(key);
  if (list == from.end() || !list->is_array()) return;
  for (const Json& one : *list) {
    if (one.is_object()) visit(one);
  }
}

// Likewise those that have an address: without one they lead to no memory.
template <typename Visit>
void for_each_place(const Json& from, const char* key, Visit visit) {
  for_each_object(from, key, [&](const Json& one) {
    if (number_of(one, "address") != 0) visit(one);
  });
}

PythonView view_of(const Json& json) {
  PythonView view;
  const std::string taken = text_of(json, "taken");
  view.taken = taken == "exit" || taken == "out-of-memory" ? taken : "snapshot";
  for_each_object(json, "caches", [&](const Json& cache) {
    if (text_of(cache, "framework") != "torch") return;
    for_each_place(cache, "segments", [&](const Json& from) {
      PythonView::Segment segment;
      segment.address = number_of(from, "address");
      segment.bytes = number_of(from, "bytes");
      segment.live_bytes = std::min(number_of(from, "live_bytes"), segment.bytes);
      segment.device = number_of(from, "device");
      segment.largest_idle = number_of(from, "largest_idle");
      segment.pending_bytes = std::min(number_of(from, "pending_bytes"), segment.bytes - segment.live_bytes);
      segment.private_pool = number_of(from, "private_pool") != 0;
      segment.small = number_of(from, "small") != 0;
      for_each_place(from, "blocks", [&](const Json& block) {
        segment.blocks.push_back({number_of(block, "address"), number_of(block, "bytes"), text_of(block, "file"),
                                  number_of(block, "line"), text_of(block, "function")});
      });
      view.segments.push_back(std::move(segment));
    });
  });
  for_each_object(json, "pools", [&](const Json& pool) {
    if (text_of(pool, "framework").empty() || view.pools.size() == kMostPools) return;
    view.pools.push_back({text_of(pool, "framework"), number_of(pool, "device"), number_of(pool, "used_bytes"),
                          number_of(pool, "total_bytes")});
  });
  for_each_place(json, "objects", [&](const Json& from) {
    PythonView::Object object = {number_of(from, "address"), number_of(from, "bytes"), text_of(from, "type"), {}};
    const auto holders = from.find("holders");
    if (holders != from.end() && holders->is_array()) {
      for (const Json& holder : *holders) {
        if (holder.is_string()) object.holders.push_back(holder.get<std::string>());
      }
    }
    // Of an object that nothing holds there is nothing to say.
    if (!object.holders.empty()) view.objects.push_back(std::move(object));
  });
  const auto unread = json.find("unread");
  if (unread != json.end() && unread->is_array()) {
    for (const Json& reason : *unread) {
      if (reason.is_string() && view.unread.size() < kMostReasons)
        view.unread.push_back(printable(reason.get<std::string>().substr(0, kLongestReason)));
    }
  }
  view.graph = object_graph_of(json);
  const auto by_address = [](const auto& left, const auto& right) { return left.address < right.address; };
  std::sort(view.segments.begin(), view.segments.end(), by_address);
  std::sort(view.objects.begin(), view.objects.end(), by_address);
  return view;
}

std::optional<PythonView> whole_view_of(const Json& json, const std::string& name, std::string* problem) {
  if (!json.is_object() || text_of(json, "schema") != kViewSchema) {
    *problem = name + " is no view from inside a framework (schema " + kViewSchema + "), and was left out";
    return std::nullopt;
  }
  PythonView view = view_of(json);
  const auto ran_out = json.find("ran_out");
  if (ran_out != json.end() && ran_out->is_object()) view.ran_out.push_back(view_of(*ran_out));
  return view;
}

}  // namespace

std::set<std::string> PythonView::all_unread() const {
  std::set<std::string> all(unread.begin(), unread.end());
  for (const PythonView& moment : ran_out) all.insert(moment.unread.begin(), moment.unread.end());
  return all;
}

std::optional<PythonView> parse_python_view(const std::string& text, const std::string& name, std::string* problem) {
  return whole_view_of(parse_json(text), name, problem);
}

std::string python_view_path(const std::string& dump_path) { return dump_path + kPythonViewEnding; }

std::optional<PythonView> read_python_view(const std::string& dump_path, std::string* problem) {
  const std::string path = python_view_path(dump_path);
  const InputFile input = open_input(path);
  if (!input.file.is_open()) {
    if (input.error == 0) *problem = path + " " + input.problem + ", and was left out";
    return std::nullopt;
  }
  if (input.bytes > kMostViewBytes) {
    *problem = path + " is larger than a view from inside a framework can be, and was left out";
    return std::nullopt;
  }
  return whole_view_of(read_json(path), path, problem);
}

}  // namespace culprit::report
