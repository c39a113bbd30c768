// Whether a stopped thread can call a function now, that is, holds no lock that loading a library takes.
#pragma once

#include <elfutils/libdwfl.h>

#include <cstdint>
#include <string>
#include <vector>

#include "report/attach/mapped_elf.h"
#include "report/attach/traced_process.h"

namespace culprit::report {

enum class SafePoint {
  kSafe,
  kUnsafe,   // it is inside malloc, the loader, the driver or the like
  kUnknown,  // no unsafe frame was found, but the stack does not end where a thread begins
};

// The stack pointers of a thread's frames.
struct StackWalk {
  bool ascends = true;          // each frame lies above the one that it called, so all lie on one stack
  std::uint64_t outermost = 0;  // the stack pointer of the outermost frame; 0 = not known (elfutils before 0.188)
};

class SafePointFinder {
 public:
  explicit SafePointFinder(const TracedProcess& process);
  ~SafePointFinder();
  SafePointFinder(const SafePointFinder&) = delete;
  SafePointFinder& operator=(const SafePointFinder&) = delete;

  // For a thread in a ptrace stop of the caller. `where` receives the unsafe frame, or the reason for kUnknown.
  SafePoint look_at(pid_t thread, std::string* where, StackWalk* stack);

  // Whether a thread in such a stop is one that the driver started for itself: with frames of the driver, and without
  // any of the program or its libraries.
  bool is_drivers_own(pid_t thread);

  // Whether libraries were loaded or unloaded since this object was made, or libdw cannot be used further. Make a new
  // one then.
  bool is_outdated(const TracedProcess& process) const;

 private:
  static int find_elf(Dwfl_Module* module, void**, const char* name, Dwarf_Addr base, char** file_name, Elf** elf);
  bool is_closed(Dwfl_Module* module) const;
  static int find_nothing(Dwfl_Module*, void**, const char*, Dwarf_Addr, const char*, const char*, GElf_Word, char**);
  static int visit_frame(Dwfl_Frame* frame, void* walk);
  static int visit_owner(Dwfl_Frame* frame, void* walk);
  static int prepare_module(Dwfl_Module* module, void**, const char* name, Dwarf_Addr, void* finder);
  void add_closed_functions(Dwfl_Module* module);
  const char* closed_function(std::uint64_t address) const;

  const MappedElf files_;
  Dwfl_Callbacks callbacks_ = {};
  Dwfl* dwfl_ = nullptr;
  bool attached_ = false;
  bool is_broken_ = false;
  std::uint64_t loader_ = 0;         // where it begins; 0: not known
  std::vector<std::uint64_t> code_;  // where executable mappings of files begin
  struct Function {
    std::uint64_t begin, end;
    const char* name;
  };
  // Functions that a thread must not be in. Collected beforehand, because libdw looks at all symbols of a library for
  // each address.
  std::vector<Function> closed_;
};

}  // namespace culprit::report
