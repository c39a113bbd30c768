// A keeper of live memory inside a framework's cache: a variable of the program, or something that has no variable.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace culprit::report {

enum class KeeperKind : std::uint8_t {
#define KEEPER_KIND(enumerator, ...) enumerator,
#include "report/model/keeper_kinds.def"
};

const char* keeper_kind_name(KeeperKind kind);
const char* keeper_kind_title(KeeperKind kind);
// Of a name; kNotKnown for one that there is none of.
KeeperKind keeper_kind_of(const std::string& name);

// `bytes` are those that would be free if this keeper alone went: what several keepers share is a row of its own.
struct Keeper {
  KeeperKind kind = KeeperKind::kNotKnown;
  std::string path;  // in words: "`losses`, a list of 20 -> Tensor.grad_fn -> saved tensors"
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;  // blocks of memory; 0: not known
  std::string hint;         // a better way to write it; empty: none is certain
  std::string id;           // the same in every run: without numbers, lengths and lines
  bool suppressed = false;
  std::vector<std::uint64_t> blocks;  // addresses; empty: not known
};

// The growth of a keeper between two moments, or between two runs.
struct GrownKeeper {
  Keeper keeper;             // of the later moment; of the earlier one, when it is gone
  std::uint64_t before = 0;  // bytes; 0: it is new
  std::uint64_t now = 0;     // bytes; 0: it is gone

  std::int64_t growth() const { return static_cast<std::int64_t>(now - before); }
};

// The one to name first: the largest that the program may have forgotten, unless it has less than a hundredth of all.
// nullptr: there is none.
const Keeper* most_suspicious(const std::vector<Keeper>& keepers);

}  // namespace culprit::report
