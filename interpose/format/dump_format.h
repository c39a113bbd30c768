// The layout of a dump: the interface between libculprit.so, which writes it, and the culprit command, which reads it.
//
// A dump is the tracker's own memory. The file is mapped shared into the target from its first CUDA call on, so there
// is no "write at exit" to lose: after SIGKILL the file holds everything up to the last finished call, and while the
// target runs any reader can open the same file.
//
//     0          4096                                              header.file_bytes
//     +----------+----------------+----------------+-- ... --+-------+
//     |  Header  | chunk          | chunk          |         | chunk |
//     +----------+----------------+----------------+-- ... --+-------+
//                 ChunkHeader (64 B), then records of one type, the chunk padded to a multiple of 4096 bytes
//
// All numbers are little-endian and of fixed width; there are no pointers. A record refers to another one by a Ref: the
// other record's offset in the file divided by 16, or 0 for "none". A reader must treat every offset, count and Ref as
// hostile input. A tail of zeros in a chunk was reserved and never written; that is no error.
//
// Publishing: a record whose first field is `state` is valid when state is not zero. The writer fills the other fields
// first and stores `state` last, with release order; it clears `state` before it re-uses a record. The upper bits of
// `state` are a generation: a reader of a running target copies the record, re-reads `state` and drops the copy if the
// value changed. Records without `state` (strings, stacks, modules) are written before the chunk's `used` is advanced,
// and never change afterwards, except for the counters marked "live".
//
// Versions
//   1   first version
#pragma once

#include "interpose/format/chunks.h"        // one row for each type of chunk
#include "interpose/format/dump_balance.h"  // what the driver took by itself
#include "interpose/format/dump_causes.h"   // why something was not freed
#include "interpose/format/dump_file.h"     // the header and the chunks
#include "interpose/format/dump_marks.h"    // moments that the program named
#include "interpose/format/dump_records.h"  // allocations, stacks, modules, threads, contexts, devices
#include "interpose/format/dump_sharing.h"  // memory that processes hand to one another
