// Protects the program when the dump file loses bytes while it runs (truncate, a full disk after a hole was punched, an
// unmounted or failed file system): access to the mapping then raises SIGBUS in the program's thread, which would end
// it.
//
// Decision: a handler for SIGBUS, which replaces the lost pages by private memory, marks recording as stopped and
// returns, so that the program is not affected.
//
// Alternatives, and why not:
//   - writing with pwrite(2) instead of a mapping: a system call for each event, and no complete dump after SIGKILL;
//   - a memfd sealed against shrinking: it is lost when the program is killed;
//   - a lease (F_SETLEASE): truncate(2) then waits for us, and the notification is a signal as well;
//   - mandatory locks: removed from Linux 5.15; userfaultfd: reports no missing bytes of files;
//   - checking the file's size before each event: a system call, and the file may still shrink before the store.
//
// Effects on the program: SIGBUS has a handler from the first CUDA call on. A SIGBUS elsewhere still ends the program:
// the handler restores the default action, and the signal is raised again. If the program has a handler, or ignores the
// signal, that stays, and the dump is not guarded. A handler that the program installs later replaces ours; Go's
// runtime and others that chain to the old handler call ours for faults that are not theirs. exec() resets it like
// every handler. In a fork child the handler ignores the dump until the child has its own.
//
// A program that asks for its action, sigaction(SIGBUS, NULL, &old), gets our handler instead of SIG_DFL. This stays
// so. An exported sigaction() that answers SIG_DFL was tried: signal() gave our handler still, which calls libc's own
// sigaction inside libc, as do sigset() and others; so did the system call, which Go's runtime makes itself, and SigCgt
// of /proc/self/status. And we would stand in front of a function that sanitizers and libjsig interpose, in every
// process. No program is known that changes its behaviour for a handler that it did not install; it may save ours and
// restore it later.
//
// Not guarded: a thread that has SIGBUS blocked (the kernel then ends the process despite the handler), and
// MADV_POPULATE or system calls of others into our memory, which fail with an error instead.
#pragma once

#include <cstdint>

namespace culprit {

class DumpWriter;

// Installs the handler for `dump` if SIGBUS has its default action. Call when the dump was created.
void guard_dump(DumpWriter& dump);

// Additionally guards `bytes` at `begin`, a mapping of another file: a lost page of it is replaced by one of zeros, and
// recording goes on. One mapping at a time; nullptr: none, call that before the mapping is removed.
void guard_mapping(void* begin, std::uint64_t bytes);

// Call before the dump is unmapped. Removes the handler if it is still ours.
void unguard_dump();

}  // namespace culprit
