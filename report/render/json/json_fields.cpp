#include "report/render/json/json_fields.h"

#include <nlohmann/json.hpp>

namespace culprit::report {

Json* JsonFields::member(const char* name) { return &(*object_)[name]; }

void JsonFields::make_object(Json* json) { *json = Json::object(); }

void JsonFields::make_list(Json* json) { *json = Json::array(); }

Json* JsonFields::append(Json* list) {
  list->push_back(Json());
  return &list->back();
}

void JsonFields::write(bool value, Json* json) { *json = value; }

void JsonFields::write(std::int64_t value, Json* json) { *json = value; }

void JsonFields::write(std::uint64_t value, Json* json) { *json = value; }

void JsonFields::write(const char* text, Json* json) { *json = text; }

void JsonFields::write(const std::string& text, Json* json) { *json = text; }

void JsonFields::write(const ResolvedStack* stack, Json* json) const { *json = stack_to_json_(stack); }

}  // namespace culprit::report
