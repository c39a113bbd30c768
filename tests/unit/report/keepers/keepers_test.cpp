// Which variable keeps a block, in graphs like those of interpose/python_package/culprit/_graph.py.
#include "report/keepers/keepers.h"

#include <map>

#include "report/keepers/keeper_words.h"
#include "tests/catch.h"

using namespace culprit::report;

namespace {

constexpr std::uint64_t kMiB = 1 << 20;

class Heap {
 public:
  std::uint32_t string(const std::string& text) {
    for (std::uint32_t i = 0; i < graph_.strings.size(); ++i) {
      if (graph_.strings[i] == text) return i;
    }
    graph_.strings.push_back(text);
    return static_cast<std::uint32_t>(graph_.strings.size()) - 1;
  }
  std::uint32_t object(const char* type, std::uint32_t flags = 0, std::uint64_t length = 0, bool outside = false) {
    graph_.nodes.push_back({string(type), flags, length, outside});
    return static_cast<std::uint32_t>(graph_.nodes.size()) - 1;
  }
  std::uint32_t list(std::uint64_t length) { return object("list", ObjectGraph::kContainer, length); }
  void edge(std::uint32_t from, std::uint32_t to, const char* name) {
    graph_.edges.push_back({from, to, string(name)});
  }
  void variable(const char* name, std::uint32_t to, bool local = false) {
    graph_.variables.push_back({to, string(name), local});
  }
  void library_variable(const char* name, std::uint32_t to) {
    graph_.variables.push_back({to, string(name), false, true});
  }
  // An object with a block of its own.
  std::uint32_t owner(const char* type, std::uint64_t mib, std::uint32_t flags = 0, bool outside = false) {
    const std::uint32_t node = object(type, flags, 0, outside);
    memory(node, mib);
    return node;
  }
  std::uint32_t tensor(std::uint64_t mib) { return owner("Tensor", mib, ObjectGraph::kTensor); }
  // Returns the address.
  std::uint64_t memory(std::uint32_t node, std::uint64_t mib) {
    const std::uint64_t address = next_;
    next_ += mib * kMiB;
    graph_.memory.push_back({node, address, mib * kMiB});
    blocks_.push_back({{address, mib * kMiB}, false});
    return address;
  }
  void memory_of(std::uint32_t node, std::uint64_t bytes) {
    graph_.memory.push_back({node, next_, bytes});
    next_ += kMiB;
  }
  void same_memory(std::uint32_t node, std::uint64_t address) { graph_.memory.push_back({node, address + 512, 1}); }
  void block(std::uint64_t mib, bool private_pool) {
    blocks_.push_back({{next_, mib * kMiB}, private_pool});
    next_ += mib * kMiB;
  }
  void workspace(std::uint64_t mib) {
    graph_.workspaces.push_back(next_);
    block(mib, false);
  }
  void hide(std::uint64_t count) { graph_.hidden = count; }

  std::vector<Keeper> keepers() const { return find_keepers(graph_, blocks_); }
  // {"variable `losses`": MiB}
  std::map<std::string, std::uint64_t> rows() const {
    std::map<std::string, std::uint64_t> rows;
    std::uint64_t all = 0;
    for (const Keeper& keeper : keepers()) {
      rows[std::string(keeper_kind_name(keeper.kind)) + " " + keeper.path] += keeper.bytes / kMiB;
      all += keeper.bytes;
    }
    std::uint64_t blocks = 0;
    for (const LiveBlock& block : blocks_) blocks += block.bytes;
    CHECK(all == blocks);  // in every test
    return rows;
  }

 private:
  ObjectGraph graph_;
  std::vector<LiveBlock> blocks_;
  std::uint64_t next_ = 16 * kMiB;
};

using Rows = std::map<std::string, std::uint64_t>;

// A list of losses, each with a node of autograd that saved `mib`.
std::uint32_t losses(Heap* heap, int count, std::uint64_t mib) {
  const std::uint32_t list = heap->list(static_cast<std::uint64_t>(count));
  for (int i = 0; i < count; ++i) {
    const std::uint32_t loss = heap->object("Tensor", ObjectGraph::kTensor);
    heap->edge(list, loss, "[0]");
    const std::uint32_t node = heap->owner("MulBackward0", mib, ObjectGraph::kAutograd);
    heap->edge(loss, node, " -> Tensor.grad_fn");
  }
  return list;
}

}  // namespace

