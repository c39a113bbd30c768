#include "interpose/inside_python/heap_graph.h"

#include <cstddef>
#include <cstdint>

#include "interpose/base/hash.h"
#include "interpose/base/keep_errno.h"
#include "interpose/inside_python/interpreter.h"
#include "interpose/inside_python/object_arrays.h"
#include "interpose/inside_python/object_layout.h"
#include "interpose/inside_python/raw_pointers.h"
#include "interpose/system/os.h"
#include "interpose/system/private_array.h"

namespace culprit {
namespace {

constexpr std::uint32_t kMostWords = 64;

struct Edge {
  std::uint32_t from, to;
};

// An object that is, or contains, the address of live memory.
struct Raw {
  std::uint64_t node, address;
};

class HeapGraph {
 public:
  explicit HeapGraph(std::uint64_t most) : most_(most) {}

  // From now on, objects with the address of live memory are nodes and targets, numbers too.
  void look_for_pointers() { pointers_.collect(); }
  // From now on, the references of arrays of this type are followed; None: of no type.
  void follow_arrays(PyObject* type) { arrays_.set_type(type); }

  // The objects of a list become nodes; the list itself has a reference to each.
  bool add_list(PyObject* list) {
    const Interpreter& python = the_interpreter();
    const long count = python.PyList_Size(list);
    for (long i = 0; i < count; ++i) {
      PyObject* object = python.PyList_GetItem(list, i);
      const std::int64_t node = add(object);
      if (node < 0) return false;
      has_plain_ = has_plain_ || !has_collector(object);
      ++known_[static_cast<std::uint64_t>(node)];
    }
    return true;
  }

  // The references of the first `count` nodes, and of the nodes that they lead to.
  bool follow(std::uint64_t count) {
    for (from_ = 0; from_ < count && !failed_; ++from_) follow_one();
    const std::uint64_t given = given_;
    for (from_ = given; from_ < nodes_.size() && !failed_; ++from_) follow_one();
    return !failed_;
  }

  // The references of all nodes, and of all tracked objects that they lead to.
  bool follow_all() {
    takes_tracked_ = true;
    for (from_ = 0; from_ < nodes_.size() && !failed_; ++from_) follow_one();
    return !failed_;
  }

  // A list of the nodes, without arrays; nullptr: an error is set.
  PyObject* objects() {
    const Interpreter& python = the_interpreter();
    PyObject* list = python.PyList_New(0);
    for (std::uint32_t node = 0; list != nullptr && node < nodes_.size(); ++node) {
      if (arrays_.is_one(object_of(node)) || python.PyList_Append(list, object_of(node)) == 0) continue;
      python.Py_DecRef(list);
      return nullptr;
    }
    return list;
  }

  // The nodes so far are all that the caller gives; later ones are containers that the collector does not track.
  void end_of_given() { given_ = nodes_.size(); }

  bool add_edge(PyObject* from, PyObject* to) {
    const std::int64_t source = find(from), destination = find(to);
    if (source < 0 || destination < 0) return false;
    return edges_.push({static_cast<std::uint32_t>(source), static_cast<std::uint32_t>(destination)});
  }

  // Marks the nodes from which a target can be reached, by steps that do not lead over an end.
  bool prune(PyObject* targets, PyObject* ends) {
    if (!wanted_.fill(nodes_.size()) || !ends_.fill(nodes_.size()) || !sort_edges()) return false;
    PrivateArray<std::uint32_t> queue;
    if (!for_each_node(ends,
                       [&](std::uint32_t node) {
                         ends_[node] = 1;
                         return true;
                       }) ||
        !for_each_node(targets, [&](std::uint32_t node) { return want(node, &queue); })) {
      return false;
    }
    for (std::uint64_t i = 0; i < raws_.size(); ++i) {
      if (!want(static_cast<std::uint32_t>(raws_[i].node), &queue)) return false;
    }
    for (std::uint64_t i = 0; i < queue.size(); ++i) {
      const std::uint32_t node = queue[i];
      if (ends_[node] != 0) continue;
      for (std::uint64_t at = first_[node]; at < first_[node + 1U]; ++at) {
        if (!want(sources_[at], &queue)) return false;
      }
    }
    return true;
  }

