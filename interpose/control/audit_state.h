// Whether the audit was asked for (CULPRIT_AUDIT), and how it stands. The audit itself is in attach/audit.cpp.
#pragma once

#include <cstdint>

#include "interpose/format/dump_file.h"

namespace culprit {

struct Process;

// Whether the environment asked for the audit when this was called first. For calls before a recording has read its
// options, and with recording off.
bool is_audit_asked();

// For the hook of cuInit: begins the audit, once, if it was asked for. On the program's stack, because it loads CUPTI,
// as cuInit itself loads libraries.
void begin_audit();

// From now on the audit stands like this. Stored in the dump, if there is one. Thread-safe.
void set_audit_state(format::AuditState state, std::int32_t error);
format::AuditState audit_state();

// Stores the state in the dump of a recording that begins.
void note_audit_state(Process& process);

}  // namespace culprit
