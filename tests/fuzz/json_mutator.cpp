// The mutator of the targets that read JSON: changes a JSON text at one place, so that it stays JSON. Text that is no
// JSON is changed by bytes.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz.h"

namespace {

// With the order of its members: a merged file is known by its beginning.
using Json = nlohmann::ordered_json;

void collect(Json* json, std::vector<Json*>* all) {
  all->push_back(json);
  if (!json->is_structured()) return;
  for (Json& one : *json) collect(&one, all);
}

Json other_value(std::mt19937* random) {
  switch ((*random)() % 10) {
    case 0:
      return nullptr;
    case 1:
      return 0;
    case 2:
      return (*random)() % 8;
    case 3:
      return ~std::uint64_t{0} >> ((*random)() % 64);
    case 4:
      return -static_cast<std::int64_t>((*random)() % 1000);
    case 5:
      return true;
    case 6:
      return std::string("x\x1b[31m\u202e", (*random)() % 9);
    case 7:
      return Json::array();
    case 8:
      return Json::object();
    default:
      return 1.5;
  }
}

void change(Json* json, const std::vector<Json*>& all, std::mt19937* random) {
  switch ((*random)() % 5) {
    case 0:
      *json = other_value(random);
      break;
    case 1:
      *json = Json(*all[(*random)() % all.size()]);
      break;
    case 2:  // one element fewer
      if (json->is_structured() && !json->empty())
        json->erase(std::next(json->begin(), static_cast<std::ptrdiff_t>((*random)() % json->size())));
      break;
    case 3:  // one element more
      if (json->is_array() && !json->empty()) json->push_back(Json((*json)[(*random)() % json->size()]));
      break;
    default:
      if (json->is_number_unsigned()) *json = json->get<std::uint64_t>() + (*random)() % 3 - 1;
      break;
  }
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most,
                                               unsigned int seed) {
  std::mt19937 random(seed);
  Json json = Json::parse(data, data + size, nullptr, false);
  if (json.is_discarded() || random() % 16 == 0) return LLVMFuzzerMutate(data, size, most);
  std::vector<Json*> all;
  collect(&json, &all);
  for (unsigned changes = 1 + random() % 4; changes > 0; --changes) {
    change(all[random() % all.size()], all, &random);
    all.clear();  // some are gone
    collect(&json, &all);
  }
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > most) return LLVMFuzzerMutate(data, size, most);
  std::copy(text.begin(), text.end(), data);
  return text.size();
}
