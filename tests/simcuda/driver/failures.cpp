#include "tests/simcuda/driver/failures.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tests/simcuda/driver/errors.h"

unsigned char simcuda_failures_armed = 0;

namespace simcuda {
namespace {

struct Rule {
  std::string function;  // "cuMemAlloc" means every version and twin of it, "cuMemAlloc_v2" that one only
  unsigned long nth;
  CUresult code;
  std::atomic<unsigned long> calls{0};
};

std::vector<Rule*>* rules;

// "cuMemcpyDtoH_v2_ptds" -> "cuMemcpyDtoH"
std::string versionless(std::string name) {
  for (const char* suffix : {"_ptsz", "_ptds"}) {
    if (name.size() > 5 && name.compare(name.size() - 5, 5, suffix) == 0) name.resize(name.size() - 5);
  }
  if (name.size() > 3 && name.compare(name.size() - 3, 2, "_v") == 0) name.resize(name.size() - 3);
  return name;
}

__attribute__((constructor)) void read_rules() {
  const char* text = getenv("SIMCUDA_FAIL");
  if (text == nullptr || *text == '\0') return;
  rules = new std::vector<Rule*>;
  std::string all = text;
  for (std::size_t begin = 0; begin <= all.size();) {
    std::size_t end = all.find(',', begin);
    if (end == std::string::npos) end = all.size();
    std::string rule = all.substr(begin, end - begin);
    begin = end + 1;
    std::size_t first = rule.find(':');
    std::size_t second = first == std::string::npos ? first : rule.find(':', first + 1);
    CUresult code = CUDA_SUCCESS;
    unsigned long nth = 0;
    if (second != std::string::npos) {
      nth = strtoul(rule.c_str() + first + 1, nullptr, 10);
      code = error_from_text(rule.c_str() + second + 1);
    }
    if (nth == 0 || code == CUDA_SUCCESS) {
      // A mistyped rule would make a test pass for the wrong reason.
      fprintf(stderr, "simcuda: SIMCUDA_FAIL: cannot understand \"%s\" (function:n:code)\n", rule.c_str());
      _Exit(125);
    }
    rules->push_back(new Rule{rule.substr(0, first), nth, code});
  }
  simcuda_failures_armed = 1;
}

}  // namespace
}  // namespace simcuda

CUresult simcuda_injected_failure(const char* name) {
  if (simcuda::rules == nullptr) return CUDA_SUCCESS;
  std::string plain = simcuda::versionless(name);
  CUresult result = CUDA_SUCCESS;
  for (simcuda::Rule* rule : *simcuda::rules) {
    if (rule->function != name && rule->function != plain) continue;
    if (rule->calls.fetch_add(1) + 1 == rule->nth) result = rule->code;
  }
  return result;
}
