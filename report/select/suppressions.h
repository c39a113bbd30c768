// Suppressions: known leaks that are neither shown nor counted, in the syntax of LeakSanitizer
// (https://clang.llvm.org/docs/AddressSanitizer.html#suppressing-memory-leaks), so that one file serves both.
//     # A comment.
//     leak:third_party::*Cache     a function, source file or module of any frame of the leak's stack
//     module:^libthird.so          a module of any frame
//     cause:held                   every leak of that cause
//     kind:event                   everything of that kind
//     keeper:^`trainer.history`    what this variable keeps in a framework's cache, by its path
//     id:439b5d30badcd044          the leak, or the keeper, with that id
//     id:439b5d30badcd044/1c0ffee2 the same, of the lines that the last digits stand for
//     max-bytes:64K                the line above hides a leak only as long as it has no more than that, with all
//                                  entries of its id; below id:ID/LINES this entry alone
//
// A pattern matches anywhere in the name; `*` stands for any text, `^` and `$` tie it to the beginning and the end.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "report/select/rule_search.h"

namespace culprit::report {

struct Group;
struct HiddenTotal;
struct Report;

// Not thread-safe.
class Suppressions {
 public:
  // Adds the lines of the file at `path`. Throws FileError that names every malformed line (the first 100), or says
  // that the file cannot be read. 10,000 rules of 4096 characters are the most that are taken.
  void read(const std::string& path);

  // Removes the leaks that the lines hide from the report's lists, and records in the report how much each line hid.
  // The first matching line counts. The summary is not updated. Throws FileError when the patterns take too long.
  void apply(Report* report);

  // The lines that have not hidden anything yet: "known.supp:7: leak:foo".
  std::vector<std::string> unused() const;

 private:
  struct Rule : SuppressionRule {
    std::string path;
    std::size_t line = 0;
    bool used = false;
  };

  // The problem with a line; empty when it was added, or is blank or a comment.
  std::string add(const std::string& text, const std::string& path, std::size_t line);
  static std::string text_of(const Rule& rule);
  void suppress_keepers(Report* report, std::vector<HiddenTotal>* hidden);

  std::vector<Rule> rules_;
};

// The text of a suppressions file that hides every leak of the reports that has a stack, each by a line of its own that
// hides no other one. Cached memory is included only when `strict`.
std::string suggest_suppressions(const std::vector<Report>& reports, bool strict);

}  // namespace culprit::report
