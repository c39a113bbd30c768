// Finds libraries that call the driver past our hooks, when the process ends, so that a report does not claim "no
// leaks" for such a program.
//
//     dlopen(RTLD_DEEPBIND)   the library finds libc's dlsym and libcuda's functions before ours: its slots and data
//                             hold addresses that only a library past our hooks can have
//     dlmopen(LM_ID_NEWLM)    the library has its own libc and libcuda, and our symbols are not looked up there
//     own look-up             addresses as above
//
// The search covers slots that the loader fills and the data of loaded modules. It does not cover heap, stacks, and
// unloaded libraries.
#pragma once

#include <link.h>

#include <cstdint>

namespace culprit {

struct ElfModule;
struct Process;

// Searches, and stores the result in the dump's header. Holds the loader's lock for a moment; takes milliseconds in
// all. Changes errno. Call once, when exit handlers run.
void note_unseen_users(Process& process);

// For a process in which no hook was called: whether a library uses the driver past the hooks. Without libcuda it costs
// a walk over the list of modules. Do not call in a fork child: it takes the loader's lock, which another thread of the
// parent may have held.
bool has_unseen_users();

// Whether has_unseen_users() has anything to look at: libcuda, or a second namespace of the loader. Takes little of the
// stack, unlike has_unseen_users(), which runs on the tracker's own.
bool may_have_unseen_users();

// Whether a module may hold the driver's addresses without calling it: libcuda itself, NVIDIA's tools, libc, this
// library.
bool may_know_the_driver(const struct dl_phdr_info& info, const ElfModule& module);

}  // namespace culprit
