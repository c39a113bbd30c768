#include "report/commands/leak_views.h"

#include <exception>
#include <utility>

#include "report/keepers/keeper_growth.h"

namespace culprit::report {
namespace {

constexpr std::chrono::seconds kUntilSecond{5};
constexpr std::chrono::seconds kLeastBetween{1};

std::vector<Keeper> keepers_of(const TensorsView& view) {
  std::vector<Keeper> keepers;
  for (const CacheInside& inside : view.caches) keepers.insert(keepers.end(), inside.kept.begin(), inside.kept.end());
  return keepers;
}

}  // namespace

void LeakViews::look(pid_t pid) {
  const Clock::time_point now = Clock::now();
  if (begun_ && (now - *begun_ < kUntilSecond || now - *begun_ < 2 * (tried_ - *begun_))) return;
  take(pid);
}

void LeakViews::look_at_the_end(pid_t pid) {
  if (begun_ && Clock::now() - tried_ >= kLeastBetween) take(pid);
}

void LeakViews::take(pid_t pid) {
  tried_ = Clock::now();
  if (!begun_) begun_ = tried_;
  try {
    (first_ ? last_ : first_) = Timed{tensors_of(std::to_string(pid), ProcessLimits()), tried_};
    problem_.clear();
  } catch (const std::exception& error) {
    if (!first_) problem_ = error.what();
  }
}

std::vector<GrownKeeper> LeakViews::grown() const {
  if (!first_) return {};
  const std::vector<Keeper> before = keepers_of(first_->view);
  if (last_) return grown_keepers(before, keepers_of(last_->view));
  std::vector<GrownKeeper> same;
  same.reserve(before.size());
  for (const Keeper& keeper : before) same.push_back({keeper, keeper.bytes, keeper.bytes});
  return same;
}

double LeakViews::seconds() const { return last_ ? std::chrono::duration<double>(last_->at - first_->at).count() : 0; }

}  // namespace culprit::report
