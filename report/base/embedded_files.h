// Files that the build puts inside the program (scripts/cmake/embed.cmake), so that one copied file is all of it.
#pragma once

#include <cstddef>
#include <string_view>

namespace culprit::report {

// A row of such a table.
struct EmbeddedFile {
  const char* name;  // nullptr: the end of the table
  const char* begin;
  const char* end;

  std::string_view text() const { return {begin, static_cast<std::size_t>(end - begin)}; }
};

// The text of the file with this name; empty: there is none.
inline std::string_view embedded_file(const EmbeddedFile* table, std::string_view name) {
  for (const EmbeddedFile* one = table; one->name != nullptr; ++one) {
    if (name == one->name) return one->text();
  }
  return {};
}

}  // namespace culprit::report
