// The report of the frameworks inside a Python process about their own memory: the file next to the dump that the
// Python package writes (interpose/python_package/culprit/_view.py, schema culprit.python/1).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "report/load/object_graph.h"

namespace culprit::report {

struct PythonView {
  struct Block {  // a live tensor's memory
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    std::string file;  // empty: not recorded by the framework
    std::uint64_t line = 0;
    std::string function;
  };
  struct Segment {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    std::uint64_t live_bytes = 0;
    std::uint64_t device = 0;
    std::uint64_t largest_idle = 0;   // block
    std::uint64_t pending_bytes = 0;  // freed, but not yet by all streams
    bool private_pool = false;        // of a CUDA graph
    bool small = false;               // for tensors of up to 1 MiB
    std::vector<Block> blocks;
  };
  struct Pool {
    std::string framework;
    std::uint64_t device = 0;
    std::uint64_t used_bytes = 0;
    std::uint64_t total_bytes = 0;
  };
  struct Object {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    std::string type;
    std::vector<std::string> holders;  // the most informative first
  };
  std::string taken;              // "exit" (when the interpreter began to end), "snapshot" or "out-of-memory"
  std::vector<Segment> segments;  // PyTorch's; sorted by address
  std::vector<Pool> pools;
  std::vector<Object> objects;               // sorted by address
  std::vector<std::string> unread;           // sentences: what the library could not read, and why
  std::shared_ptr<const ObjectGraph> graph;  // nullptr: not taken
  std::vector<PythonView> ran_out;           // of the last moment at which memory ran out; at most one

  // Of both moments, each sentence once.
  std::set<std::string> all_unread() const;
};

// The path of a dump's view: "x.dump.python.json".
std::string python_view_path(const std::string& dump_path);

// A view from its text, which `name` is a name of. Empty when it is none, and `problem` then says why.
std::optional<PythonView> parse_python_view(const std::string& text, const std::string& name, std::string* problem);

// The view next to a dump; empty when there is none. Also empty when it cannot be read, and `problem` then says why.
std::optional<PythonView> read_python_view(const std::string& dump_path, std::string* problem);

}  // namespace culprit::report
