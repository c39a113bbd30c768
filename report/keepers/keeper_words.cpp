#include "report/keepers/keeper_words.h"

#include "report/base/words.h"

namespace culprit::report {
namespace {

constexpr std::size_t kLongest = 160;
// A dictionary with more members is a collection: its keys are no names.
constexpr std::uint64_t kMostMembers = 16;

// Whether the path goes on inside of this container with a name: a dictionary that is used like a structure.
bool is_structure(const ObjectGraph::Node& node, std::string_view next) {
  return begins_with(next, "['") && node.length <= kMostMembers;
}

}  // namespace

std::string lasting_name(std::string_view name) {
  std::string text;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '[') {
      const std::size_t end = name.find(']', i);
      const std::string_view key = name.substr(i + 1, end == std::string_view::npos ? end : end - i - 1);
      bool identifier = key.size() > 2 && key.front() == '\'';
      for (std::size_t k = 1; identifier && k + 1 < key.size(); ++k) {
        const char c = key[k];
        identifier = c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (k > 1 && c >= '0' && c <= '9');
      }
      text += identifier ? "[" + std::string(key) + "]" : "[*]";
      if (end == std::string_view::npos) break;
      i = end;
    } else if (begins_with(name.substr(i), " line ")) {
      i += 6;
      while (i < name.size() && name[i] >= '0' && name[i] <= '9') ++i;
      --i;
    } else {
      text += name[i];
    }
  }
  return text;
}

PathWords words_of(const HeapPaths& paths, const HeapPaths::Path& path, std::uint32_t stop) {
  const ObjectGraph& graph = paths.graph();
  PathWords words;
  std::string inside = graph.strings[path.front()->name], after, type, last;
  bool open = true, dots = false;  // the name goes on; its last part stands for several
  for (std::size_t i = 0; i < path.size(); ++i) {
    const ObjectGraph::Node* node = paths.object(path[i]->to);
    if (node == nullptr) break;
    const std::string& name = graph.strings[path[i]->name];
    words.by_traceback = words.by_traceback || graph.strings[node->type] == "traceback";
    words.by_cache = words.by_cache || name == " -> its cache";
    // An unbounded cache is a dictionary; the entries of a bounded one are no objects of the collector.
    words.by_bounded_cache = words.by_bounded_cache || (name == " -> its cache" && graph.strings[node->type] != "dict");
    // A chain or a tree of objects: one row, and one id, for all of its depths.
    const bool again = i > 0 && !name.empty() && name == last;
    if (!name.empty() && name.front() != '[') last = name;
    if ((node->flags & ObjectGraph::kAutograd) != 0) {
      if (open) words.named = i;
      after += " -> Tensor.grad_fn -> saved tensors";
      break;
    }
    if (open) {
      if (again && !dots) inside += "..";
      if (i > 0 && !again) inside += name;
      dots = again || (dots && name.empty());
      words.named = i + 1;
      const std::string_view next = i + 1 < path.size() ? std::string_view(graph.strings[path[i + 1]->name]) : "";
      const bool collection = (node->flags & ObjectGraph::kContainer) != 0 && !is_structure(*node, next);
      if (collection) {
        words.container = graph.strings[node->type];
        type = ", a ";
        type += words.container;
        type += " of ";
        type += std::to_string(node->length);
      }
      open = !collection && (node->flags & stop) == 0;
      if ((node->flags & stop) != 0) break;
    } else if ((node->flags & stop) != 0) {
      break;
    } else if (!again && (name.empty() || name.front() != '[')) {
      after += name.empty() || name.front() == ' ' || name.front() == ':' ? name : " -> " + name;
    }
  }
  const std::string collection = type.empty() ? "" : ", a " + words.container;
  words.name = inside.substr(0, kLongest);
  words.text = "`" + inside.substr(0, kLongest) + "`" + type + after.substr(0, kLongest);
  words.id_text = lasting_name(inside) + collection + lasting_name(after);
  return words;
}

}  // namespace culprit::report
