// A library that called the driver past the hooks.
#include "report/findings/finding.h"
#include "report/model/not_recorded.h"
#include "report/model/report.h"

namespace culprit::report {
namespace {

void collect_unseen_user(const Report& report, std::vector<Finding>* list) {
  for (const UnseenUser& user : report.unseen) add_finding(FindingKind::kUnseenUser, unseen_text(user), list);
}

}  // namespace

const CollectFindings kUnseenUserFinding = collect_unseen_user;

}  // namespace culprit::report
