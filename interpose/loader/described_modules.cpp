#include "interpose/loader/described_modules.h"

#include <cstdint>

#include "interpose/base/elf_symbols.h"
#include "interpose/base/placement.h"

namespace culprit {
namespace {

struct Described {
  ElfModule module;
  const char* name;
  const ElfW(Phdr) * headers;
  ElfW(Half) header_count;
};

// A program of C has so many. The others lie apart: most processes touch no page of them.
constexpr std::uint32_t kFew = 5;
constexpr std::uint32_t kMost = 128;
CULPRIT_AT_LOAD Described few[kFew];
Described others[kMost - kFew];
CULPRIT_AT_LOAD std::uint32_t described_count;
CULPRIT_AT_LOAD bool some_undescribed;
__thread bool keeps_descriptions __attribute__((tls_model("initial-exec")));

Described& described_at(std::uint32_t number) { return number < kFew ? few[number] : others[number - kFew]; }

// No lambda: as part of a template it would lie apart from the code of loading.
CULPRIT_LOADING int keep_one(struct dl_phdr_info* info, std::size_t, void* complete) {
  ElfModule module;
  if (!describe_module(*info, &module)) {
    some_undescribed = true;
    return 0;
  }
  *static_cast<bool*>(complete) = described_count < kMost;
  if (described_count == kMost) return 1;
  described_at(described_count++) = {module, info->dlpi_name, info->dlpi_phdr, info->dlpi_phnum};
  return 0;
}

struct DescribedVisit {
  DescribedVisitor visit;
  void* data;
};

int describe_and_visit(struct dl_phdr_info* info, std::size_t, void* data) {
  const auto* with = static_cast<const DescribedVisit*>(data);
  ElfModule module;
  return describe_module(*info, &module) && with->visit(module, *info, with->data) ? 1 : 0;
}

}  // namespace

CULPRIT_LOADING KeptDescriptions::KeptDescriptions(bool wanted) : keeps_(wanted) {
  if (!keeps_.done()) return;
  described_count = 0;
  bool complete = false;
  visit_modules(keep_one, &complete);
  keeps_descriptions = complete;
}

CULPRIT_LOADING KeptDescriptions::~KeptDescriptions() { keeps_descriptions = false; }

bool all_are_described() { return keeps_descriptions && !some_undescribed; }

CULPRIT_LOADING bool visit_described(DescribedVisitor visit, void* data) {
  DescribedVisit with = {visit, data};
  if (CULPRIT_LIKELY(!keeps_descriptions)) return visit_modules(describe_and_visit, &with) != 0;
  for (std::uint32_t i = 0; i < described_count; ++i) {
    const Described& known = described_at(i);
    struct dl_phdr_info info = {};
    info.dlpi_addr = known.module.load_bias;
    info.dlpi_name = known.name;
    info.dlpi_phdr = known.headers;
    info.dlpi_phnum = known.header_count;
    if (visit(known.module, info, data)) return true;
  }
  return false;
}

}  // namespace culprit
