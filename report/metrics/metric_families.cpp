#include "report/metrics/metric_families.h"

#include <functional>
#include <string>
#include <utility>

namespace culprit::report {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

// A family while its series are added.
class Family {
 public:
  Family(const char* name, const char* help, MetricType type) {
    family_.name = name;
    family_.help = help;
    family_.type = type;
  }

  void add(Labels labels, double value) {
    ClientMetric metric;
    metric.label = std::move(labels);
    if (family_.type == MetricType::Counter) {
      metric.counter.value = value;
    } else {
      metric.gauge.value = value;
    }
    family_.metric.push_back(std::move(metric));
  }

  void move_to(std::vector<MetricFamily>* families) {
    if (!family_.metric.empty()) families->push_back(std::move(family_));
  }

 private:
  MetricFamily family_;
};

class FamilyList {
 public:
  explicit FamilyList(const Observation& observation) : observation_(observation) {}

  // One series of the machine.
  void of_all(const char* name, const char* help, double value) {
    Family family(name, help, MetricType::Gauge);
    family.add({}, value);
    family.move_to(&families_);
  }

  // Series of each process: `add` takes the labels, which begin with the pid, and the value.
  using Add = std::function<void(const Labels&, double)>;
  void of_each(const char* name, const char* help, MetricType type, bool readable_only,
               const std::function<void(const ProcessSample&, const Add&)>& series) {
    Family family(name, help, type);
    for (const ProcessSample& process : observation_.processes) {
      if (readable_only && !process.readable) continue;
      series(process, [&](const Labels& more, double value) {
        Labels labels = {{"pid", std::to_string(process.pid)}};
        labels.insert(labels.end(), more.begin(), more.end());
        family.add(std::move(labels), value);
      });
    }
    family.move_to(&families_);
  }
  void gauge(const char* name, const char* help, const std::function<void(const ProcessSample&, const Add&)>& series) {
    of_each(name, help, MetricType::Gauge, true, series);
  }
  void counter(const char* name, const char* help, std::uint64_t ProcessSample::*value) {
    of_each(name, help, MetricType::Counter, true,
            [value](const ProcessSample& process, const Add& add) { add({}, static_cast<double>(process.*value)); });
  }

  std::vector<MetricFamily> take() { return std::move(families_); }