  // The result of heap_edges(); nullptr: an error is set, or there is no memory.
  PyObject* result(bool with_pointers) {
    const Interpreter& python = the_interpreter();
    const PythonRef list(python.PyList_New(0));
    PrivateArray<std::uint32_t> number;
    PrivateArray<Edge> edges;
    PrivateArray<std::uint32_t> outside;
    if (!list || !number.fill(nodes_.size())) return nullptr;
    for (std::uint32_t node = 0; node < nodes_.size(); ++node) {
      if (wanted_[node] == 0) continue;
      number[node] = static_cast<std::uint32_t>(outside.size());
      if (!outside.push(references_from_outside(node)) || python.PyList_Append(list.get(), object_of(node)) != 0)
        return nullptr;
    }
    for (std::uint64_t i = 0; i < edges_.size(); ++i) {
      const Edge edge = edges_[i];
      if (wanted_[edge.from] == 0 || wanted_[edge.to] == 0 || ends_[edge.from] != 0) continue;
      if (!edges.push({number[edge.from], number[edge.to]})) return nullptr;
    }
    for (std::uint64_t i = 0; i < raws_.size(); ++i) raws_[i].node = number[raws_[i].node];
    const PythonRef edge_bytes(new_bytes(edges)), outside_bytes(new_bytes(outside)), raw_bytes(new_bytes(raws_));
    if (!edge_bytes || !outside_bytes || !raw_bytes) return nullptr;
    if (!with_pointers) return python.PyTuple_Pack(3, list.get(), edge_bytes.get(), outside_bytes.get());
    return python.PyTuple_Pack(4, list.get(), edge_bytes.get(), outside_bytes.get(), raw_bytes.get());
  }

 private:
  std::uint64_t pointer_in(PyObject* object) const { return pointers_.count() == 0 ? 0 : pointers_.in(object); }

  PyObject* object_of(std::uint64_t node) { return reinterpret_cast<PyObject*>(nodes_[node]); }

  // The slot of an object in the table of nodes: its own, or the free one where it belongs.
  std::uint64_t slot_of(const PyObject* object) {
    std::uint64_t slot = mix(reinterpret_cast<std::uint64_t>(object)) & mask_;
    while (table_[slot] != 0 && object_of(table_[slot] - 1) != object) slot = (slot + 1) & mask_;
    return slot;
  }

  std::int64_t find(const PyObject* object) {
    return table_.size() == 0 ? -1 : static_cast<std::int64_t>(table_[slot_of(object)]) - 1;
  }

  // Returns the node of an object, or -1.
  std::int64_t add(PyObject* object) {
    const std::int64_t known = find(object);
    if (known >= 0) return known;
    if (nodes_.size() >= most_ || (2 * (nodes_.size() + 1) > table_.size() && !grow_table()) ||
        !nodes_.push(reinterpret_cast<std::uint64_t>(object)) || !known_.push(0) || !instances_.push(0)) {
      failed_ = true;
      return -1;
    }
    table_[slot_of(object)] = static_cast<std::uint32_t>(nodes_.size());
    const std::uint64_t pointer = pointer_in(object);
    if (pointer != 0 && !raws_.push({nodes_.size() - 1, pointer})) {
      failed_ = true;
      return -1;
    }
    return static_cast<std::int64_t>(nodes_.size()) - 1;
  }

  bool grow_table() {
    PrivateArray<std::uint32_t> larger;
    if (!larger.fill(table_.size() == 0 ? kFirstTable : 2 * table_.size())) return false;
    table_.swap(larger);
    mask_ = table_.size() - 1;
    for (std::uint64_t i = 0; i < nodes_.size(); ++i) table_[slot_of(object_of(i))] = static_cast<std::uint32_t>(i + 1);
    return true;
  }

  void follow_one() {
    PyObject* object = object_of(from_);
    if (arrays_.is_one(object)) arrays_.visit(object, visit, this);
    traverse(object, visit, this);
  }