TEST_CASE("a list of losses keeps the graph of each step", "[keepers]") {
  Heap heap;
  heap.variable("losses", losses(&heap, 20, 3));
  CHECK(heap.rows() == Rows{{"autograd `losses`, a list of 20 -> Tensor.grad_fn -> saved tensors", 60}});
  const Keeper keeper = heap.keepers().front();
  CHECK(keeper.count == 20);
  CHECK(keeper.hint.find("loss.item()") != std::string::npos);

  Heap longer;
  longer.variable("losses", losses(&longer, 30, 3));
  CHECK(longer.keepers().front().id == keeper.id);
  Heap other;
  other.variable("others", losses(&other, 20, 3));
  CHECK(other.keepers().front().id != keeper.id);
}

TEST_CASE("the hint for a graph follows the tensor that has it", "[keepers]") {
  const auto hint = [](const char* container, std::uint64_t bytes) {
    Heap heap;
    const std::uint32_t tensor = heap.object("Tensor", ObjectGraph::kTensor);
    if (bytes != 0) heap.memory_of(tensor, bytes);
    heap.edge(tensor, heap.owner("MulBackward0", 8, ObjectGraph::kAutograd), " -> Tensor.grad_fn");
    std::uint32_t named = tensor;
    if (container != nullptr) {
      named = heap.object(container, ObjectGraph::kContainer, 1);
      heap.edge(named, tensor, "[0]");
    }
    heap.variable("kept", named);
    return heap.keepers().front().hint;
  };
  CHECK(hint("list", 4).find("append loss.item()") == 0);
  CHECK(hint("tuple", 4).find("a value that is kept") == 0);
  CHECK(hint(nullptr, 4).find("a value that is kept") == 0);
  // loss.item() would fail.
  CHECK(hint("list", 4096).find("keep tensor.detach()") == 0);
  CHECK(hint(nullptr, 4096).find("keep tensor.detach()") == 0);
}

TEST_CASE("the depth of a chain or of a tree is no part of its name", "[keepers]") {
  const auto chain = [](int length) {
    Heap heap;
    std::uint32_t before = heap.object("Node");
    heap.variable("head", before);
    for (int i = 0; i < length; ++i) {
      const std::uint32_t node = heap.object("Node"), own = heap.object("dict");
      heap.edge(before, own, "");
      heap.edge(own, node, ".next");
      heap.edge(node, heap.tensor(1), ".data");
      before = node;
    }
    return heap;
  };
  CHECK(chain(5).rows() == Rows{{"variable `head.next.data`", 1}, {"variable `head.next...data`", 4}});
  CHECK(chain(90).keepers().front().id == chain(5).keepers().front().id);

  Heap tree;
  std::uint32_t above = tree.object("Node");
  tree.variable("root", above);
  for (int i = 0; i < 4; ++i) {
    const std::uint32_t list = tree.list(1), node = tree.object("Node");
    tree.edge(above, list, ".children");
    tree.edge(list, node, "[0]");
    tree.edge(node, tree.tensor(1), ".data");
    above = node;
  }
  CHECK(tree.rows() == Rows{{"variable `root.children`, a list of 1 -> .data", 4}});
}

TEST_CASE("an optimizer has a state, and other attributes", "[keepers]") {
  Heap heap;
  const std::uint32_t optimizer = heap.object("Adam", ObjectGraph::kOptimizer), own = heap.object("dict");
  const std::uint32_t state = heap.list(1), history = heap.list(1);
  heap.edge(optimizer, own, "");
  heap.edge(own, state, ".state");
  heap.edge(state, heap.tensor(2), "[0]");
  heap.edge(own, history, ".history");
  heap.edge(history, heap.tensor(3), "[0]");
  heap.variable("optimizer", optimizer);
  CHECK(heap.rows() == Rows{{"optimizer `optimizer`", 2}, {"variable `optimizer.history`, a list of 1", 3}});
}

TEST_CASE("hints about exceptions and caches are given where they hold", "[keepers]") {
  Heap heap;
  const std::uint32_t error = heap.object("Failed", ObjectGraph::kException), traceback = heap.object("traceback");
  heap.variable("failure", error);
  heap.edge(error, heap.tensor(1), ".batch");
  heap.edge(error, traceback, ".__traceback__");
  heap.edge(traceback, heap.tensor(2), " -> work() line 3: batch");
  const std::uint32_t unbounded = heap.object("_lru_cache_wrapper"), bounded = heap.object("_lru_cache_wrapper");
  heap.variable("table", unbounded);
  heap.variable("last", bounded);
  const std::uint32_t results = heap.object("dict", ObjectGraph::kContainer, 1);
  heap.edge(unbounded, results, " -> its cache");
  heap.edge(results, heap.tensor(4), "[1]");
  heap.edge(bounded, heap.tensor(8), " -> its cache");
  std::map<std::string, std::string> hints;
  for (const Keeper& keeper : heap.keepers()) hints[keeper.path] = keeper.hint.substr(0, 22);
  CHECK(hints == std::map<std::string, std::string>{
                     {"`failure.batch`", ""},
                     {"`failure.__traceback__ -> work() line 3: batch`", "an exception keeps the"},
                     {"`table -> its cache`, a dict of 1", "functools.lru_cache(ma"},
                     {"`last -> its cache`", "a smaller maxsize of f"}});
}

