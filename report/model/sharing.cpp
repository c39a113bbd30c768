#include "report/model/sharing.h"

namespace culprit::report {

const char* sharing_type_name(format::SharingType type) {
  switch (type) {
    case format::SharingType::kIpcHandle:
      return "ipc-handle";
    case format::SharingType::kFileDescriptor:
      return "file-descriptor";
    case format::SharingType::kFabricHandle:
      return "fabric-handle";
    case format::SharingType::kPoolPointer:
      return "pool-pointer";
    case format::SharingType::kNone:
      break;
  }
  return "unknown";
}

const char* shared_state_name(SharedState state) {
  switch (state) {
    case SharedState::kStays:
      return "stays";
    case SharedState::kOpen:
      return "open";
    case SharedState::kExporterUnknown:
      break;
  }
  return "exporter-unknown";
}

}  // namespace culprit::report
