#include "report/attach/target_libc.h"

#include <algorithm>
#include <cerrno>
#include <string>

#include "report/attach/loader_locks.h"
#include "report/attach/program_kind.h"
#include "report/attach/remote_symbols.h"

namespace culprit::report {
namespace {

constexpr std::uint64_t kLoadAsDlopen = 0x80000000;  // additionally required by __libc_dlopen_mode

bool is_part_of(const MappedRange& range, const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return range.file_begins_with(name); });
}

void read_code(const TracedProcess& process, const std::vector<MappedRange>& mappings,
               const std::vector<std::string>& names, ReturnCode* code) {
  for (const MappedRange& range : mappings) {
    if (!range.executable || !is_part_of(range, names)) continue;
    std::vector<unsigned char> bytes(range.end - range.begin);
    if (!process.read_memory(range.begin, bytes.data(), bytes.size())) process.explain_refusal(errno);
    find_return_code(bytes, range.begin, code);
  }
}

}  // namespace

TargetLibc look_at_libc(const TracedProcess& process) {
  const std::vector<std::string> libc_names = {"libc.so.6", "libc-2."};
  const std::vector<MappedRange> mappings = process.mappings();
  check_libc(process, mappings);
  const RemoteModule libc = find_module(process, mappings, libc_names);
  TargetLibc result;
  result.open_library = find_function(libc, "dlopen");
  result.last_error = find_function(libc, "dlerror");
  result.error_place = find_function(libc, "__errno_location");
  result.fork_lock = find_function(libc, "_IO_list_lock");
  result.fork_unlock = find_function(libc, "_IO_list_unlock");
  result.idle = find_function(libc, "getpid");
  result.wait = {find_function(libc, "setcontext"), find_function(libc, "syscall")};
  if (result.open_library == 0) {
    result.open_library = find_function(libc, "__libc_dlopen_mode");
    result.open_mode |= kLoadAsDlopen;
  }
  read_code(process, mappings, libc_names, &result.code);
  if (result.open_library == 0 || result.code.system_call == 0 || result.code.signal_return == 0)
    throw AttachError("the libc of " + process.name() + " (" + libc.path +
                      ") is unknown to culprit: start the program with culprit run");
  result.loader_data = loader_data(mappings);
  return result;
}

}  // namespace culprit::report
