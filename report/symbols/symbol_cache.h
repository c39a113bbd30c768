// Symbols that earlier reports looked up: a second report of the same program reads no symbol table and no debug
// information of the files that it knows.
//
// The cache is a folder with one JSON file for each build ID (culprit.symbols/1). A file without a build ID is never
// kept, and an answer that was cut off by a limit, or that came from files beside the two named below, is not either.
// Several commands may use the folder at one time: a file is complete or is not there, and the last writer wins. What
// cannot be read or written is passed over, because a report needs no cache.
//
// Rejected: whole symbol tables, which are larger than the files that reports ask for, and a database, which would
// lock.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "report/symbols/found_symbols.h"

namespace culprit::report {

// A version of a file.
struct FileMark {
  std::string path;  // not compared for the file itself: its build ID names it
  std::uint64_t bytes = 0;
  std::uint64_t changed_ns = 0;  // of the last change, since 1970
};

// Of a file that is there.
std::optional<FileMark> mark_of(const std::string& path);

// Where an answer comes from.
struct SymbolOrigin {
  std::string build_id;  // in hex digits, complete
  FileMark file;
  std::optional<FileMark> debug_file;  // another file with the debug information
};

class SymbolCache {
 public:
  // `folder`: see symbol_cache_folder(); "" = no cache.
  explicit SymbolCache(std::string folder) : folder_(std::move(folder)) {}

  // Fills in `module` as look_up_symbols() does. False, with `module` as it was, unless the cache knows all that is
  // asked of this version of the file. `may_have_debug_file`: whether another file with debug information may be
  // there now. Thread-safe.
  bool answer(const std::string& build_id, const FileMark& file, const std::function<bool()>& may_have_debug_file,
              ModuleSymbols* module) const;

  // Keeps what `module` was answered, beside what the cache knows of that version of the file. Thread-safe.
  void keep(const SymbolOrigin& origin, const ModuleSymbols& module) const;

  // Removes the files that were used longest ago, until the folder has less than `most` bytes, three quarters of it at
  // most. Call after keep().
  void shrink(std::uint64_t most = kMostBytes) const;

  static constexpr std::uint64_t kMostBytes = 256 << 20;

 private:
  std::string path_of(const std::string& build_id) const { return folder_ + "/" + build_id + ".json"; }

  std::string folder_;
};

// $CULPRIT_CACHE, $XDG_CACHE_HOME/culprit/symbols or ~/.cache/culprit/symbols; "" = none: CULPRIT_CACHE=off, no home,
// or a folder that belongs to another user, as with sudo.
std::string symbol_cache_folder();

}  // namespace culprit::report
