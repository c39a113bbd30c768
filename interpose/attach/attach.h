// `culprit attach` and `culprit detach`, seen from inside: recording that begins and ends while the program runs.
//
//     attach   dump made -> driver's addresses replaced by our hooks, which only pass calls on -> recording on
//     detach   recording off -> addresses put back -> once no thread is in a hook any more, all memory is given back
//
// The order sees to it that of everything that is recorded the free is seen too. The library itself stays mapped: an
// address of a hook that the program copied meanwhile leads through it to the driver.
#pragma once

#include "interpose/recorder/options.h"

namespace culprit {

// Whether this process, and not the one it was forked from, is attached.
bool attached_here();

// What `culprit attach` asked for, over what the environment says. Nothing when the process is not attached.
void apply_attach_options(Options* options);

// Modules that were loaded since the attach get their slots replaced too. Cheap when there are none; keeps errno.
void look_at_new_modules();

}  // namespace culprit
