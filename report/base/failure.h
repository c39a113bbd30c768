// The message for an exception that ends a command, also for one without words of its own, such as a lack of memory.
#pragma once

#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>

#include "report/base/exit_codes.h"
#include "report/base/printable.h"

namespace culprit::report {

inline constexpr char kNoMemory[] = "more memory is needed than there is (see ulimit -v)";

// The exit code of a process that ends because it cannot go on. `culprit run` changes it when its program has ended:
// the program's exit code comes first.
inline std::atomic<int> exit_code_of_failure{kExitUnreadable};

// The message "culprit: " and kNoMemory on standard error, for a process that cannot allocate. Safe in a handler.
inline void write_without_memory() noexcept {
  constexpr std::string_view kParts[] = {"culprit: ", kNoMemory, "\n"};
  iovec parts[std::size(kParts)];
  for (std::size_t i = 0; i < std::size(kParts); ++i)
    parts[i] = {const_cast<char*>(kParts[i].data()), kParts[i].size()};
  [[maybe_unused]] const ssize_t written = ::writev(STDERR_FILENO, parts, std::size(kParts));
}

[[noreturn]] inline void end_without_memory() noexcept {
  write_without_memory();
  ::_exit(exit_code_of_failure);
}

// For std::set_terminate(): a lack of memory where no exception can leave (a destructor, the making of a static object)
// is a message and exit_code_of_failure, like any other. Other reasons abort.
[[noreturn]] inline void end_at_terminate() noexcept {
  constexpr std::size_t kAnExceptionIsSmaller = 1 << 20;
  if (std::current_exception() == nullptr) {
    // There may have been no memory for the exception itself.
    if (std::malloc(kAnExceptionIsSmaller) == nullptr) end_without_memory();
    std::abort();
  }
  try {
    throw;
  } catch (const std::bad_alloc&) {
    end_without_memory();
  } catch (...) {
  }
  std::abort();
}

// The words of an exception, as they are. Allocates nothing: valid as long as the exception.
inline const char* failure_words(const std::exception& error) noexcept {
  // A container that would be larger than any memory is std::length_error.
  const bool no_memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
                         dynamic_cast<const std::length_error*>(&error) != nullptr;
  return no_memory ? kNoMemory : error.what();
}

// One line for a reader. Thread-safe.
inline std::string failure_text(const std::exception& error) { return printable_lines(failure_words(error)); }

}  // namespace culprit::report