TEST_CASE("a module in a list is named by the list", "[keepers]") {
  Heap heap;
  const std::uint32_t list = heap.list(2);
  for (int i = 0; i < 2; ++i) {
    const std::uint32_t net = heap.object("Linear", ObjectGraph::kModule),
                        parameters = heap.object("dict", ObjectGraph::kParameters);
    heap.edge(list, net, "[0]");
    heap.edge(net, parameters, "");
    heap.edge(parameters, heap.tensor(4), ".weight");
  }
  heap.variable("ensemble", list);
  CHECK(heap.rows() == Rows{{"parameters `ensemble`, a list of 2", 8}});
}

TEST_CASE("a callback of C code is described by what it keeps", "[keepers]") {
  Heap heap;
  const std::uint32_t callback = heap.object("function watch.<locals>.<lambda>", 0, 0, true),
                      cells = heap.object("tuple"), cell = heap.object("cell");
  heap.edge(callback, cells, "");
  heap.edge(cells, cell, "");
  heap.edge(cell, heap.tensor(4), " -> batch, a variable of its closure");
  CHECK(heap.rows() == Rows{{"native C code that has a reference to a function watch.<locals>.<lambda> -> batch, a "
                             "variable of its closure",
                             4}});
}

TEST_CASE("what several variables hold is a row of its own", "[keepers]") {
  Heap heap;
  const std::uint32_t tensor = heap.tensor(8), list = heap.list(2);
  heap.edge(list, tensor, "[0]");
  heap.edge(list, heap.tensor(2), "[1]");
  heap.variable("batch", tensor);
  heap.variable("batches", list);
  CHECK(heap.rows() ==
        Rows{{"variable shared by `batch` and `batches`: free both", 8}, {"variable `batches`, a list of 2", 2}});

  heap.variable("third", tensor);
  heap.variable("fourth", tensor);
  CHECK(heap.rows().count("variable shared by `batch`, `batches`, `fourth` and 1 other: free all") == 1);
}

TEST_CASE("a reference back to the owner shares nothing", "[keepers]") {
  Heap heap;
  const std::uint32_t owner = heap.object("Trainer"), list = heap.list(1), tensor = heap.tensor(4);
  heap.edge(owner, list, ".history");
  heap.edge(list, tensor, "[0]");
  heap.edge(tensor, owner, ".owner");
  heap.edge(tensor, list, ".list");
  heap.variable("trainer", owner);
  CHECK(heap.rows() == Rows{{"variable `trainer.history`, a list of 1", 4}});
}

TEST_CASE("two attributes of one object are named both", "[keepers]") {
  Heap heap;
  const std::uint32_t owner = heap.object("Trainer"), own = heap.object("dict"), tensor = heap.tensor(4);
  heap.edge(owner, own, "");
  heap.edge(own, tensor, ".ema");
  heap.edge(own, tensor, ".last");
  const std::uint32_t list = heap.list(1);
  heap.edge(own, list, ".all");
  heap.edge(list, tensor, "[0]");
  heap.variable("trainer", owner);
  CHECK(heap.rows().count("variable shared by `trainer.all`, `trainer.ema` and `trainer.last`: free all") == 1);
}

TEST_CASE("the parts of an exception and of a suspended function go together", "[keepers]") {
  Heap heap;
  const std::uint32_t error = heap.object("BatchError", ObjectGraph::kException), tensor = heap.tensor(4);
  const std::uint32_t arguments = heap.object("tuple", ObjectGraph::kContainer, 1);
  heap.edge(error, arguments, ".args");
  heap.edge(arguments, tensor, "[0]");
  const std::uint32_t own = heap.object("dict");
  heap.edge(error, own, "");
  heap.edge(own, tensor, ".batch");
  heap.variable("last_error", error);
  const std::uint32_t stream = heap.object("generator"), pairs = heap.object("zip"), other = heap.tensor(2);
  heap.edge(stream, other, " -> batches() line 4: batch");
  heap.edge(stream, pairs, " -> batches() line 4: an iterator");
  heap.edge(pairs, other, "");
  heap.variable("stream", stream);
  CHECK(heap.rows() == Rows{{"variable `last_error.batch`", 4}, {"variable `stream -> batches() line 4: batch`", 2}});
}

