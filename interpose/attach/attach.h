// `culprit attach` and `culprit detach` inside the process: recording begins and ends while the program runs.
//
//     attach   dump made -> driver's addresses replaced by our hooks, which only pass calls on -> recording on
//     detach   recording off -> addresses put back -> once no thread is in a hook any more, all memory is given back
//
// This order guarantees that the free of every recorded allocation is seen too. The library stays mapped after a
// detach: a hook's address that the program copied still leads to the driver.
#pragma once

namespace culprit {

// Replaces slots of modules that were loaded since the attach. Cheap when there are none; keeps errno.
void look_at_new_modules();

}  // namespace culprit
