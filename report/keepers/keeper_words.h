// A path through the heap in the program's words: "`trainer.history`, a list of 20 -> Tensor.grad_fn -> saved tensors".
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "report/keepers/heap_paths.h"

namespace culprit::report {

struct PathWords {
  std::string text;
  std::string name;       // the part of the text that is a name: "trainer.history"
  std::string id_text;    // the same in each run: without lengths, places in lists and lines
  std::size_t named = 0;  // the number of steps to the object that the text names; what it keeps is below it
  std::string container;  // the type of that object, where it is a container
  bool by_traceback = false;
  bool by_cache = false, by_bounded_cache = false;  // of functools
};

// `stop`: flags of ObjectGraph: the path is named up to the first object with one of them, if there is one.
PathWords words_of(const HeapPaths& paths, const HeapPaths::Path& path, std::uint32_t stop);

// A name without what differs between runs: "[3]" and "['a b']" become "[*]", "work() line 7" becomes "work()".
std::string lasting_name(std::string_view name);

}  // namespace culprit::report