TEST_CASE("a model's parameters are its own, whatever saved them", "[keepers]") {
  Heap heap;
  const std::uint32_t net = heap.object("Linear", ObjectGraph::kModule),
                      parameters = heap.object("dict", ObjectGraph::kParameters);
  const std::uint32_t weight = heap.object("Parameter", ObjectGraph::kTensor);
  const std::uint64_t address = heap.memory(weight, 16);
  heap.edge(net, parameters, "._parameters");
  heap.edge(parameters, weight, ".weight");
  const std::uint32_t list = losses(&heap, 2, 1), node = heap.object("AddmmBackward0", ObjectGraph::kAutograd);
  heap.edge(list, node, "[0]");
  heap.same_memory(node, address);
  const std::uint32_t gradient = heap.tensor(16);
  heap.edge(weight, gradient, ".grad");
  const std::uint32_t optimizer = heap.object("Adam", ObjectGraph::kOptimizer), state = heap.list(1);
  heap.edge(optimizer, state, ".state");
  heap.edge(state, heap.tensor(32), "[0]");
  heap.edge(state, weight, "[1]");
  heap.variable("net", net);
  heap.variable("optimizer", optimizer);
  heap.variable("losses", list);
  CHECK(heap.rows() == Rows{{"parameters `net`", 16},
                            {"gradients `net`", 16},
                            {"optimizer `optimizer`", 32},
                            {"autograd `losses`, a list of 2 -> Tensor.grad_fn -> saved tensors", 2}});
  // Neither the weights nor the optimizer's state, although they are larger.
  const std::vector<Keeper> keepers = heap.keepers();
  REQUIRE(most_suspicious(keepers) != nullptr);
  CHECK(most_suspicious(keepers)->kind == KeeperKind::kAutograd);
}

TEST_CASE("a class that its instances alone have is reached over them", "[keepers]") {
  Heap heap;
  const std::uint32_t instance = heap.object("Inner"), inner = heap.object("type", ObjectGraph::kClass);
  const std::uint32_t other = heap.object("Registry"), known = heap.object("type", ObjectGraph::kClass);
  heap.edge(instance, inner, " -> its class");
  heap.edge(inner, heap.tensor(2), ".batch");
  heap.edge(other, known, " -> its class");
  heap.edge(known, heap.tensor(4), ".shared");
  heap.variable("inner", instance);
  heap.variable("other", other);
  heap.variable("Registry", known);
  CHECK(heap.rows() == Rows{{"variable `inner -> its class.batch`", 2}, {"variable `Registry.shared`", 4}});
}

TEST_CASE("a package's own list shares nothing with the program's variables", "[keepers]") {
  Heap heap;
  const std::uint32_t pointer = heap.owner("c_void_p", 2), array = heap.object("Array");
  heap.edge(array, pointer, ".pointer");
  const std::uint32_t list = heap.object("dict", ObjectGraph::kContainer, 2), alone = heap.owner("c_void_p", 4);
  heap.edge(list, pointer, "[1]");
  heap.edge(list, alone, "[2]");
  heap.variable("numba.allocations", list);
  heap.variable("weights", array);
  CHECK(heap.rows() == Rows{{"variable `weights.pointer`", 2}, {"variable `numba.allocations`, a dict of 2", 4}});
}

TEST_CASE("what no variable reaches is C code's, garbage, or not known", "[keepers]") {
  Heap heap;
  heap.owner("Holder", 1, 0, true);
  const std::uint32_t one = heap.object("Node"), other = heap.tensor(2);
  heap.edge(one, other, ".data");
  heap.edge(other, one, ".back");
  heap.block(4, false);
  heap.block(8, true);
  heap.workspace(32);
  // C++ keeps the Python object of a storage.
  heap.owner("UntypedStorage", 64, ObjectGraph::kStorage, true);
  CHECK(heap.rows() == Rows{{"native C code that has a reference to a Holder", 1},
                            {"garbage a reference cycle with a Node", 2},
                            {"native no Python object leads to it: workspaces, extensions, tensors of C++", 4 + 64},
                            {"workspaces cuBLAS, through PyTorch", 32},
                            {"cuda-graphs CUDA graphs", 8}});
  heap.hide(3);
  CHECK(heap.rows().count(
            "not-known no Python object leads to it: C++, or 3 saved tensors behind hooks, which are not read") == 1);
}

