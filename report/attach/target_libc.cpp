#include "report/attach/target_libc.h"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <string>

#include "report/attach/loaded_list.h"
#include "report/attach/program_kind.h"
#include "report/attach/remote_symbols.h"
#include "report/proc/loaded_library.h"

namespace culprit::report {
namespace {

constexpr std::uint64_t kLoadAsDlopen = 0x80000000;  // additionally required by __libc_dlopen_mode

// The ranges of one file are behind one another, and the first has its beginning.
void read_code(const TracedProcess& process, const std::vector<MappedRange>& mappings, const MappedRange& libc,
               ReturnCode* code) {
  for (const MappedRange& range : mappings) {
    if (range.begin < libc.begin || range.path.empty()) continue;
    if (range.path != libc.path || (range.offset == 0 && range.begin != libc.begin)) return;
    if (!range.executable) continue;
    std::vector<unsigned char> bytes(range.end - range.begin);
    if (!process.read_memory(range.begin, bytes.data(), bytes.size())) process.explain_refusal(errno);
    find_return_code(bytes, range.begin, code);
  }
}

// A plugin that was loaded into another name space of the loader (dlmopen) has a libc of its own, whose dlopen() would
// load the library beside that plugin.
const MappedRange& libc_of_program(const TracedProcess& process, const std::vector<MappedRange>& mappings) {
  const std::vector<const MappedRange*> all = find_all_loaded(mappings, {"libc.so.6", "libc-2."});
  if (all.size() == 1) return *all.front();
  const LoadedList list(process, mappings);
  for (const std::uint64_t section : list.sections()) {
    const auto range =
        std::find_if(mappings.begin(), mappings.end(), [&](const MappedRange& each) { return each.contains(section); });
    if (range == mappings.end()) continue;
    const auto next = std::find_if(all.begin(), all.end(), [&](const auto* each) { return each->begin > section; });
    if (next != all.begin() && (*std::prev(next))->path == range->path) return **std::prev(next);
  }
  throw AttachError(process.name() + " has loaded " + std::to_string(all.size()) +
                    " libcs, and its loader does not tell which one the program itself uses: nothing was changed; " +
                    "start the program with culprit run");
}

}  // namespace

TargetLibc look_at_libc(const TracedProcess& process) {
  const std::vector<MappedRange> mappings = process.mappings();
  check_libc(process, mappings);
  const MappedRange& libc = libc_of_program(process, mappings);
  const RemoteSymbols symbols(process, libc.begin);
  TargetLibc result;
  result.open_library = symbols.function("dlopen");
  result.last_error = symbols.function("dlerror");
  result.error_place = symbols.function("__errno_location");
  result.fork_lock = symbols.function("_IO_list_lock");
  result.fork_unlock = symbols.function("_IO_list_unlock");
  result.idle = symbols.function("getpid");
  result.wait = {symbols.function("setcontext"), symbols.function("syscall")};
  if (result.open_library == 0) {
    result.open_library = symbols.function("__libc_dlopen_mode");
    result.open_mode |= kLoadAsDlopen;
  }
  read_code(process, mappings, libc, &result.code);
  if (result.open_library == 0 || result.code.system_call == 0 || result.code.signal_return == 0)
    throw AttachError("the libc of " + process.name() + " (" + libc.path +
                      ") is unknown to culprit: start the program with culprit run");
  result.loader_data = loader_data(process, mappings);
  result.loading = LoadingLock(process, mappings);
  return result;
}

}  // namespace culprit::report
