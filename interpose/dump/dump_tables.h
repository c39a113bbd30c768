// All tables of this folder: the part of Process (process/process.h) that belongs to it.
#pragma once

#include "interpose/dump/audit_table.h"
#include "interpose/dump/contexts.h"
#include "interpose/dump/event_tables.h"
#include "interpose/dump/graph_nodes.h"
#include "interpose/dump/live_table.h"
#include "interpose/dump/sharing_table.h"
#include "interpose/dump/thread_counters.h"
#include "interpose/dump/throw_table.h"
#include "interpose/dump/time_line.h"

namespace culprit {

struct DumpTables {
  ContextTable contexts;  // first, next to the other fields of Process that every call reads
  LiveTable live;
  GraphNodes graphs;
  ErrorTable errors;
  FailedCallTable failed_calls;
  CallChargeTable call_charges;
  SharingTable sharings;
  EvidenceTable evidence;
  ThrowTable throws;
  CancelTable cancels;
  ReleaseTable releases;
  ThreadTable threads;
  TimeLines time_lines;
  CounterBlocks counters;
  AuditTable audit;

  // Gives the memory of all indexes back. Not while other threads use the tables.
  void free_memory() {
    live.free_memory();
    graphs.free_memory();
    evidence.free_memory();
    throws.free_memory();
    releases.free_memory();
  }
};

}  // namespace culprit