  static int visit(PyObject* object, void* self) { return static_cast<HeapGraph*>(self)->visit_one(object); }

  int visit_one(PyObject* object) {
    PyObject* source = object_of(from_);
    const bool plain = !has_collector(object);
    const bool is_target = plain && (arrays_.leads_on(object) || pointer_in(object) != 0);
    // Numbers and texts: no node is one, unless it is an address, or the caller gave some.
    if (plain && !has_plain_ && !is_target) return 0;
    std::int64_t node = find(object);
    if (node < 0) {
      // The collector tracks neither a tuple nor a dictionary that never had a tracked object in it. Other objects
      // without a track may be incomplete.
      if (plain ? !is_target : (flags_of(object) & kTupleOrDict) == 0 && !(takes_tracked_ && is_tracked(object)))
        return 0;
      node = add(object);
      if (node < 0) return 1;
    }
    ++known_[static_cast<std::uint64_t>(node)];
    // A class has few such edges: with all of them, each of its instances would lead to what the class has.
    if (object == type_of(source) && ++instances_[static_cast<std::uint64_t>(node)] > kInstancesOfClass) return 0;
    if (edges_.push({static_cast<std::uint32_t>(from_), static_cast<std::uint32_t>(node)})) return 0;
    failed_ = true;
    return 1;
  }

  // The edges by their destination: sources_[first_[node]] to sources_[first_[node + 1] - 1].
  bool sort_edges() {
    if (!first_.fill(nodes_.size() + 2) || !sources_.fill(edges_.size())) return false;
    for (std::uint64_t i = 0; i < edges_.size(); ++i) ++first_[edges_[i].to + 2U];
    for (std::uint64_t i = 2; i < first_.size(); ++i) first_[i] += first_[i - 1];
    for (std::uint64_t i = 0; i < edges_.size(); ++i) sources_[first_[edges_[i].to + 1U]++] = edges_[i].from;
    return true;
  }

  template <typename Use>
  bool for_each_node(PyObject* list, Use use) {
    const Interpreter& python = the_interpreter();
    const long count = python.PyList_Size(list);
    for (long i = 0; i < count; ++i) {
      const std::int64_t node = find(python.PyList_GetItem(list, i));
      if (node >= 0 && !use(static_cast<std::uint32_t>(node))) return false;
    }
    return true;
  }

  bool want(std::uint32_t node, PrivateArray<std::uint32_t>* queue) {
    if (wanted_[node] != 0) return true;
    wanted_[node] = 1;
    return queue->push(node);
  }

  // An immortal object (from 3.12 on) has a count that no heap reaches.
  std::uint32_t references_from_outside(std::uint32_t node) {
    const auto count = field<std::uint32_t>(object_of(node), 0);
    return count > known_[node] ? count - known_[node] : 0;
  }

  static constexpr std::uint64_t kFirstTable = 1 << 17;
  static constexpr std::uint32_t kInstancesOfClass = 8;

