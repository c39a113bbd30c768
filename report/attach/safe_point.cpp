#include "report/attach/safe_point.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string_view>
#include <unordered_set>

#include "report/attach/loader_locks.h"
#include "report/attach/stage.h"
#include "report/base/words.h"

// Since elfutils 0.188.
extern "C" int dwfl_frame_reg(Dwfl_Frame* state, unsigned number, Dwarf_Word* value) __attribute__((weak));

namespace culprit::report {
namespace {

// libdwfl's callbacks have no argument for this, so only one finder may exist at a time.
const MappedElf* current_files = nullptr;

constexpr int kMostFrames = 512;
constexpr unsigned kStackPointer = 7;  // in the numbering of DWARF for x86-64

// The loader, the driver and its libraries, and libculprit.so: a thread inside may hold one of their locks.
bool is_closed_module(std::string_view name) {
  for (const char* prefix : {"ld-linux", "ld-2.", "ld.so", "libcuda.so", "libcudadebugger", "libcupti", "libnvidia-",
                             "libnvperf", "libculprit.so"}) {
    if (begins_with(name, prefix)) return true;
  }
  return false;
}

// Modules whose functions are checked by name: libc, and modules that may replace its malloc.
bool may_allocate(std::string_view name, bool executable) {
  if (executable) return true;
  for (const char* prefix :
       {"libc.so", "libc-2.", "libpthread", "libdl", "libjemalloc", "libtcmalloc", "libmimalloc", "libtbbmalloc",
        "libhoard", "libsnmalloc", "librpmalloc", "libasan", "libtsan", "libpython"}) {
    if (begins_with(name, prefix)) return true;
  }
  return false;
}

// Functions that hold a lock of libc or of CPython which loading a library may take, or that end or copy the process.
bool is_closed_function(std::string_view name) {
  for (const char* prefix : {"__libc_", "__GI_"}) {
    if (begins_with(name, prefix)) name.remove_prefix(std::strlen(prefix));
  }
  static const std::unordered_set<std::string_view> closed = {
      "malloc",
      "free",
      "cfree",
      "calloc",
      "realloc",
      "reallocarray",
      "memalign",
      "aligned_alloc",
      "posix_memalign",
      "valloc",
      "pvalloc",
      "malloc_trim",
      "malloc_usable_size",
      "malloc_info",
      "mallopt",
      "mallinfo",
      "mallinfo2",
      "malloc_stats",
      "fork",
      "_Fork",
      "vfork",
      "daemon",
      "posix_spawn",
      "posix_spawnp",
      "_IO_list_lock",  // of the list of open files, and what takes it
      "_IO_list_unlock",
      "_IO_link_in",
      "_IO_un_link",
      "_IO_flush_all",
      "_IO_flush_all_linebuffered",
      "_IO_cleanup",
      "fcloseall",
      "Py_AddPendingCall",  // of CPython, and what it calls with the lock of its queue
      "_PyEval_AddPendingCall",
      "_PyEval_MakePendingCalls",
      "make_pending_calls",
      "handle_pending_calls",
      "setuid",  // with the lock of the list of threads, also while it waits for the others
      "setgid",
      "seteuid",
      "setegid",
      "setreuid",
      "setregid",
      "setresuid",
      "setresgid",
      "setgroups",
      "initgroups",
      "pthread_create",
      "pthread_exit",
      "pthread_atfork",
      "pthread_getattr_np",
      "dlopen",
      "dlmopen",
      "dlclose",
      "dlsym",
      "dlvsym",
      "dladdr",
      "dladdr1",
      "dlinfo",
      "dlerror",
      "dlopen_mode",
      "dl_iterate_phdr",
      "_dl_find_object",
      "atexit",
      "on_exit",
      "at_quick_exit",
      "__cxa_atexit",
      "__cxa_at_quick_exit",
      "__cxa_finalize",
      "__cxa_thread_atexit_impl",
      "exit",
      "_exit",
      "_Exit",
      "quick_exit",
      "abort",
      "setenv",
      "putenv",
      "unsetenv",
      "clearenv",
      "execve",
      "execv",
      "execvp",
      "sdallocx",
      "mallocx",
      "rallocx",
      "dallocx"};
  if (closed.count(name) != 0) return true;
  // Functions of allocators with other names.
  for (const char* prefix : {"je_", "tc_", "mi_", "Tcmalloc", "_Znwm", "_Znam", "_ZdlPv", "_ZdaPv"}) {
    if (begins_with(name, prefix)) return true;
  }
  return false;
}

struct Walk {
  SafePoint verdict = SafePoint::kSafe;
  std::string where;
  int frames = 0;
  const SafePointFinder* finder = nullptr;
  Dwfl* dwfl = nullptr;
  StackWalk stack;
};

struct OwnerWalk {
  Dwfl* dwfl = nullptr;
  int frames = 0;
  bool whole = false;
  bool driver = false;
  bool program = false;
};

std::string_view file_name(Dwfl_Module* module) {
  const char* path = ::dwfl_module_info(module, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
  std::string_view name = path != nullptr ? path : "";
  name.remove_prefix(name.rfind('/') + 1);
  return name;
}

bool is_executable(std::string_view name) { return name.find(".so") == std::string_view::npos; }

std::vector<std::uint64_t> code_in(const std::vector<MappedRange>& mappings) {
  std::vector<std::uint64_t> code;
  for (const MappedRange& range : mappings) {
    if (range.executable && range.inode != 0) code.push_back(range.begin);
  }
  return code;
}

}  // namespace

int SafePointFinder::find_nothing(Dwfl_Module*, void**, const char*, Dwarf_Addr, const char*, const char*, GElf_Word,
                                  char**) {
  return -1;  // not needed for unwinding, and possibly slow to find
}

int SafePointFinder::find_elf(Dwfl_Module* module, void**, const char* name, Dwarf_Addr base, char** file_name,
                              Elf** elf) {
  return current_files->find(module, name, base, file_name, elf);
}

// Reads what look_at() needs, so that the thread that it looks at is stopped for a short time.
int SafePointFinder::prepare_module(Dwfl_Module* module, void**, const char*, Dwarf_Addr, void* finder) {
  still_at_stage();
  GElf_Addr bias = 0;
  if (::dwfl_module_getelf(module, &bias) == nullptr) return DWARF_CB_OK;
  ::dwfl_module_eh_cfi(module, &bias);
  const std::string_view name = file_name(module);
  auto* self = static_cast<SafePointFinder*>(finder);
  if (!self->is_closed(module) && may_allocate(name, is_executable(name))) self->add_closed_functions(module);
  return DWARF_CB_OK;
}

bool SafePointFinder::is_closed(Dwfl_Module* module) const {
  Dwarf_Addr begin = 0;
  ::dwfl_module_info(module, nullptr, &begin, nullptr, nullptr, nullptr, nullptr, nullptr);
  return (loader_ != 0 && begin == loader_) || is_closed_module(file_name(module));
}

void SafePointFinder::add_closed_functions(Dwfl_Module* module) {
  std::vector<std::uint64_t> begins;  // of all functions: one in assembly may have no size
  std::vector<Function> found;
  const int count = ::dwfl_module_getsymtab(module);
  for (int i = 0; i < count; ++i) {
    GElf_Sym symbol = {};
    GElf_Addr address = 0;
    GElf_Word section = SHN_UNDEF;
    const char* name = ::dwfl_module_getsym_info(module, i, &symbol, &address, &section, nullptr, nullptr);
    const int type = GELF_ST_TYPE(symbol.st_info);
    if (name == nullptr || section == SHN_UNDEF || (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE))
      continue;
    begins.push_back(address);
    std::string_view plain = name;
    plain = plain.substr(0, plain.find('@'));
    if (is_closed_function(plain)) found.push_back({address, address + symbol.st_size, name});
  }
  std::sort(begins.begin(), begins.end());
  for (Function& one : found) {
    const auto next = std::upper_bound(begins.begin(), begins.end(), one.begin);
    if (one.end == one.begin) one.end = next == begins.end() ? one.begin + 1 : *next;
    closed_.push_back(one);
  }
}

const char* SafePointFinder::closed_function(std::uint64_t address) const {
  auto next = std::upper_bound(closed_.begin(), closed_.end(), address,
                               [](std::uint64_t wanted, const Function& one) { return wanted < one.begin; });
  if (next == closed_.begin()) return nullptr;
  // Several names may have the same address.
  for (const std::uint64_t begin = std::prev(next)->begin; next != closed_.begin();) {
    --next;
    if (next->begin != begin) break;
    if (address < next->end) return next->name;
  }
  return nullptr;
}

bool SafePointFinder::is_outdated(const TracedProcess& process) const {
  return is_broken_ || code_in(process.mappings()) != code_;
}

SafePointFinder::SafePointFinder(const TracedProcess& process) : files_(process), code_(code_in(files_.mappings())) {
  begin_stage("reading the program's libraries");
  const MappedRange* loader = find_loader(process, files_.mappings());
  if (loader != nullptr) loader_ = loader->begin;
  current_files = &files_;
  callbacks_.find_elf = find_elf;
  callbacks_.find_debuginfo = find_nothing;
  dwfl_ = ::dwfl_begin(&callbacks_);
  if (dwfl_ == nullptr) throw AttachError("libdw cannot be used");
  attached_ = ::dwfl_linux_proc_report(dwfl_, process.living_thread()) == 0 &&
              ::dwfl_report_end(dwfl_, nullptr, nullptr) == 0 &&
              ::dwfl_linux_proc_attach(dwfl_, process.living_thread(), true) == 0;
  if (attached_) {
    ::dwfl_getmodules(dwfl_, prepare_module, this, 0);
    std::sort(closed_.begin(), closed_.end(),
              [](const Function& left, const Function& right) { return left.begin < right.begin; });
    return;
  }
  const char* why = ::dwfl_errmsg(-1);
  ::dwfl_end(dwfl_);
  throw AttachError("the stacks of " + process.name() + " cannot be read: " + (why != nullptr ? why : "unknown error"));
}

SafePointFinder::~SafePointFinder() { ::dwfl_end(dwfl_); }

int SafePointFinder::visit_frame(Dwfl_Frame* frame, void* data) {
  auto* walk = static_cast<Walk*>(data);
  Dwarf_Addr address = 0;
  bool exact = false;
  if (++walk->frames > kMostFrames || !::dwfl_frame_pc(frame, &address, &exact)) {
    walk->verdict = SafePoint::kUnknown;
    return DWARF_CB_ABORT;
  }
  Dwarf_Word pointer = 0;
  if (dwfl_frame_reg != nullptr && ::dwfl_frame_reg(frame, kStackPointer, &pointer) == 0) {
    walk->stack.ascends = walk->stack.ascends && pointer >= walk->stack.outermost;
    walk->stack.outermost = pointer;
  }
  if (!exact) --address;
  Dwfl_Module* module = ::dwfl_addrmodule(walk->dwfl, address);
  if (module == nullptr) return DWARF_CB_OK;  // code generated at run time: continue with its caller
  const std::string_view name = file_name(module);
  if (walk->finder->is_closed(module)) {
    walk->verdict = SafePoint::kUnsafe;
    walk->where = name;
    return DWARF_CB_ABORT;
  }
  if (!may_allocate(name, is_executable(name))) return DWARF_CB_OK;
  // A static function of a stripped library has no name; the exported function that called it follows.
  const char* function = walk->finder->closed_function(address);
  if (function == nullptr) return DWARF_CB_OK;
  const std::string_view plain = function;
  walk->verdict = SafePoint::kUnsafe;
  walk->where = plain.substr(0, plain.find('@'));
  return DWARF_CB_ABORT;
}

int SafePointFinder::visit_owner(Dwfl_Frame* frame, void* data) {
  auto* walk = static_cast<OwnerWalk*>(data);
  Dwarf_Addr address = 0;
  bool exact = false;
  walk->whole = ++walk->frames <= kMostFrames && ::dwfl_frame_pc(frame, &address, &exact);
  if (!walk->whole) return DWARF_CB_ABORT;
  Dwfl_Module* module = ::dwfl_addrmodule(walk->dwfl, exact ? address : address - 1);
  const std::string_view name = module == nullptr ? std::string_view() : file_name(module);
  if (begins_with(name, "libcuda.so") || begins_with(name, "libnvidia-")) {
    walk->driver = true;
  } else if (!begins_with(name, "libc.so") && !begins_with(name, "libc-2.") && !begins_with(name, "libpthread")) {
    walk->program = true;
  }
  return DWARF_CB_OK;
}

bool SafePointFinder::is_drivers_own(pid_t thread) {
  OwnerWalk walk;
  walk.dwfl = dwfl_;
  ::dwfl_getthread_frames(dwfl_, thread, visit_owner, &walk);
  return walk.whole && walk.driver && !walk.program;
}

SafePoint SafePointFinder::look_at(pid_t thread, std::string* where, StackWalk* stack) {
  Walk walk;
  walk.finder = this;
  walk.dwfl = dwfl_;
  const int result = ::dwfl_getthread_frames(dwfl_, thread, visit_frame, &walk);
  // libdw takes a thread that has ended in an exec for attached from then on, and would end this process.
  is_broken_ = is_broken_ || walk.frames == 0;
  if (result < 0 || walk.frames == 0) {
    const char* why = ::dwfl_errmsg(-1);
    walk.verdict = SafePoint::kUnknown;
    walk.where = why != nullptr ? why : "its stack cannot be read";
  }
  *where = walk.where;
  *stack = walk.stack;
  return walk.verdict;
}

}  // namespace culprit::report
