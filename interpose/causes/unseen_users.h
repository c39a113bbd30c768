// Who calls the driver past our hooks, looked for when the process ends, so that a report never says of such a program
// that nothing leaked.
//
//     dlopen(RTLD_DEEPBIND)   the library finds libc's dlsym and libcuda's functions before ours: its slots and its
//     data
//                             hold addresses that only who passed us by can have
//     dlmopen(LM_ID_NEWLM)    the library has a libc and a libcuda of its own, where none of our symbols is looked for
//     own look-up             addresses as above
//
// Found are addresses in slots that the loader fills and in the data of modules, not those on the heap or a stack, and
// nothing of a library that was unloaded again.
#pragma once

#include <link.h>

#include <cstdint>

namespace culprit {

struct ElfModule;
struct Process;

// Looks, and writes into the dump's header what was found. Takes the loader's lock for a moment, milliseconds in all.
// Changes errno. Call it once, when exit handlers run.
void note_unseen_users(Process& process);

// Whether this process, in which no hook was ever called, has a user of the driver all the same. Where there is no
// libcuda it costs a walk over the list of modules. Not in a fork child: takes the loader's lock, which another thread
// of the parent may have held.
bool has_unseen_users();

// Whether a module's addresses of the driver are nobody's calls: libcuda itself, NVIDIA's tools, libc, this library.
bool may_know_the_driver(const struct dl_phdr_info& info, const ElfModule& module);

}  // namespace culprit
