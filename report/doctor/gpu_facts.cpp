#include "report/doctor/gpu_facts.h"

#include <cstdio>

namespace culprit::report {

std::string pci_text(unsigned domain, unsigned bus, unsigned device) {
  char text[32];
  std::snprintf(text, sizeof(text), "%04x:%02x:%02x", domain, bus, device);
  return text;
}

}  // namespace culprit::report
