// The containers of libstdc++ and of libc++, by the classes that have their pointers.
#pragma once

#include <elfutils/libdw.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "report/symbols/data_types.h"

namespace culprit::report {

// The memory that a pointer leads to.
enum class Shape {
  kObject,    // an object, or the first of several
  kElements,  // the elements of a container in one chunk
  kNodes,     // nodes of a container, one chunk each, of which every one leads to others
  kTable,     // pointers to such nodes, or to chunks of elements
};

struct Pointer {
  Shape shape = Shape::kObject;
  Shape behind = Shape::kNodes;  // kTable: what its pointers lead to
  bool known = false;            // whether `type` is there: false for void*
  Dwarf_Die type = {};           // of the object, the elements, the values
  std::uint64_t header = 0;      // kNodes: bytes before the value
  std::uint64_t next = 0;        // kNodes: where a node has the pointer to the next one
  // kObject: the pointer lies in a std::function, or is its pointer to a functor; the code beside the pointer tells the
  // functor's type. `in_functor`: where it lies in the functor, if that is inside of the std::function.
  bool is_functor = false;
  std::uint64_t in_functor = 0;
  bool has_key = false;
  Dwarf_Die key = {};
  bool counted = false;  // kNodes, kElements: `index` is right
  std::uint64_t index = 0;
};

// Whether the names of a class's members are the library's own affair: of the standard library, thrust and RMM.
bool is_transparent(const DataTypes& types, Dwarf_Die type, std::string_view name);
// Whether a class of this name, inside of a transparent one, is a part of it: the classes around the pointer of
// thrust::device_vector. Elsewhere it is the program's own.
bool is_part_of_container(std::string_view name);

// Whether a class is the one of a container that has its pointers; then, where the one at `offset` in it leads to.
bool find_container(const DataTypes& types, Dwarf_Die type, const std::string& name, std::uint64_t offset,
                    Pointer* found);

// Which word of a string, or of a std::string_view, has the pointer to its text. A number behind the last word of any
// chunk for other classes. `name`: of the class.
std::size_t word_of_text(const std::string& name);

// The text, in quotation marks, of a std::string that has it inside of itself. `name`: of the class; `words`: the first
// words of the object, which was at `address`. Nothing: it is no string, or a longer one.
std::optional<std::string> short_string(const std::string& name, const std::uint64_t* words, std::size_t count,
                                        std::uint64_t address);

}  // namespace culprit::report
