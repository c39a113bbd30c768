// What happens when somebody takes the dump's bytes away while the program runs (truncate, a full disk after a hole was
// punched, a file system that goes): touching the mapping is a SIGBUS in the program's thread then, which would end it.
//
// Decision: a handler for SIGBUS, which puts private memory in the place of what is gone, marks recording as stopped
// and returns, so that the program never notices.
//
// Alternatives, and why not:
//   - writing with pwrite(2) instead of a mapping: a system call for each event, and no live image after SIGKILL;
//   - a memfd sealed against shrinking: it is gone when the program is killed;
//   - a lease (F_SETLEASE): truncate(2) waits for us then, and we learn of it by a signal all the same;
//   - mandatory locks: removed from Linux 5.15; userfaultfd: reports no missing bytes of files;
//   - looking at the file's size before each event: a system call, and still too late for the store behind it.
//
// What the program sees of it: SIGBUS has a handler where it had none, from the first CUDA call on. Its own way of
// dying from a SIGBUS stays: any signal that is not about the dump gets the default action back and takes place again.
// A program that has a handler, or ignores the signal, keeps that, and the dump is not guarded. A program that installs
// one later replaces ours; Go's runtime and others that ask for the former one call ours for what is not theirs. exec()
// resets it like every handler. In a fork child it does nothing until the child has a dump of its own.
//
// Not guarded: a thread that has SIGBUS blocked (the kernel then ends the process whatever the handler says), and
// MADV_POPULATE or system calls of others into our memory, which fail with an error instead.
#pragma once

namespace culprit {

class DumpWriter;

// Installs the handler if SIGBUS has its default action, and lets it look after `dump`. Call when the dump was made.
void guard_dump(DumpWriter& dump);

// Before the dump is unmapped. Takes the handler away if it is still ours.
void unguard_dump();

}  // namespace culprit
