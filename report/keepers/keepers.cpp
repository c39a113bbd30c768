#include "report/keepers/keepers.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "report/base/stable_hash.h"
#include "report/base/words.h"
#include "report/keepers/keeper_words.h"

namespace culprit::report {
namespace {

constexpr std::size_t kMostNames = 3;       // of the variables that share something
constexpr std::size_t kMostSearches = 500;  // for them: each walks over the graph
constexpr std::size_t kMostKeepers = 64;
constexpr std::size_t kLongestPath = 120;
constexpr std::uint64_t kMostBytesOfScalar = 16;
constexpr char kNoObject[] = "no Python object leads to it: workspaces, extensions, tensors of C++";

std::string id_of(KeeperKind kind, std::string_view text) {
  StableHash hash;
  hash.add(keeper_kind_name(kind));
  hash.add(text);
  return hash.hex();
}

bool has_flag(const HeapPaths& paths, const HeapPaths::Path& path, std::uint32_t flag) {
  return std::any_of(path.begin(), path.end(), [&](const HeapPaths::Step* step) {
    const ObjectGraph::Node* node = paths.object(step->to);
    return node != nullptr && (node->flags & flag) != 0;
  });
}

bool has_name(const HeapPaths& paths, const HeapPaths::Path& path, std::string_view name) {
  return std::any_of(path.begin() + 1, path.end(),
                     [&](const HeapPaths::Step* step) { return paths.graph().strings[step->name] == name; });
}

// Whether an optimizer's own state is on the path, and no other attribute of it.
bool is_state_of_optimizer(const HeapPaths& paths, const HeapPaths::Path& path) {
  bool optimizer = false;
  for (const HeapPaths::Step* step : path) {
    const std::string& name = paths.graph().strings[step->name];
    if (optimizer && (name == ".state" || name == ".param_groups")) return true;
    const ObjectGraph::Node* node = paths.object(step->to);
    optimizer = optimizer || (node != nullptr && (node->flags & ObjectGraph::kOptimizer) != 0);
  }
  return false;
}

// What Python's objects of a framework keep in C++, by the type of the last one before it.
struct NativePart {
  const char* type;
  KeeperKind kind;
};
constexpr NativePart kNativeParts[] = {
    {"ScriptModule", KeeperKind::kParameters},  // TorchScript
    {"Reducer", KeeperKind::kGradients},        // buckets of DistributedDataParallel
};

// Of a path that ends in objects of C++.
KeeperKind kind_of_native(const HeapPaths& paths, const HeapPaths::Path& path) {
  const ObjectGraph::Node* last = nullptr;
  for (const HeapPaths::Step* step : path) {
    const ObjectGraph::Node* node = paths.object(step->to);
    if (node == nullptr || (node->flags & ObjectGraph::kNative) != 0) break;
    last = node;
  }
  if (last == nullptr) return KeeperKind::kLibrary;
  for (const NativePart& part : kNativeParts) {
    if (paths.graph().strings[last->type] == part.type) return part.kind;
  }
  return KeeperKind::kVariable;
}

// The hint of a keeper, only where it is certain.
std::string hint_of(KeeperKind kind, const PathWords& words) {
  if (kind == KeeperKind::kGarbage) return "gc.collect() frees reference cycles that nothing reaches";
  if (words.by_traceback) return "an exception keeps the variables of its frames: keep str(error), or del the variable";
  if (words.by_bounded_cache) return "a smaller maxsize of functools.lru_cache keeps less; cache_clear() empties it";
  if (words.by_cache) return "functools.lru_cache(maxsize=...) bounds a cache; cache_clear() empties it";
  return "";
}

// `scalar`: the tensor that has the graph is a single number.
std::string hint_of_graph(const PathWords& words, bool scalar) {
  if (!scalar) return "keep tensor.detach(), or compute it under torch.no_grad(): a kept tensor keeps its graph";
  return words.container.empty() || words.container == "tuple"
             ? "a value that is kept needs no graph: loss.item(), or loss.detach()"
             : "append loss.item() or loss.detach(): each loss keeps the graph of its step";
}

// Whether the references of this object go together: no program drops one of them alone.
bool is_whole(const ObjectGraph& graph, const ObjectGraph::Node* node) {
  static const std::set<std::string_view> kTypes = {"generator", "coroutine", "async_generator", "frame"};
  return node != nullptr &&
         ((node->flags & ObjectGraph::kException) != 0 || kTypes.count(graph.strings[node->type]) != 0);
}

class Finder {
 public:
  Finder(const ObjectGraph& graph, const std::vector<LiveBlock>& blocks)
      : blocks_(blocks),
        paths_(graph, std::vector<MemoryBlock>(blocks.begin(), blocks.end())),
        largest_(graph.nodes.size()) {
    for (const ObjectGraph::Memory& memory : graph.memory)
      largest_[memory.node] = std::max(largest_[memory.node], memory.bytes);
  }