 private:
  const Observation& observation_;
  std::vector<MetricFamily> families_;
};

using Add = FamilyList::Add;

Labels labels_of(const MemorySum& sum, bool with_cause) {
  Labels labels = {{"device", sum.device}, {"kind", sum.kind}};
  if (with_cause) labels.push_back({"cause", sum.cause});
  return labels;
}

Labels labels_of(const StackSum& sum) { return {{"id", sum.id}, {"function", sum.function}, {"place", sum.place}}; }

void add_processes(FamilyList* list, const Observation& observation) {
  list->of_all("culprit_processes", "Processes that are observed.", static_cast<double>(observation.processes.size()));
  list->of_all("culprit_processes_left_out", "Processes that record and are beyond the limit of 256.",
               static_cast<double>(observation.left_out));
  list->of_all("culprit_reading_duration_seconds", "Time that reading the dumps of all processes took.",
               observation.seconds);
  list->of_each("culprit_process_up", "1 if the dump of the process could be read.", MetricType::Gauge, false,
                [](const ProcessSample& process, const Add& add) { add({}, process.readable ? 1 : 0); });
  list->gauge("culprit_process_info", "The program of a process, and the version of its recorder.",
              [](const ProcessSample& process, const Add& add) {
                add({{"executable", process.executable},
                     {"host", process.host},
                     {"rank", process.rank},
                     {"version", process.version}},
                    1);
              });
  list->gauge(
      "culprit_process_start_time_seconds", "Time of the first CUDA call, since the epoch.",
      [](const ProcessSample& process, const Add& add) { add({}, static_cast<double>(process.start_ns) / 1e9); });
  list->gauge("culprit_process_running", "1 while the process runs; 0 for a dump of one that has ended.",
              [](const ProcessSample& process, const Add& add) { add({}, process.running ? 1 : 0); });
  list->gauge("culprit_recording", "1 while new allocations are recorded.",
              [](const ProcessSample& process, const Add& add) { add({}, process.recording ? 1 : 0); });
  list->gauge("culprit_device_info", "The GPU behind a device number of a process.",
              [](const ProcessSample& process, const Add& add) {
                for (const SampledDevice& device : process.devices)
                  add({{"device", device.device}, {"uuid", device.uuid}, {"name", device.name}}, 1);
              });
}

void add_memory(FamilyList* list) {
  list->gauge("culprit_live_bytes", "Memory that was allocated and not freed, without that of caching allocators.",
              [](const ProcessSample& process, const Add& add) {
                for (const MemorySum& sum : process.live) add(labels_of(sum, true), static_cast<double>(sum.bytes));
              });
  list->gauge("culprit_live_allocations", "Allocations of culprit_live_bytes.",
              [](const ProcessSample& process, const Add& add) {
                for (const MemorySum& sum : process.live) add(labels_of(sum, true), static_cast<double>(sum.count));
              });
  list->gauge("culprit_cached_bytes", "Memory that caching allocators took from the driver.",
              [](const ProcessSample& process, const Add& add) {
                for (const MemorySum& sum : process.cached) add(labels_of(sum, false), static_cast<double>(sum.bytes));
              });
  list->gauge("culprit_cached_segments", "Allocations of culprit_cached_bytes.",
              [](const ProcessSample& process, const Add& add) {
                for (const MemorySum& sum : process.cached) add(labels_of(sum, false), static_cast<double>(sum.count));
              });
  list->gauge("culprit_cache_inside_bytes",
              "PyTorch's cache by its own counts: live in tensors, idle, and scattered, the idle bytes that cannot be "
              "given back.",
              [](const ProcessSample& process, const Add& add) {
                for (const CacheBytes& inside : process.insides) {
                  for (const auto& [part, bytes] : {std::pair("live", inside.live), std::pair("idle", inside.idle()),
                                                    std::pair("scattered", inside.scattered)})
                    add({{"device", std::to_string(inside.device)}, {"part", part}}, static_cast<double>(bytes));
                }
              });
  list->gauge("culprit_stack_bytes", "Memory of the stacks that hold most, live and cached; the id other has the rest.",
              [](const ProcessSample& process, const Add& add) {
                for (const StackSum& sum : process.stacks) add(labels_of(sum), static_cast<double>(sum.bytes));
              });
  list->gauge("culprit_stack_allocations", "Allocations of culprit_stack_bytes.",
              [](const ProcessSample& process, const Add& add) {
                for (const StackSum& sum : process.stacks) add(labels_of(sum), static_cast<double>(sum.count));
              });
  list->gauge("culprit_balance_bytes", "Memory of a device by its purpose; the part rest is not explained.",
              [](const ProcessSample& process, const Add& add) {
                for (const PartSum& sum : process.parts)
                  add({{"device", sum.device}, {"part", sum.part}}, static_cast<double>(sum.bytes));
              });
  list->gauge("culprit_charged_bytes", "Memory of a device that NVML charges to the process.",
              [](const ProcessSample& process, const Add& add) {
                for (const SampledDevice& device : process.devices)
                  if (device.charged) add({{"device", device.device}}, static_cast<double>(*device.charged));
              });
}

// Of `culprit watch`.
void add_verdicts(FamilyList* list) {
  const auto labels = [](const WatchedSum& row) {
    return Labels{{"id", row.id}, {"kind", row.kind}, {"function", row.function}, {"place", row.place}};
  };
  list->gauge("culprit_watched_seconds", "Time for which the rows of the process are watched, without pauses.",
              [](const ProcessSample& process, const Add& add) {
                if (process.watched_looks != 0) add({}, process.watched_seconds);
              });
  list->gauge("culprit_watched_looks", "Looks at the process; before the 24th no row has a verdict.",
              [](const ProcessSample& process, const Add& add) {
                if (process.watched_looks != 0) add({}, static_cast<double>(process.watched_looks));
              });
  list->gauge("culprit_rows", "Stacks and kinds by the verdict of culprit watch.",
              [](const ProcessSample& process, const Add& add) {
                for (const auto& [verdict, rows] : process.verdicts)
                  add({{"verdict", verdict}}, static_cast<double>(rows));
              });
  list->gauge("culprit_rows_left_out", "Rows that are not watched, because there is no room.",
              [](const ProcessSample& process, const Add& add) {
                if (process.watched_looks != 0) add({}, static_cast<double>(process.not_watched));
              });
  list->gauge("culprit_row_verdict", "1 for the verdict of a row; those that leak come first.",
              [labels](const ProcessSample& process, const Add& add) {
                for (const WatchedSum& row : process.watched) {
                  Labels all = labels(row);
                  all.push_back({"verdict", row.verdict});
                  add(all, 1);
                }
              });
  list->gauge("culprit_row_bytes_per_minute", "Growth of the least that a row holds, by Theil and Sen.",
              [labels](const ProcessSample& process, const Add& add) {
                for (const WatchedSum& row : process.watched)
                  if (!row.objects) add(labels(row), row.per_minute);
              });
  list->gauge("culprit_row_objects_per_minute", "The same of streams, events and other objects, in their number.",
              [labels](const ProcessSample& process, const Add& add) {
                for (const WatchedSum& row : process.watched)
                  if (row.objects) add(labels(row), row.per_minute);
              });
}

}  // namespace

std::vector<MetricFamily> families_of(const Observation& observation) {
  FamilyList list(observation);
  add_processes(&list, observation);
  add_memory(&list);
  add_verdicts(&list);
  list.counter("culprit_allocations_total", "Allocations of memory.", &ProcessSample::allocations);
  list.counter("culprit_frees_total", "Frees of memory.", &ProcessSample::frees);
  list.counter("culprit_failed_allocations_total", "Allocations of memory that the driver refused.",
               &ProcessSample::failed_allocations);
  list.counter("culprit_not_recorded_events_total", "Events that were not recorded: other figures may be too small.",
               &ProcessSample::not_recorded);
  return list.take();
}

}  // namespace culprit::report
