// What the frameworks inside a Python process said of their own memory: the file beside the dump that the Python
// package writes (interpose/python/culprit/_view.py, schema culprit.python/1).
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "report/dump/tables.h"
#include "report/model/report_model.h"

namespace culprit {

struct PythonView {
  struct Block {  // a live tensor's memory
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    std::string file;  // empty: the framework did not record it
    std::uint64_t line = 0;
    std::string function;
  };
  struct Segment {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    std::uint64_t live_bytes = 0;
    std::vector<Block> blocks;
  };
  struct Pool {
    std::string framework;
    std::uint64_t used_bytes = 0;
    std::uint64_t total_bytes = 0;
  };
  struct Object {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    std::string type;
    std::vector<std::string> holders;  // the most telling first
  };
  bool at_exit = false;           // when the interpreter began to end; else at a snapshot
  std::vector<Segment> segments;  // PyTorch's; sorted by address
  std::vector<Pool> pools;
  std::vector<Object> objects;  // sorted by address
};

// Where the view of a dump is: "x.dump.python.json".
std::string python_view_path(const std::string& dump_path);

// The view beside a dump, empty when there is none. One that cannot be read is none too; `problem` then says why.
std::optional<PythonView> read_python_view(const std::string& dump_path, std::string* problem);

// Adds what holds memory on the Python side to `tables`, as if globals held it. Memory of caching allocators is left
// out. `variables` receives the holders and must outlive the tables.
void add_python_holders(const PythonView& view, const Dump& dump, Tables* tables, std::deque<Variable>* variables);

// What of each caching allocator's segments, made at `since_ns` or later, is live: by the addresses that both sides
// know.
std::vector<CacheInside> look_inside_caches(const PythonView& view, const Dump& dump, std::uint64_t since_ns);

}  // namespace culprit
