// Whether `culprit attach` has taken hold of this process, and with which request.
#pragma once

#include "interpose/format/attach_request.h"
#include "interpose/format/dump_format.h"
#include "interpose/process/options.h"

namespace culprit {

// Whether this process is attached; an attach to its fork parent does not count. Thread-safe.
bool attached_here();

// From now on this process is attached, and `request` is kept; or it is attached no more. One caller at a time.
void set_attached(const format::AttachRequest& request);
void set_detached();

// The request of the present attach, or of the last one.
const format::AttachRequest& attach_request();

// How the present attach sees calls, as the dump's header says it.
format::Attached attached_how();

// Options given to `culprit attach` override the environment's. Does nothing when the process is not attached.
void apply_attach_options(Options* options);

}  // namespace culprit
