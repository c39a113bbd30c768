#include "report/model/questions.h"

#include <cctype>
#include <cstdint>

#include "report/cuda/kinds.h"
#include "report/model/pool.h"
#include "report/model/report.h"

namespace culprit::report {
namespace {

// Every default pool keeps a little; this much may be missed elsewhere.
constexpr std::uint64_t kWorthALink = std::uint64_t{64} << 20;

// The anchor that GitHub and GitLab make of a heading.
std::string anchor_of(const std::string& heading) {
  std::string anchor;
  for (const char c : heading) {
    if (c == ' ') anchor += '-';
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return anchor;
}

}  // namespace

std::string answer_link(Question question) {
  static constexpr const char* kHeadings[] = {
#define QUESTION(enumerator, heading) heading,
#include "report/model/questions.def"
  };
  return "examples/README.md#" + anchor_of(kHeadings[static_cast<std::size_t>(question)]);
}

std::set<Question> questions_of(const Report& report) {
  std::set<Question> questions;
  std::set<unsigned> devices;
  for (const Group& group : report.leaks) {
    if (group.cause == Cause::kCached) continue;
    if (group.cause == Cause::kContextTeardown) questions.insert(Question::kReset);
    if (kind_class(group.kind) == KindClass::kHostMemory) questions.insert(Question::kPinnedMemory);
    if (group.device) devices.insert(*group.device);
    devices.insert(group.devices.begin(), group.devices.end());
  }
  if (devices.size() > 1) questions.insert(Question::kWhichGpu);
  if (report.summary.thread_ended_bytes != 0) questions.insert(Question::kThreadEnd);
  for (const CacheTotal& cache : report.summary.caches) {
    if (cache.pool != nullptr && std::string(cache.pool->name).rfind("PyTorch", 0) == 0)
      questions.insert(Question::kPyTorchCache);
  }
  for (const DeviceInfo& device : report.devices) {
    if (device.pool_reserved >= device.pool_used + kWorthALink) questions.insert(Question::kMemoryNotCleared);
  }
  return questions;
}

}  // namespace culprit::report
