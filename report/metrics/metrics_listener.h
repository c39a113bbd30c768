// Serves the metrics over HTTP: GET /metrics, and 404 to everything else.
#pragma once

#include <string>

#include "report/metrics/fresh_text.h"
#include "report/metrics/listen_address.h"

struct mg_context;

namespace culprit::report {

// The threads of the server live as long as this.
class MetricsListener {
 public:
  // `text` must outlive it. Throws std::runtime_error when the address cannot be used.
  MetricsListener(const ListenAddress& address, FreshText* text);
  ~MetricsListener();
  MetricsListener(const MetricsListener&) = delete;
  MetricsListener& operator=(const MetricsListener&) = delete;

  // With the port that was chosen for 0.
  const ListenAddress& address() const { return address_; }

 private:
  ListenAddress address_;
  mg_context* server_ = nullptr;
};

}  // namespace culprit::report