  std::vector<Keeper> find() {
    for (std::size_t i = 0; i < blocks_.size(); ++i) add(i, keeper_of(i));
    std::vector<Keeper> keepers;
    for (auto& [key, keeper] : rows_) keepers.push_back(std::move(keeper));
    keep_largest(kMostKeepers, &keepers);
    return keepers;
  }

 private:
  static Keeper keeper(KeeperKind kind, std::string path, std::string_view id_text, std::string hint = "") {
    Keeper made;
    made.kind = kind;
    made.path = std::move(path);
    made.id = id_of(kind, id_text);
    made.hint = std::move(hint);
    return made;
  }

  void add(std::size_t block, Keeper made) {
    Keeper& row = rows_.try_emplace({made.kind, made.path}, made).first->second;
    row.bytes += blocks_[block].bytes;
    ++row.count;
    row.blocks.push_back(blocks_[block].address);
  }

  Keeper keeper_of(std::size_t block) {
    const std::uint32_t node = paths_.node_of_block(block);
    switch (paths_.reach(node)) {
      case Reach::kVariable:
      case Reach::kLibrary:
        return of_variable(node);
      case Reach::kList: {
        const ObjectGraph::Node* cycle = paths_.holder_in_cycle(node);
        return cycle == nullptr ? of_list(paths_.path_to(node)) : of_cycle(*cycle);
      }
      case Reach::kNative:
        return of_native(paths_.path_to(node));
      case Reach::kGarbage:
        return of_cycle(*paths_.object(paths_.path_to(node).front()->to));
      case Reach::kNone:
        break;
    }
    const ObjectGraph& graph = paths_.graph();
    if (std::binary_search(graph.workspaces.begin(), graph.workspaces.end(), blocks_[block].address))
      return keeper(KeeperKind::kWorkspaces, "cuBLAS, through PyTorch", "");
    if (blocks_[block].private_pool) return keeper(KeeperKind::kGraphs, "CUDA graphs", "");
    if (!graph.problem.empty()) return keeper(KeeperKind::kNotKnown, graph.problem, "problem");
    std::string besides;
    if (graph.hidden != 0)
      besides = plural(graph.hidden, "saved tensor", "saved tensors") + " behind hooks, which are not read";
    if (graph.not_read != 0)
      besides += (besides.empty() ? "" : ", and ") + plural(graph.not_read, "tensor or node", "tensors and nodes") +
                 " that could not be read";
    if (besides.empty()) return keeper(KeeperKind::kNative, kNoObject, "");
    return keeper(KeeperKind::kNotKnown, "no Python object leads to it: C++, or " + besides, "hooks");
  }

  // Of a path that begins at an object which C code has.
  Keeper of_native(const HeapPaths::Path& path) {
    std::string text =
        "C code that has a reference to a " + paths_.graph().strings[paths_.object(path.front()->to)->type];
    // A callback, for example: what it keeps says whose it is.
    for (std::size_t i = 1; i < path.size() && text.size() < kLongestPath; ++i) {
      const std::string& name = paths_.graph().strings[path[i]->name];
      if (name.compare(0, 4, " -> ") == 0) text += name;
    }
    return keeper(KeeperKind::kNative, text, text, hint_of(KeeperKind::kNative, {}));
  }

  // Several variables of the package may lead to its list.
  Keeper of_list(const HeapPaths::Path& path) const {
    const PathWords words = words_of(paths_, path, 0);
    return keeper(KeeperKind::kVariable, words.text, words.id_text);
  }

  Keeper of_cycle(const ObjectGraph::Node& object) {
    const std::string text = "a reference cycle with a " + paths_.graph().strings[object.type];
    return keeper(KeeperKind::kGarbage, text, text, hint_of(KeeperKind::kGarbage, {}));
  }

  Keeper of_variable(std::uint32_t node) {
    const HeapPaths::Path as_parameter = paths_.path_as_parameter(node);
    if (!as_parameter.empty()) return of_model(KeeperKind::kParameters, as_parameter, ObjectGraph::kModule);
    const HeapPaths::Path as_gradient = paths_.path_as_gradient(node);
    if (!as_gradient.empty()) {
      const PathWords words = words_of(paths_, as_gradient, ObjectGraph::kModule);
      return keeper(KeeperKind::kGradients, words.text, words.id_text,
                    "optimizer.zero_grad(set_to_none=True) frees gradients after the step");
    }
    const HeapPaths::Path path = paths_.path_to(node);
    if (has_flag(paths_, path, ObjectGraph::kNative)) {
      const KeeperKind kind = kind_of_native(paths_, path);
      return kind == KeeperKind::kParameters ? of_model(kind, path, ObjectGraph::kModule) : of_path(kind, path, node);
    }
    if (has_flag(paths_, path, ObjectGraph::kAutograd)) return of_path(KeeperKind::kAutograd, path, node);
    if (has_name(paths_, path, ".grad")) return of_model(KeeperKind::kGradients, path, ObjectGraph::kModule);
    if (is_state_of_optimizer(paths_, path)) return of_model(KeeperKind::kOptimizer, path, ObjectGraph::kOptimizer);
    return of_path(KeeperKind::kVariable, path, node);
  }

