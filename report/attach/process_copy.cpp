#include "report/attach/process_copy.h"

#include <sstream>
#include <string>
#include <vector>

#include "report/attach/remote_symbols.h"
#include "report/proc/loaded_library.h"

namespace culprit::report {

std::uint64_t place_of_variable(const TracedProcess& process, const char* name) {
  const std::vector<MappedRange> mappings = process.mappings();
  const MappedRange* library = find_loaded(mappings, {"libculprit.so"});
  if (library == nullptr) throw AttachError("libculprit.so is not loaded in " + process.name());
  const std::uint64_t place = RemoteSymbols(process, library->begin).variable(name);
  if (place != 0) return place;
  throw AttachError("the libculprit.so in " + process.name() + " is of another version: it has no " + name);
}

std::optional<pid_t> find_copy(const TracedProcess& process, std::int32_t number) {
  for (const pid_t thread : process.threads()) {
    std::istringstream children(process.thread(thread).text("children"));
    for (std::uint32_t child = 0; children >> child;) {
      if (innermost_number(ProcessFolder("/proc", child)) == static_cast<std::uint32_t>(number))
        return static_cast<pid_t>(child);
    }
  }
  return std::nullopt;
}

}  // namespace culprit::report
