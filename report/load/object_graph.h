// The objects of a Python heap from which GPU memory can be reached, and their references: `graph` in the view of the
// frameworks (interpose/python_package/culprit/_graph.py has the format). It is hostile input: each index is in its
// range.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace culprit::report {

struct ObjectGraph {
  enum Flag : std::uint32_t {
    kContainer = 1,
    kModule = 2,     // of torch.nn
    kOptimizer = 4,  // of torch.optim
    kTensor = 8,
    kAutograd = 16,    // a node of a graph that computes gradients
    kParameters = 32,  // the dictionary of a module's parameters, or of its buffers
    kException = 64,
    kClass = 128,
    kStorage = 256,  // of a tensor: C++ keeps its object as long as the storage lives
    kNative = 512,   // an object of C++
  };
  struct Node {
    std::uint32_t type = 0;  // a string
    std::uint32_t flags = 0;
    std::uint64_t length = 0;  // of a container
    bool outside = false;      // C code, or a running function, has a reference to it
  };
  struct Edge {
    std::uint32_t from = 0, to = 0;
    std::uint32_t name = 0;  // a string
  };
  struct Variable {
    std::uint32_t to = 0;
    std::uint32_t name = 0;  // a string
    bool local = false;      // of a running function
    bool native = false;     // of a library, not of Python
  };
  struct Memory {
    std::uint32_t node = 0;
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    std::uint32_t pool = 0;  // a string: "torch", "cupy:0" (framework and device)
  };
  struct Raw {  // an object that is, or contains, the address of a live allocation: a number, a value of ctypes
    std::uint32_t node = 0;
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;  // of the allocation; 0: not known
  };
  std::vector<std::string> strings;
  std::vector<Node> nodes;
  std::vector<Edge> edges;
  std::vector<Variable> variables;
  std::vector<Memory> memory;
  std::vector<Raw> raw;
  std::vector<std::uint64_t> workspaces;  // sorted addresses of blocks that PyTorch gave cuBLAS
  std::uint64_t hidden = 0;               // saved tensors behind hooks of the program
  std::uint64_t not_read = 0;             // saved tensors whose place is not known
  std::string problem;                    // why the heap was not searched; empty: it was
};

// The member `graph` of a view, with a problem when it is damaged; nullptr when there is none. Reads the symbols of
// libraries whose variables lead to memory (native_variables.h).
std::shared_ptr<const ObjectGraph> object_graph_of(const nlohmann::json& view);

}  // namespace culprit::report
