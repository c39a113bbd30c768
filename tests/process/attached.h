// Helpers for the tests of `culprit attach`, whose process runs without the library at first.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/support/run_preloaded.h"

namespace culprit::test {

// A field of /proc/PID/status; empty if there is none.
std::string status_of(pid_t pid, const std::string& field);

// Checks that no thread is traced or stopped.
void check_runs_alone(pid_t pid);

// Each byte is an order to the subject. Waits until it has carried out all of them.
void tell(pid_t pid, const std::string& bytes);
// Orders that many leaks.
void tell(pid_t pid, int leaks);

// Whether this machine lets a process trace its child; some sandboxes do not. Prints a warning then.
bool may_trace();

// Runs a subject without the library and calls `work` once it is ready.
Run run_alone(const std::string& subject, const std::vector<std::string>& arguments,
              const std::function<void(pid_t)>& work);

// Attaches, calls `meanwhile`, and detaches; both must succeed. The dump stays.
void attach_and_detach(pid_t pid, const std::string& dump, const std::function<void()>& meanwhile = {});

// Checks that the subject ended as it does alone.
void check_fine(const Run& run);

}  // namespace culprit::test
