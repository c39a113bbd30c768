#include "report/load/gpu_answers.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "report/base/file_error.h"
#include "report/base/input_file.h"
#include "report/base/json_input.h"
#include "report/base/json_output.h"
#include "report/base/output_file.h"
#include "report/dump/side_files.h"

namespace culprit::report {
namespace {

using Json = nlohmann::json;

constexpr char kSchema[] = "culprit.gpu/1";
constexpr std::uint64_t kMostFileBytes = 4 << 20;
constexpr std::size_t kMostAnswers = 64;
constexpr std::size_t kMostOthers = 256;
constexpr std::size_t kLongestText = 4096;
constexpr std::uint64_t kMostBytes = 1ULL << 56;  // sums do not overflow

// At most so many bytes of a text that a reader sees.
std::string short_text_of(const Json& json, const char* name) { return text_of(json, name).substr(0, kLongestText); }

bool read_bytes(const Json& json, const char* name, std::uint64_t* bytes) {
  const auto at = json.find(name);
  if (at == json.end() || !at->is_number_unsigned() || at->get<std::uint64_t>() >= kMostBytes) return false;
  *bytes = at->get<std::uint64_t>();
  return true;
}

GpuAnswer answer_of(const Json& json) {
  GpuAnswer answer;
  answer.device = static_cast<unsigned>(std::min<std::uint64_t>(number_of(json, "device"), format::kNoDevice));
  GpuCharges& charges = answer.charges;
  charges.asked_ns = number_of(json, "asked_ns");
  charges.after_end = flag_of(json, "after_end");
  charges.problem = short_text_of(json, "problem");
  charges.foreign_numbers = flag_of(json, "foreign_numbers");
  charges.own_known = read_bytes(json, "own_bytes", &charges.own_bytes);
  charges.left_out = number_of(json, "left_out");
  const auto others = json.find("others");
  if (others == json.end() || !others->is_array()) return answer;
  for (const Json& one : *others) {
    if (!one.is_object() || charges.others.size() == kMostOthers) continue;
    ChargedProcess process;
    process.pid = static_cast<std::uint32_t>(std::min<std::uint64_t>(number_of(one, "pid"), UINT32_MAX));
    process.name = short_text_of(one, "name");
    process.bytes_known = read_bytes(one, "bytes", &process.bytes);
    charges.others.push_back(std::move(process));
  }
  return answer;
}

Json json_of(const GpuAnswer& answer) {
  const GpuCharges& charges = answer.charges;
  Json one = {{"device", answer.device},
              {"asked_ns", charges.asked_ns},
              {"after_end", charges.after_end},
              {"problem", charges.problem},
              {"foreign_numbers", charges.foreign_numbers},
              {"left_out", charges.left_out},
              {"others", Json::array()}};
  if (charges.own_known) one["own_bytes"] = charges.own_bytes;
  for (const ChargedProcess& process : charges.others) {
    Json other = {{"pid", process.pid}, {"name", process.name}};
    if (process.bytes_known) other["bytes"] = process.bytes;
    one["others"].push_back(std::move(other));
  }
  return one;
}

}  // namespace

std::string gpu_answers_path(const std::string& dump_path) { return dump_path + kGpuAnswersEnding; }

void write_gpu_answers(const std::string& dump_path, const format::Header& header,
                       const std::vector<GpuAnswer>& answers) {
  Json json = {{"schema", kSchema},
               {"pid", header.pid},
               {"start_realtime_ns", header.start_realtime_ns},
               {"answers", Json::array()}};
  for (const GpuAnswer& answer : answers) json["answers"].push_back(json_of(answer));
  OutputFile file(gpu_answers_path(dump_path), dump_path);
  file.stream() << json_text(json, 1) << "\n";
  file.commit();
}

std::vector<GpuAnswer> read_gpu_answers(const Dump& dump, std::string* problem) {
  std::vector<GpuAnswer> answers;
  const std::string path = gpu_answers_path(dump.path());
  const InputFile input = open_input(path);
  if (!input.file.is_open()) {
    if (input.error == 0) *problem = path + " " + input.problem + ", and was left out";
    return answers;
  }
  if (input.bytes > kMostFileBytes) {
    *problem = path + " is larger than NVML's answers can be, and was left out";
    return answers;
  }
  Json json;
  try {
    json = parse_json(read_input(input, path));
  } catch (const FileError& error) {
    *problem = std::string(error.what()) + ", and was left out";
    return answers;
  }
  if (!json.is_object() || text_of(json, "schema") != kSchema) {
    *problem = path + " has no answers of NVML (schema " + kSchema + "), and was left out";
    return answers;
  }
  // Of an earlier dump of this name.
  if (number_of(json, "pid") != dump.header().pid ||
      number_of(json, "start_realtime_ns") != dump.header().start_realtime_ns)
    return answers;
  const auto list = json.find("answers");
  if (list == json.end() || !list->is_array()) return answers;
  for (const Json& one : *list) {
    if (one.is_object() && answers.size() < kMostAnswers) answers.push_back(answer_of(one));
  }
  std::stable_sort(answers.begin(), answers.end(), [](const GpuAnswer& left, const GpuAnswer& right) {
    return left.charges.asked_ns < right.charges.asked_ns;
  });
  return answers;
}

}  // namespace culprit::report
