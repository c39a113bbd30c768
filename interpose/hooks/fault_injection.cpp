#include "interpose/hooks/fault_injection.h"

#include <unistd.h>

#include <atomic>
#include "interpose/base/own_stack.h"
#include "interpose/base/placement.h"
#include "interpose/base/prepared.h"
#include "interpose/call_stack/current_stack.h"
#include "interpose/driver/fail_rules.h"
#include "interpose/hooks/hooks.h"
#include "interpose/process/recording.h"
#include "interpose/process/variables.h"

namespace culprit {
namespace {

FailRules rules;  // of the first call
Once rules_read;

// Calls that match each rule; the last element counts allocation calls. A fork child counts anew.
std::atomic<std::uint32_t> counts[FailRules::kMost + 1];
std::atomic<int> counting_pid;

void begin_counting() {
  int pid = static_cast<int>(getpid());
  int known = counting_pid.load();
  if (known == pid || !counting_pid.compare_exchange_strong(known, pid)) return;
  for (std::atomic<std::uint32_t>& count : counts) count.store(0);
}

std::uint64_t note_site(Api api, std::uint64_t number) {
  std::uint64_t site = 0;
  record_on_own_stack([&](Process& process) {
    site = process.stacks.sites.note(current_stack(process), static_cast<std::uint16_t>(api), number,
                                     process.stacks.modules, process.dump);
  });
  return site;
}

void count_injected() {
  record_on_own_stack([](Process& process) { add_counter(process.dump.header()->injected_failures, 1); });
}

// Whether this call must fail, and with which code.
bool fails(Api api, CUresult* code) {
  thread_state.failures.injected = false;
  begin_counting();
  std::uint64_t site = 0;
  if (allocates_memory(api)) {
    std::uint64_t number = counts[FailRules::kMost].fetch_add(1) + 1;
    if (rules.need_sites()) site = note_site(api, number);
  }
  for (int i = 0; i < rules.count; ++i) {
    const FailRule& rule = rules.rules[i];
    if (!rule.applies[static_cast<int>(api)]) continue;
    if (rule.kind == FailRule::Kind::kAllocationSite && rule.site != site) continue;
    if (counts[i].fetch_add(1) + 1 != rule.nth) continue;
    thread_state.failures.injected = true;
    *code = static_cast<CUresult>(rule.code);
  }
  // A process that does not record yet (cuInit was made to fail) gets no dump for this.
  if (thread_state.failures.injected && process_if_recording() != nullptr) count_injected();
  return thread_state.failures.injected;
}

#define HOOK_ANY(symbol, parameters, arguments)                                               \
  CUresult stub_##symbol parameters {                                                         \
    CUresult injected_code = CUDA_SUCCESS;                                                    \
    if (fails(Api::symbol, &injected_code)) return injected_code;                             \
    auto* call = reinterpret_cast<decltype(&::symbol)>(address_behind_stand_in(Api::symbol)); \
    return call == nullptr ? CUDA_ERROR_NOT_INITIALIZED : call arguments;                     \
  }
#include "interpose/driver/hooks.def"

void* stub_of(Api api) {
  rules_read.run([] {
    on_own_stack([] {
      const Variables variables;
      if (!parse_fail_rules(variables.value("CULPRIT_FAIL"), &rules)) rules = {};
    });
  });
  if (!rules.any()) return nullptr;
  switch (api) {
#define HOOK_ANY(symbol, ...) \
  case Api::symbol:           \
    return reinterpret_cast<void*>(&stub_##symbol);
#include "interpose/driver/hooks.def"
    case Api::kCount:
      break;
  }
  return nullptr;
}

}  // namespace

CULPRIT_LOADING void prepare_failures() { prepare_stand_ins(stub_of); }

}  // namespace culprit