  const std::uint64_t most_;
  bool failed_ = false, takes_tracked_ = false;
  bool has_plain_ = false;  // a node is an object that the collector cannot know
  std::uint64_t from_ = 0, given_ = 0;
  PrivateArray<std::uint64_t> nodes_;      // addresses of objects
  PrivateArray<std::uint32_t> known_;      // references that were seen, by node
  PrivateArray<std::uint32_t> instances_;  // of a class, by node
  PrivateArray<Edge> edges_;
  RawPointers pointers_;
  ObjectArrays arrays_;
  PrivateArray<Raw> raws_;
  PrivateArray<std::uint32_t> table_;  // node + 1 by the hash of its address
  std::uint64_t mask_ = 0;
  PrivateArray<unsigned char> wanted_, ends_;
  PrivateArray<std::uint64_t> first_;
  PrivateArray<std::uint32_t> sources_;
};

// An argument that an older Python package does not pass; nullptr: it did not.
PyObject* later_argument(PyObject* arguments, long place) {
  PyObject* argument = the_interpreter().PyTuple_GetItem(arguments, place);
  if (argument == nullptr) the_interpreter().PyErr_Clear();
  return argument;
}

// The largest number of objects, an argument; negative: an error is set.
long most_of(PyObject* arguments, long place) {
  const Interpreter& python = the_interpreter();
  PyObject* limit = python.PyTuple_GetItem(arguments, place);
  return limit == nullptr ? -1 : python.PyLong_AsLong(limit);
}

bool add_extra(PyObject* extra, HeapGraph* graph) {
  const Interpreter& python = the_interpreter();
  const long count = python.PyList_Size(extra);
  for (long i = 0; i + 1 < count; i += 2) {
    if (!graph->add_edge(python.PyList_GetItem(extra, i), python.PyList_GetItem(extra, i + 1))) return false;
  }
  return true;
}

}  // namespace

PyObject* heap_edges(PyObject*, PyObject* arguments) {
  KeepErrno keep;
  const Interpreter& python = the_interpreter();
  PyObject* lists[4] = {};
  for (long i = 0; i < 4; ++i) {
    lists[i] = python.PyTuple_GetItem(arguments, i);
    if (lists[i] == nullptr) return nullptr;
  }
  const long most = most_of(arguments, 4);
  if (most < 0) return nullptr;
  HeapGraph graph(static_cast<std::uint64_t>(most));
  const auto everything = static_cast<std::uint64_t>(python.PyList_Size(lists[0]));
  const bool with_pointers = later_argument(arguments, 5) != nullptr;
  if (with_pointers) graph.look_for_pointers();
  graph.follow_arrays(later_argument(arguments, 6));
  bool done = graph.add_list(lists[0]) && graph.add_list(lists[1]) && graph.add_list(lists[2]);
  graph.end_of_given();
  done = done && graph.follow(everything) && add_extra(lists[2], &graph) && graph.prune(lists[1], lists[3]);
  PyObject* result = done ? graph.result(with_pointers) : nullptr;
  if (result == nullptr && python.PyErr_Occurred() == nullptr) return new_none();
  return result;
}

PyObject* heap_objects(PyObject*, PyObject* arguments) {
  KeepErrno keep;
  const Interpreter& python = the_interpreter();
  PyObject* roots = python.PyTuple_GetItem(arguments, 0);
  const long most = roots == nullptr ? -1 : most_of(arguments, 1);
  if (most < 0) return nullptr;
  HeapGraph graph(static_cast<std::uint64_t>(most));
  graph.follow_arrays(later_argument(arguments, 2));
  PyObject* result = graph.add_list(roots) && graph.follow_all() ? graph.objects() : nullptr;
  if (result == nullptr && python.PyErr_Occurred() == nullptr) return new_none();
  return result;
}

PyObject* read_words(PyObject*, PyObject* arguments) {
  KeepErrno keep;
  const Interpreter& python = the_interpreter();
  PyObject* address = python.PyTuple_GetItem(arguments, 0);
  PyObject* number = address == nullptr ? nullptr : python.PyTuple_GetItem(arguments, 1);
  if (number == nullptr) return nullptr;
  const std::uint64_t from = python.PyLong_AsUnsignedLongMask(address);
  const long count = python.PyLong_AsLong(number);
  if (python.PyErr_Occurred() != nullptr) return nullptr;
  PyObject* list = python.PyList_New(0);
  if (list == nullptr || count < 1 || count > static_cast<long>(kMostWords)) return list;
  std::uint64_t words[kMostWords];
  const auto bytes = static_cast<std::uint64_t>(count) * sizeof(std::uint64_t);
  if (os.read_own_memory(words, from, bytes) != static_cast<std::int64_t>(bytes)) return list;
  for (long i = 0; i < count; ++i) {
    const PythonRef word(python.PyLong_FromUnsignedLong(words[i]));
    if (!word || python.PyList_Append(list, word.get()) != 0) {
      python.Py_DecRef(list);
      return nullptr;
    }
  }
  return list;
}

}  // namespace culprit