  // A model and its optimizer share their parameters as a rule: one row for each model.
  Keeper of_model(KeeperKind kind, const HeapPaths::Path& path, std::uint32_t stop) {
    const PathWords words = words_of(paths_, path, stop);
    return keeper(kind, words.text, words.id_text, hint_of(kind, words));
  }

  Keeper of_path(KeeperKind kind, const HeapPaths::Path& path, std::uint32_t node) {
    const PathWords words = words_of(paths_, path, 0);
    // The first object from the named one on that all ways to the block lead over.
    std::size_t at = std::max<std::size_t>(words.named, 1) - 1;
    const bool whole = paths_.dominates(path[at]->to, node);
    while (!paths_.dominates(path[at]->to, node)) ++at;
    if (whole && !paths_.has_several_holders(path[at]->to))
      return keeper(kind, words.text, words.id_text, hint_on(path, kind, words));
    if (++searches_ > kMostSearches) return keeper(kind, "shared by several variables", "shared");
    return shared(kind, path, words, path[at]->to);
  }

  std::string hint_on(const HeapPaths::Path& path, KeeperKind kind, const PathWords& words) const {
    if (kind != KeeperKind::kAutograd) return hint_of(kind, words);
    std::uint64_t bytes = 0;  // of the tensor before the graph
    for (const HeapPaths::Step* step : path) {
      const ObjectGraph::Node* node = paths_.object(step->to);
      if (node == nullptr || (node->flags & ObjectGraph::kAutograd) != 0) break;
      bytes = largest_[step->to - HeapPaths::node_of_object(0)];
    }
    return hint_of_graph(words, bytes <= kMostBytesOfScalar);
  }

  // The keeper of memory that is kept in several ways. They part after the last object that all of them lead over.
  Keeper shared(KeeperKind kind, const HeapPaths::Path& path, const PathWords& words, std::uint32_t node) {
    const std::uint32_t above = paths_.dominator_of(node);
    if (is_whole(paths_.graph(), paths_.object(above)))
      return keeper(kind, words.text, words.id_text, hint_on(path, kind, words));
    std::string before;
    for (std::size_t i = 0; i < path.size() && above != HeapPaths::kRoot; ++i) {
      if (path[i]->to != above) continue;
      const HeapPaths::Path part(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      before = words_of(paths_, part, 0).name;
    }
    std::vector<std::string> names;
    for (const HeapPaths::Step* step : paths_.ways_between(above, node)) {
      std::string name = "`" + before + paths_.graph().strings[step->name] + "`";
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
    }
    if (names.size() < 2) return keeper(kind, words.text, words.id_text, hint_on(path, kind, words));
    std::string text = "shared by ";
    for (std::size_t i = 0; i < names.size() && i < kMostNames; ++i)
      text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
    if (names.size() > kMostNames) text += " and " + plural(names.size() - kMostNames, "other", "others");
    return keeper(kind, text + (names.size() == 2 ? ": free both" : ": free all"), lasting_name(text));
  }

  const std::vector<LiveBlock>& blocks_;
  HeapPaths paths_;
  std::vector<std::uint64_t> largest_;  // of each object of the graph: the bytes of its memory
  std::map<std::pair<KeeperKind, std::string>, Keeper> rows_;
  std::size_t searches_ = 0;
};

}  // namespace

std::vector<Keeper> find_keepers(const ObjectGraph& graph, std::vector<LiveBlock> blocks) {
  std::stable_sort(blocks.begin(), blocks.end(),
                   [](const LiveBlock& one, const LiveBlock& other) { return one.address < other.address; });
  std::uint64_t end = 0;
  const auto overlaps = [&](const LiveBlock& block) {
    const bool found = block.bytes == 0 || block.address < end || block.address + block.bytes < block.address;
    if (!found) end = block.address + block.bytes;
    return found;
  };
  blocks.erase(std::remove_if(blocks.begin(), blocks.end(), overlaps), blocks.end());
  return Finder(graph, blocks).find();
}

void keep_largest(std::size_t most, std::vector<Keeper>* keepers) {
  std::stable_sort(keepers->begin(), keepers->end(),
                   [](const Keeper& one, const Keeper& other) { return one.bytes > other.bytes; });
  if (keepers->size() <= most) return;
  Keeper rest;
  rest.path = plural(keepers->size() - most + 1, "smaller keeper", "smaller keepers");
  rest.id = id_of(rest.kind, "smaller");
  for (std::size_t i = most - 1; i < keepers->size(); ++i) {
    rest.bytes += (*keepers)[i].bytes;
    rest.count += (*keepers)[i].count;
    rest.blocks.insert(rest.blocks.end(), (*keepers)[i].blocks.begin(), (*keepers)[i].blocks.end());
  }
  keepers->resize(most - 1);
  keepers->push_back(std::move(rest));
}

}  // namespace culprit::report
