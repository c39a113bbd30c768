// The JSON values of this folder: members keep their order.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace culprit::report {

using Json = nlohmann::ordered_json;

}  // namespace culprit::report