TEST_CASE("objects of C++ lead from a variable of a library, or from an object of Python, to memory", "[keepers]") {
  Heap heap;
  const auto cpp = [&](std::uint64_t mib) { return heap.owner("C++ object", mib, ObjectGraph::kNative); };
  const std::uint32_t chunk = heap.object("C++ object", ObjectGraph::kNative);
  heap.library_variable("g_cache of libext.so", chunk);
  heap.edge(chunk, cpp(1), "");
  heap.edge(chunk, cpp(2), "");
  const std::uint32_t box = heap.object("Box");
  heap.variable("box", box);
  heap.edge(box, cpp(4), " -> C++ objects");
  const std::uint32_t model = heap.object("RecursiveScriptModule", ObjectGraph::kModule),
                      script = heap.object("ScriptModule"), ddp = heap.object("DDP", ObjectGraph::kModule),
                      reducer = heap.object("Reducer");
  heap.variable("model", model);
  heap.edge(model, script, "._c");
  heap.edge(script, cpp(8), " -> C++ objects");
  heap.variable("ddp", ddp);
  heap.edge(ddp, reducer, ".reducer");
  heap.edge(reducer, cpp(16), " -> C++ objects");
  const std::uint32_t both = cpp(32);
  heap.library_variable("g_current of libext.so", both);
  heap.edge(box, both, " -> C++ objects");
  CHECK(heap.rows() == Rows{{"library `g_cache of libext.so`", 3},
                            {"variable `box -> C++ objects`", 4 + 32},
                            {"parameters `model`", 8},
                            {"gradients `ddp.reducer -> C++ objects`", 16}});
}

TEST_CASE("a variable comes before what C code holds besides", "[keepers]") {
  Heap heap;
  const std::uint32_t saved = heap.object("Tensor", ObjectGraph::kTensor, 0, true),
                      tensor = heap.object("Tensor", ObjectGraph::kTensor);
  const std::uint64_t address = heap.memory(tensor, 4);
  heap.same_memory(saved, address);
  heap.variable("kept", tensor);
  CHECK(heap.rows() == Rows{{"variable `kept`", 4}});
}

TEST_CASE("names of a path", "[keepers]") {
  Heap heap;
  const auto keep = [&](const char* name, std::initializer_list<const char*> steps) {
    std::uint32_t at = heap.object("Thing");
    heap.variable(name, at);
    for (const char* step : steps) {
      const std::uint32_t next = heap.object("Thing");
      heap.edge(at, next, step);
      at = next;
    }
    heap.memory(at, 1);
  };
  keep("error", {".__traceback__", " -> work() line 7", ": batch"});
  keep("call", {" -> table, a variable of its closure"});
  keep("model.cache", {".table", "['a']"});
  CHECK(heap.rows() == Rows{{"variable `error.__traceback__ -> work() line 7: batch`", 1},
                            {"variable `call -> table, a variable of its closure`", 1},
                            {"variable `model.cache.table['a']`", 1}});
  CHECK(lasting_name("work() line 71: x[3]['key']['a b'] -> f() line 9") == "work(): x[*]['key'][*] -> f()");
  CHECK(lasting_name("broken[3") == "broken[*]");
}

TEST_CASE("a large dictionary is a collection, a small one a structure", "[keepers]") {
  for (const std::uint64_t length : {2, 400}) {
    Heap heap;
    const std::uint32_t dictionary = heap.object("dict", ObjectGraph::kContainer, length);
    heap.variable("state", dictionary);
    heap.edge(dictionary, heap.tensor(1), "['one']");
    heap.edge(dictionary, heap.tensor(1), "['two']");
    const Rows small = {{"variable `state['one']`", 1}, {"variable `state['two']`", 1}};
    CHECK(heap.rows() == (length == 2 ? small : Rows{{"variable `state`, a dict of 400", 2}}));
  }
}

TEST_CASE("very many keepers end in one row", "[keepers]") {
  Heap heap;
  for (int i = 0; i < 200; ++i) heap.variable(("variable_" + std::to_string(i)).c_str(), heap.tensor(1));
  const std::vector<Keeper> keepers = heap.keepers();
  REQUIRE(keepers.size() == 64);
  CHECK(keepers.back().path == "137 smaller keepers");
  CHECK(keepers.back().bytes == 137 * kMiB);
}

TEST_CASE("blocks that overlap are taken once", "[keepers]") {
  ObjectGraph graph;
  const std::vector<Keeper> keepers =
      find_keepers(graph, {{{100, 50}, false}, {{120, 50}, false}, {{~0ULL - 10, 50}, false}, {{200, 0}, false}});
  REQUIRE(keepers.size() == 1);
  CHECK(keepers.front().bytes == 50);
}
