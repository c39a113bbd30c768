// The exit codes of the culprit command. Scripts rely on them: never renumber.
#pragma once

namespace culprit::report {

constexpr int kExitFine = 0;
constexpr int kExitFound = 1;       // --fail-on found something (or --error-exitcode N instead of 1)
constexpr int kExitUsage = 2;       // unknown option, missing argument
constexpr int kExitUnreadable = 3;  // an input cannot be read, an output cannot be written, libculprit.so is missing
constexpr int kExitNotKnown = 4;    // a gate was asked for, and not all was recorded; or no hook was ever called
constexpr int kExitNotExecutable =
    126;  // `run`: the command exists but cannot be started (the same code as env(1) and shells)
constexpr int kExitNotFound = 127;   // `run`: there is no such command
constexpr int kExitSignalled = 128;  // `run`: plus the number of the signal that ended the command, as shells count

}  // namespace culprit::report
