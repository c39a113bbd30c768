// culprit doctor: lists the processes that hold GPU memory now, and how to get it back.
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "report/base/environment.h"
#include "report/base/exit_codes.h"
#include "report/base/host_name.h"
#include "report/base/log.h"
#include "report/commands/commands.h"
#include "report/commands/output_options.h"
#include "report/cuda/library_names.h"
#include "report/doctor/explain.h"
#include "report/doctor/inside.h"
#include "report/doctor/kernel_log.h"
#include "report/doctor/mps.h"
#include "report/doctor/nvml.h"
#include "report/doctor/nvml_question.h"
#include "report/doctor/nvml_users.h"
#include "report/doctor/render_doctor_json.h"
#include "report/doctor/render_doctor_text.h"
#include "report/proc/driver_module.h"

namespace culprit::report {
namespace {

struct DoctorCommand {
  std::optional<unsigned> gpu;  // empty: all
  OutputOptions output;         // format and file only
};

// A copy of this process asks first: NVML may hang in a driver that is stuck.
NvmlFacts nvml_facts(const std::string& library) {
  NvmlQuestion question(kLongestOfDoctor);
  const GpuUsers users = ask_for_users(&question);
  if (!users.unanswered) return read_nvml(library);
  NvmlFacts facts;
  facts.problem = users.problem;
  return facts;
}

// Returns kExitFine; kExitUsage when there is no such GPU; kExitUnreadable when NVML cannot be used (the facts from
// /proc are written all the same) or the output cannot be written.
int run_doctor(const DoctorCommand& command) {
  // The variable is for tests, and for a container that has the host's library under another name.
  const std::string library = value_or("CULPRIT_NVML", kManagementLibrary);
  NvmlFacts nvml = nvml_facts(library);
  log::debug("facts of the GPUs from " + library + (nvml.available ? "" : ": not usable"));
  if (command.gpu && nvml.available && *command.gpu >= nvml.gpus.size()) {
    log::error("there is no GPU " + std::to_string(*command.gpu) + "; this machine shows " +
               std::to_string(nvml.gpus.size()));
    return kExitUsage;
  }
  const ProcFacts proc = read_proc(value_or("CULPRIT_PROC", "/proc"), numbers_in(nvml));
  SystemFacts machine;
  machine.name = host_name();
  if (machine.name.empty()) machine.name = "this machine";
  machine.driver = read_driver_module(proc.root);
  machine.log = read_kernel_log(value_or("CULPRIT_KMSG", "/dev/kmsg"));
  machine.mps_pipes = mps_pipes_here(value_or("CUDA_MPS_PIPE_DIRECTORY", ""));
  Diagnosis diagnosis = explain(nvml, proc, look_inside(proc, users_of(nvml, proc)), machine);
  // All GPUs are examined even for one of them: a process that NVML names on another GPU is not a keeper here.
  if (command.gpu) {
    std::vector<GpuDiagnosis> chosen;
    for (GpuDiagnosis& gpu : diagnosis.gpus) {
      if (gpu.gpu.index == *command.gpu) chosen.push_back(std::move(gpu));
    }
    diagnosis.gpus = std::move(chosen);
  }
  const int written =
      write_output(command.output, DefaultStream::kStdout, [&](const Terminal& terminal, std::ostream& out) {
        if (command.output.format == "json") {
          render_doctor_json(diagnosis, out);
        } else {
          render_doctor_text(diagnosis, terminal.colours, out);
        }
      });
  if (written != kExitFine) return written;
  return nvml.available ? kExitFine : kExitUnreadable;
}

}  // namespace

Action declare_doctor(OptionList* options) {
  const auto command = std::make_shared<DoctorCommand>();
  options->add("--gpu", &command->gpu, "Only the GPU with this number (as nvidia-smi counts)").type("N");
  add_format_options(options, &command->output, {"text", "json"}, "text or json (schema culprit.doctor/1)",
                     "Write to FILE");
  return [command] { return run_doctor(*command); };
}

}  // namespace culprit::report
